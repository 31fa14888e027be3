--[[
  hm-dianping: sells a voucher to a user who has none and queues the order, in place of the script of the tutorial of that name. The
  keys, which that script joins from ARGV[1], are passed here.

  KEYS[1]  stock          string  seckill:stock:<id>: vouchers left
  KEYS[2]  users          set     seckill:order:<id>: users who have one
  KEYS[3]  orders         stream  stream.orders: the orders that a worker writes to the database

  ARGV[1]  voucher        its id
  ARGV[2]  user
  ARGV[3]  order          its id
  Each has 1 to 256 bytes, without control characters and white space at either end.

  The stored number is `0` or plain digits that begin with 1 to 9.

  Returns what the plain script does. If several apply, the first of
    1              none is left
    2              the user has one
    0              the user has one now, and the order is in the stream: userId, voucherId, id
  A fault is an error, and nothing is changed:
    USAGE          the number of keys or arguments, or one of them, is not as above
    NOT_PREHEATED  KEYS[1] is absent
    CORRUPT        a key is of the wrong type, or holds what is no number; the message has key and value
    NOPERM         this user of the server may not run SADD or XADD (found before the first write from Redis 7.0 on)
  The stock is written first and the order last, so that a cut leaves fewer vouchers, never more, and no order of a user who may
  buy again.

  What it cannot know with these keys and arguments:
    pause         `seckill pause` does not stop it, `seckill pause --withdraw-stock` does
    window        it sells before the start and after the end
    request id    a call that is sent again answers 2, or 1 if none is left, also if the first one sold the voucher
    ledger        it writes none: preheat with `ledger: false`, or `seckill reconcile` reports what it sold as drift
    lost records  if the set expired or was evicted, everybody may have one again
  `seckill script show deduct` knows all of them. `layouts/hm-dianping.yaml` names the keys for `seckill`.

  Commands it needs: GET SISMEMBER XREVRANGE DECR SADD XADD.
]]
--- @use "codes"
--- @use "drop_in"

-- Check everything.
if #KEYS ~= 3 or #ARGV ~= 3 then return miscounted('hm-dianping', 3, 3) end
local voucher, user, order = ARGV[1], ARGV[2], ARGV[3]
if not is_user(voucher) then return bad_text('hm-dianping', 1, 'voucher') end
if not is_user(user) then return bad_text('hm-dianping', 2, 'user') end
if not is_user(order) then return bad_text('hm-dianping', 3, 'order') end

local stock_text, member = redis.pcall('GET', KEYS[1]), redis.pcall('SISMEMBER', KEYS[2], user)
local at_last_id = redis.pcall('XREVRANGE', KEYS[3], LAST_ID, LAST_ID, 'COUNT', '1')
if not stock_text then return not_preheated(KEYS[1]) end
local stock = whole(stock_text)
if not stock then return corrupt(KEYS[1], stock_text, 'number of vouchers') end
if type(member) ~= 'number' then return corrupt(KEYS[2], member, 'set of users') end
if at_last_id.err then return corrupt(KEYS[3], at_last_id, 'stream of orders') end
-- No entry comes behind the last id that there can be.
if #at_last_id > 0 then return corrupt(KEYS[3], LAST_ID, 'stream that takes another order') end
if stock == 0 then return 1 end
if member == 1 then return 2 end
if redis.acl_check_cmd and not redis.acl_check_cmd('SADD', KEYS[2], user) then return forbidden('SADD') end
if redis.acl_check_cmd and not redis.acl_check_cmd('XADD', KEYS[3], '*', 'id', order) then return forbidden('XADD') end

-- Write: the stock first, the order last.
redis.call('DECR', KEYS[1])
redis.call('SADD', KEYS[2], user)
redis.call('XADD', KEYS[3], '*', 'userId', user, 'voucherId', voucher, 'id', order)
return 0
