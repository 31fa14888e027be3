--[[
  product: takes units of one product, in place of a plain script on the key of the layout `product`.

  KEYS[1]  stock          string  product_stock_<id>: units left

  ARGV[1]  quantity       1 to 1000000000

  Numbers, given and stored, are `0` or plain digits that begin with 1 to 9.

  Returns what the plain script does:
    -1             KEYS[1] is absent
    0              fewer units are left
    1              the units are taken
  A fault is an error, and nothing is changed:
    USAGE          the number of keys or arguments, or the quantity, is not as above
    CORRUPT        KEYS[1] is of the wrong type, or holds what is no number; the message has key and value

  What it cannot know with this key and argument:
    pause         `seckill pause` does not stop it, `seckill pause --withdraw-stock` does
    window        it sells before the start and after the end
    limit, user   nobody is recorded
    request id    a call that is sent again sells again; after a timeout look before you repeat it
    ledger        it writes none: preheat with `ledger: false`, or `seckill reconcile` reports what it sold as drift
  `seckill script show deduct` knows all of them.

  Commands it needs: GET DECRBY.
]]
--- @use "drop_in"

-- Check everything.
if #KEYS ~= 1 or #ARGV ~= 1 then return miscounted('product', 1, 1) end
local quantity = quantity_of(ARGV[1])
if not quantity then return bad_quantity('product', 1) end

local stock_text = redis.pcall('GET', KEYS[1])
if not stock_text then return -1 end
local stock = whole(stock_text)
if not stock then return corrupt(KEYS[1], stock_text, 'number of units') end
if quantity > stock then return 0 end

-- Write.
redis.call('DECRBY', KEYS[1], ARGV[1])
return 1
