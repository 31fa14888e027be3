--[[
  sku-multi: takes units of several SKUs in one step, all or nothing, in place of a plain script on the stocks of the layout `sku`.

  KEYS[n]  stock          string  stock:<id>: units left of the nth SKU; at most 512 keys

  ARGV[n]  quantity       of KEYS[n], 1 to 1000000000

  Numbers, given and stored, are `0` or plain digits that begin with 1 to 9. A key that is given several times counts once,
  with the sum of its quantities.

  Returns what the plain script does: a list of texts `key=rest`, one for each key of which fewer units are left, in the order
  of KEYS; rest is what is left, and nothing is taken. An empty list: all units are taken.
  A fault is an error, and nothing is changed:
    USAGE          no key, other numbers of keys and arguments, more than 512, or a quantity is not as above
    NOT_PREHEATED  a key is absent
    CORRUPT        a key is of the wrong type, or holds what is no number; the message has key and value
    NOPERM         this user of the server may not run DECRBY on one of the keys (found before the first write from Redis 7.0 on)
  A cut leaves fewer units for sale, never more.

  What it cannot know with these keys and arguments:
    pause         `seckill pause` does not stop it, `seckill pause --withdraw-stock` does
    window        it sells before the start and after the end
    limit, user   nobody is recorded: `seckill inspect` and `seckill reconcile` see the units as sold to nobody, and until
                  somebody is recorded `seckill deduct` answers `corrupt`, as if the records were lost
    request id    a call that is sent again sells again; after a timeout look before you repeat it
    ledger        it writes none: preheat with `ledger: false`, or `seckill reconcile` reports what it sold as drift
  `seckill script show multi_deduct` knows all of them. It computes its keys; a proxy that refuses that refuses it too.

  Commands it needs: GET DECRBY.
]]
--- @use "drop_in"

-- Check everything.
local MOST_KEYS = 512
if #KEYS < 1 or #KEYS ~= #ARGV then
  return usage('sku-multi: at least one key is wanted, with a quantity each, not ' .. #KEYS .. ' keys and ' .. #ARGV .. ' quantities')
end
if #KEYS > MOST_KEYS then return usage('sku-multi: more than ' .. MOST_KEYS .. ' keys in one call') end
-- Numbers of the keys, each key once, and the units of each in all.
local firsts, wanted = {}, {}
for i = 1, #KEYS do
  local key, quantity = KEYS[i], quantity_of(ARGV[i])
  if not quantity then return bad_quantity('sku-multi', i) end
  if not wanted[key] then firsts[#firsts + 1], wanted[key] = i, 0 end
  wanted[key] = wanted[key] + quantity
end
local short = {}
for _, i in ipairs(firsts) do
  local stock_text = redis.pcall('GET', KEYS[i])
  if not stock_text then return not_preheated(KEYS[i]) end
  local stock = whole(stock_text)
  if not stock then return corrupt(KEYS[i], stock_text, 'number of units') end
  if wanted[KEYS[i]] > stock then short[#short + 1] = KEYS[i] .. '=' .. stock_text end
end
if #short > 0 then return short end
for _, i in ipairs(redis.acl_check_cmd and firsts or {}) do
  if not redis.acl_check_cmd('DECRBY', KEYS[i], '1') then return forbidden('DECRBY') end
end

-- Write.
for _, i in ipairs(firsts) do
  redis.call('DECRBY', KEYS[i], digits(wanted[KEYS[i]]))
end
return {}
