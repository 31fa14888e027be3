--[[
  seckill: takes units of one activity for a user, in place of a plain script on the keys of the layout `seckill`.

  KEYS[1]  stock          string  seckill:stock:<id>: units left
  KEYS[2]  participants   hash    seckill:participants:<id>: user -> units

  ARGV[1]  user           1 to 256 bytes, without control characters and white space at either end
  ARGV[2]  quantity       1 to 1000000000
  ARGV[3]  limit          units that a user may hold, 0 to 2^53 - 1

  Numbers, given and stored, are `0` or plain digits that begin with 1 to 9.

  Returns what the plain script does. If several apply, the first of
    {0, "超过个人限购"}  the user would hold more than the limit
    {0, "库存不足"}      fewer units are left
    {1, "成功"}          the units are taken
  A fault is an error, and nothing is changed:
    USAGE          the number of keys or arguments, or an argument, is not as above
    NOT_PREHEATED  KEYS[1] is absent
    CORRUPT        a key is of the wrong type, or holds what is no number; the message has key and value
    NOPERM         this user of the server may not run HINCRBY (found before the first write from Redis 7.0 on)
  The stock is written first, so that a cut leaves fewer units for sale, never more.

  What it cannot know with these keys and arguments:
    pause         `seckill pause` does not stop it, `seckill pause --withdraw-stock` does
    window        it sells before the start and after the end
    limit         the caller's is believed, also if the activity has another
    request id    a call that is sent again sells again; after a timeout look before you repeat it
    ledger        it writes none: preheat with `ledger: false`, or `seckill reconcile` reports what it sold as drift
    lost records  if participants expired or were evicted, limits begin anew
  `seckill script show deduct` knows all of them.

  Commands it needs: GET HGET DECRBY HINCRBY.
]]
--- @use "drop_in"

-- Check everything.
if #KEYS ~= 2 or #ARGV ~= 3 then return miscounted('seckill', 2, 3) end
local user, quantity, limit = ARGV[1], quantity_of(ARGV[2]), whole(ARGV[3])
if not is_user(user) then return bad_text('seckill', 1, 'user') end
if not quantity then return bad_quantity('seckill', 2) end
if not limit then return usage('seckill: ARGV[3], the limit, is not 0 to 2^53 - 1 in plain digits: ' .. quoted(ARGV[3], OF_VALUE)) end

local stock_text, held_text = redis.pcall('GET', KEYS[1]), redis.pcall('HGET', KEYS[2], user)
if not stock_text then return not_preheated(KEYS[1]) end
local stock, held = whole(stock_text), whole(held_text or '0')
if not stock then return corrupt(KEYS[1], stock_text, 'number of units') end
if not held then return corrupt(KEYS[2], held_text, 'number of units of a user') end
if held + quantity > limit then return {0, '超过个人限购'} end
if quantity > stock then return {0, '库存不足'} end
if redis.acl_check_cmd and not redis.acl_check_cmd('HINCRBY', KEYS[2], user, ARGV[2]) then return forbidden('HINCRBY') end

-- Write: the stock first.
redis.call('DECRBY', KEYS[1], ARGV[2])
redis.call('HINCRBY', KEYS[2], user, ARGV[2])
return {1, '成功'}
