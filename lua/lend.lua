--[[
  lend: takes units of a shard, the donor, that another shard of the same activity, the home, is to get by `borrow`. Until then they
  are in transit: in no stock, and in the donor's list of open transfers.

  KEYS[1]  stock     string  the donor's units left
  KEYS[2]  meta      hash    rules, whose total this lowers by as much; withdrawn
  KEYS[3]  requests  hash    <tab>tt:<id> -> `units home ms`; <tab>lent -> ids of open transfers, joined by spaces; <tab>moving: a
                             change of the total that was cut
  KEYS[4]  ledger    stream  one entry, `lend`

  ARGV[1]  by        who runs this, for the ledger; may be empty
  ARGV[2]  id        of the transfer: 40 hexadecimal digits, of one donor and one home; empty: only ARGV[7] is of use, and
                     a change that was cut is finished
  ARGV[3]  epoch     of the activity
  ARGV[4]  home      the number of the home
  ARGV[5]  need      units that the home wants at least; 0 repeats a transfer that is known, and begins none
  ARGV[6]  want      units that it would take; 0 beside a need: all that is needed, or nothing
  ARGV[7]  finished  ids whose units have arrived, joined by spaces; may be empty

  It lends the greater of need and half of the stock, not more than is wanted, and at most the stock: maybe less than is needed.

  Returns
     1 ok             {1, units, stock}: units are in transit now; the stock after it, with what is withdrawn
     2 replayed       {2, units, home}: this id lent them before; its record is written again, so that a WAIT that follows covers it
    -3 out_of_stock   {-3, stock}: there is nothing to lend, or need and want are 0 and the id is unknown
    -4 not_preheated  {-4, false}: this is no shard
    -6 ended          {-6, false}: it is archived
   -11 corrupt        {-11, false, false, n, value}: KEYS[n] holds value (false: it is of the wrong type)
   -21 other epoch    {-21, epoch}: the activity was reset
  The stock is written first, then the transfer, the total, the ledger: a cut leaves fewer units to sell, never more. What is cut behind
  the transfer, whatever changes the total next finishes. Finished ids are removed whatever the reply. A pause refuses nothing here, and
  what it withdrew is lent too: a confirmation may need it.

  Commands it needs (checked before the first write from Redis 7.0 on): GET HMGET TYPE TIME XLEN XRANGE XREVRANGE
  DECRBY INCRBY HSET HDEL XADD.
]]
--- @use "codes"
--- @use "total_change"

local by, id, epoch, home, need, want, finished = ARGV[1], ARGV[2], ARGV[3], ARGV[4], whole(ARGV[5]), whole(ARGV[6]), ARGV[7]
if #KEYS ~= 4 then return usage('lend: 4 keys are wanted, not ' .. #KEYS) end
if #ARGV ~= 7 then return usage('lend: 7 arguments are wanted, not ' .. #ARGV) end
if id ~= '' and not is_transfer(id) then return usage('lend: ARGV[2] is not the id of a transfer') end
if not whole(epoch) then return usage('lend: ARGV[3] is not an epoch') end
if not is_shard(home) then return usage('lend: ARGV[4] is not the number of a shard') end
if not (need and want) then return usage('lend: ARGV[5] and ARGV[6] are not units') end
if id == '' and need + want > 0 then return usage('lend: units are wanted without the id of a transfer') end
local is_finished = {}
for word in string.gmatch(finished, '[^ ]+') do
  if not is_transfer(word) then return usage('lend: ARGV[7] has what is not the id of a transfer') end
  is_finished[word] = true
end

local shard, reply = read_shard(epoch)
if not shard then return reply end
local field = '\ttt:' .. id
local found = redis.pcall('HMGET', KEYS[3], '\tlent', field)
if found.err then return unfit(found, 3) end
local open, is_shorter = {}, false
for word in string.gmatch(found[1] or '', '[^ ]+') do
  if not is_transfer(word) then return unfit(found[1], 3) end
  if is_finished[word] then is_shorter = true else open[#open + 1] = word end
end
local known_units, known_home
if id ~= '' and found[2] then
  known_units, known_home = string.match(found[2], '^(%d+) (%d+) %d+$')
  known_units = whole(known_units)
  if not known_units then return unfit(found[2], 3) end
end
reply = finish_move(shard)
if reply then return reply end
local units = 0
if not known_units then
  local half = math.floor(shard.units / 2)
  units = math.min(math.max(want, need), math.max(need, half), shard.units)
  if want == 0 and units < need then units = 0 end
end
local total = shard.rules.total - units
if total < 0 then return unfit(digits(shard.rules.total) .. ' in all, with ' .. digits(shard.units) .. ' left', 2) end
local denied = (known_units or units > 0 or is_shorter) and denied_move(false) or denied_command(units > 0 and 'DECRBY', KEYS[1])
if denied then return forbidden(denied) end
local now = unix_ms()

-- Write: the stock first.
local set = {}
if known_units then set = {field, found[2]} end
if units > 0 then
  open[#open + 1] = id
  set = {field, digits(units) .. ' ' .. home .. ' ' .. digits(now)}
end
if (units > 0 or is_shorter) and #open > 0 then
  set[#set + 1] = '\tlent'
  set[#set + 1] = concat(open, ' ')
end
if units > 0 then
  take_units(shard.units, shard.withdrawn, units)
  shard.units = shard.units - units
  begin_move(shard, {'lend', id, digits(units), home, digits(total), by, ''}, set)
  return {OK, units, shard.units}
end
if #set > 0 then redis.call('HSET', KEYS[3], unpack(set)) end
if is_shorter and #open == 0 then redis.call('HDEL', KEYS[3], '\tlent') end
if known_units then return {REPLAYED, known_units, known_home} end
return {OUT_OF_STOCK, shard.units}
