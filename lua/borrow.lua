--[[
  borrow: gives a shard, the home, units that another shard of the same activity, the donor, lent by `lend`. Whoever calls it knows
  that the donor's replicas have the lend: a lend that a failover loses after this would sell units twice.

  KEYS[1]  stock     string  the home's units left
  KEYS[2]  meta      hash    rules, whose total this raises by as much; withdrawn
  KEYS[3]  requests  hash    <tab>tb:<id> -> `units donor`; <tab>moving: a change of the total that was cut
  KEYS[4]  ledger    stream  one entry, `borrow`

  ARGV[1]  by        who runs this, for the ledger; may be empty
  ARGV[2]  id        of the transfer, as it was lent
  ARGV[3]  epoch     of the activity
  ARGV[4]  donor     the number of the donor
  ARGV[5]  units     as lend replied them

  Returns
     1 ok             {1, stock}: the units are here; the stock after it, with what is withdrawn
     2 replayed       {2, stock}: they were given before; the record is written again, so that a WAIT that follows covers it
    -4 not_preheated  {-4, false}: this is no shard
    -6 ended          {-6, false}: it is archived
    -9 request_conflict  {-9, stock}: this id gave other units, or those of another donor
   -11 corrupt        {-11, false, false, n, value}: KEYS[n] holds value (false: it is of the wrong type)
   -21 other epoch    {-21, epoch}: the activity was reset
  The transfer is written first, then the total, the ledger, and last the stock: a cut leaves fewer units to sell, never more. What is
  cut before the ledger, the same call finishes, and whatever else changes the total. While the stock is withdrawn, meta's `withdrawn`
  grows instead of it. A pause refuses nothing here.

  Commands it needs (checked before the first write from Redis 7.0 on): GET HGET HMGET TYPE XLEN XRANGE XREVRANGE INCRBY
  HSET HDEL XADD.
]]
--- @use "codes"
--- @use "total_change"

local by, id, epoch, donor, units = ARGV[1], ARGV[2], ARGV[3], ARGV[4], whole(ARGV[5])
if #KEYS ~= 4 then return usage('borrow: 4 keys are wanted, not ' .. #KEYS) end
if #ARGV ~= 5 then return usage('borrow: 5 arguments are wanted, not ' .. #ARGV) end
if not is_transfer(id) then return usage('borrow: ARGV[2] is not the id of a transfer') end
if not whole(epoch) then return usage('borrow: ARGV[3] is not an epoch') end
if not is_shard(donor) then return usage('borrow: ARGV[4] is not the number of a shard') end
if not units or units < 1 then return usage('borrow: ARGV[5] is not units') end

local shard, reply = read_shard(epoch)
if not shard then return reply end
local field, record = '\ttb:' .. id, ARGV[5] .. ' ' .. donor
local found = redis.pcall('HGET', KEYS[3], field)
if type(found) == 'table' then return unfit(found, 3) end
if found and found ~= record then return {REQUEST_CONFLICT, shard.units} end
local finished
reply, finished = finish_move(shard)
if reply then return reply end
local total = shard.rules.total + units
if total > MOST_UNITS then return usage('borrow: the total would pass 2^53 - 1') end
local denied = denied_move(not found)
if denied then return forbidden(denied) end

-- Write: the stock last.
if found then
  redis.call('HSET', KEYS[3], field, record)
  return {finished == id and OK or REPLAYED, shard.units}
end
begin_move(shard, {'borrow', id, digits(units), donor, digits(total), by, ''}, {field, record})
return {OK, shard.units}
