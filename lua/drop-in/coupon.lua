--[[
  coupon: gives a coupon to a user who has none, in place of a plain script on the keys of the layout `coupon`.

  KEYS[1]  stock          string  coupon:stock:<id>: coupons left
  KEYS[2]  users          set     coupon:user:<id>: users who have one

  ARGV[1]  user           1 to 256 bytes, without control characters and white space at either end

  The stored number is `0` or plain digits that begin with 1 to 9.

  Returns what the plain script does. If several apply, the first of
    0              none is left
    2              the user has one
    1              the user has one now
  A fault is an error, and nothing is changed:
    USAGE          the number of keys or arguments, or the user, is not as above
    NOT_PREHEATED  KEYS[1] is absent
    CORRUPT        a key is of the wrong type, or holds what is no number; the message has key and value
    NOPERM         this user of the server may not run SADD (found before the first write from Redis 7.0 on)
  The stock is written first, so that a cut leaves fewer coupons, never more.

  What it cannot know with these keys and arguments:
    pause         `seckill pause` does not stop it, `seckill pause --withdraw-stock` does
    window        it gives coupons before the start and after the end
    request id    a call that is sent again answers 2, or 0 if none is left, also if the first one gave the coupon
    ledger        it writes none: preheat with `ledger: false`, or `seckill reconcile` reports what it gave as drift
    lost records  if the set expired or was evicted, everybody may have one again
  `seckill script show deduct` knows all of them.

  Commands it needs: GET SISMEMBER DECR SADD.
]]
--- @use "drop_in"

-- Check everything.
if #KEYS ~= 2 or #ARGV ~= 1 then return miscounted('coupon', 2, 1) end
local user = ARGV[1]
if not is_user(user) then return bad_text('coupon', 1, 'user') end

local stock_text, member = redis.pcall('GET', KEYS[1]), redis.pcall('SISMEMBER', KEYS[2], user)
if not stock_text then return not_preheated(KEYS[1]) end
local stock = whole(stock_text)
if not stock then return corrupt(KEYS[1], stock_text, 'number of coupons') end
if type(member) ~= 'number' then return corrupt(KEYS[2], member, 'set of users') end
if stock == 0 then return 0 end
if member == 1 then return 2 end
if redis.acl_check_cmd and not redis.acl_check_cmd('SADD', KEYS[2], user) then return forbidden('SADD') end

-- Write: the stock first.
redis.call('DECR', KEYS[1])
redis.call('SADD', KEYS[2], user)
return 1
