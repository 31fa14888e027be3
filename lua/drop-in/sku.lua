--[[
  sku: takes units of one SKU for a user who has not ordered it yet, in place of a plain script on the keys of the layout `sku`.

  KEYS[1]  stock          string  stock:<id>: units left
  KEYS[2]  bought         set     bought:<id>: users who ordered

  ARGV[1]  quantity       1 to 1000000000
  ARGV[2]  user           1 to 256 bytes, without control characters and white space at either end

  Numbers, given and stored, are `0` or plain digits that begin with 1 to 9.

  Returns what the plain script does. If several apply, the first of
    -2             the user has ordered before
    -1             fewer units are left
    otherwise      the units are taken: what is left
  A fault is an error, and nothing is changed:
    USAGE          the number of keys or arguments, or an argument, is not as above
    NOT_PREHEATED  KEYS[1] is absent
    CORRUPT        a key is of the wrong type, or holds what is no number; the message has key and value
    NOPERM         this user of the server may not run SADD (found before the first write from Redis 7.0 on)
  The stock is written first, so that a cut leaves fewer units for sale, never more.

  What it cannot know with these keys and arguments:
    pause         `seckill pause` does not stop it, `seckill pause --withdraw-stock` does
    window        it sells before the start and after the end
    units         it records who ordered, not how many: `seckill refund` of such a user needs --quantity
    request id    a call that is sent again answers -2, also if the first one took the units
    ledger        it writes none: preheat with `ledger: false`, or `seckill reconcile` reports what it sold as drift
    lost records  if the set expired or was evicted, everybody may order again
  `seckill script show deduct` knows all of them.

  Commands it needs: GET SISMEMBER DECRBY SADD.
]]
--- @use "drop_in"

-- Check everything.
if #KEYS ~= 2 or #ARGV ~= 2 then return miscounted('sku', 2, 2) end
local quantity, user = quantity_of(ARGV[1]), ARGV[2]
if not quantity then return bad_quantity('sku', 1) end
if not is_user(user) then return bad_text('sku', 2, 'user') end

local stock_text, member = redis.pcall('GET', KEYS[1]), redis.pcall('SISMEMBER', KEYS[2], user)
if not stock_text then return not_preheated(KEYS[1]) end
local stock = whole(stock_text)
if not stock then return corrupt(KEYS[1], stock_text, 'number of units') end
if type(member) ~= 'number' then return corrupt(KEYS[2], member, 'set of users') end
if member == 1 then return -2 end
if quantity > stock then return -1 end
if redis.acl_check_cmd and not redis.acl_check_cmd('SADD', KEYS[2], user) then return forbidden('SADD') end

-- Write: the stock first.
redis.call('DECRBY', KEYS[1], ARGV[1])
redis.call('SADD', KEYS[2], user)
return stock - quantity
