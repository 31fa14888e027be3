--[[
  peek: what a shard has, and what it lent that may not have arrived. It only reads.

  KEYS[1]  stock     string
  KEYS[2]  meta      hash    rules, withdrawn
  KEYS[3]  requests  hash    <tab>lent, <tab>tt:<id>
  KEYS[4]  ledger    stream

  Returns
     1 ok             {1, stock, last, epoch, ms, transfers}: the stock with what is withdrawn; the ledger's last id, or false; the
                      server's clock in Unix ms; and of each open transfer its id, units, home and when it was lent
    -4 not_preheated  {-4, false}: this is no shard
    -6 ended          {-6, false}: it is archived
   -11 corrupt        {-11, false, false, n, value}: KEYS[n] holds value (false: it is of the wrong type)

  Commands it needs: GET HGET HMGET TYPE TIME XLEN XREVRANGE.
]]
--- @use "codes"
--- @use "transfer"

if #KEYS ~= 4 then return usage('peek: 4 keys are wanted, not ' .. #KEYS) end
local shard, reply = read_shard()
if not shard then return reply end
local lent = redis.pcall('HGET', KEYS[3], '\tlent')
if type(lent) == 'table' then return unfit(lent, 3) end
local ids, fields, transfers = {}, {}, {}
for id in string.gmatch(lent or '', '[^ ]+') do
  ids[#ids + 1], fields[#fields + 1] = id, '\ttt:' .. id
end
-- HMGET takes one value a transfer, and unpack fails near 8,000.
for from = 1, #ids, 1000 do
  local upto = math.min(from + 999, #ids)
  local found = redis.call('HMGET', KEYS[3], unpack(fields, from, upto))
  for i = from, upto do
    local units, home, ms = string.match(found[i - from + 1] or '', '^(%d+) (%d+) (%d+)$')
    if not (is_transfer(ids[i]) and whole(units) and whole(ms)) then return unfit(found[i - from + 1] or lent, 3) end
    for _, text in ipairs({ids[i], units, home, ms}) do transfers[#transfers + 1] = text end
  end
end
return {OK, digits(shard.units), shard.last or false, digits(shard.rules.epoch), digits(unix_ms()), transfers}
