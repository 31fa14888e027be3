--[[
  preheat_shard: does to one shard what the preheat of a sharded activity wants, once. The epoch of the shard, or a record of the
  plan, says whether it was done: a preheat that was cut short is finished by sending all calls again.

  KEYS[1]  stock          string
  KEYS[2]  meta           hash    rules, title, repairs, withdrawn
  KEYS[3]  requests       hash    `\tu:<plan>`: by how many units an update changed the shard, such as `-3`; <tab>moving: a change
                                  of the total that was cut
  KEYS[4]  ledger         stream  an entry `preheat` or `update`, as the script preheat writes them
  KEYS[5]  participants   hash
  KEYS[6]  deadlines      sorted set

  ARGV[1]  mode           set: the shard becomes new, whatever it was; update; or remove: nothing is left of it but its epoch, in
                          rules that are archived, without ledger and units: for every other script it is not there
  ARGV[2]  by             who runs this, for the ledger; may be empty
  ARGV[3]  reason         why, for the ledger; may be empty
  ARGV[4]  epoch          of the whole sale: set gives it to the shard, update requires it, remove spares a shard that has it
  ARGV[5]  plan           update: names the change; else empty
  ARGV[6]  units          set: to sell; update: by how much total and stock change, such as `5` or `-5`; remove: empty
  ARGV[7]  per_user_limit, ARGV[8] title, ARGV[9] starts_at, ARGV[10] ends_at
                          as they should be, empty for none; times are Unix ms; to remove, they may be left out

  Returns {status, units, stock, total}: by how many units it changed, and what is left and the total afterwards, all as texts
     1 ok                 done
     2 replayed           done before: set: it has this epoch, and its stock; update: it has a record of this plan; remove: it was
                          removed from the sale of this epoch
    -4 not_preheated      {-4, false}: update: KEYS[1] or KEYS[2] is absent, or it was removed
    -6 ended              {-6, false}: update: it is archived
   -11 corrupt            {-11, false, false, n, value}: KEYS[n] holds value (false: it is of the wrong type, or of set: the stock of
                          this epoch is gone, though it was sold from)
   -21 other epoch        {-21, epoch}: set: it has a later one, or was removed from this one; remove: this or a later one; update:
                          any other
  Stock includes withdrawn units, and what an update changes is withdrawn while the stock is.

  Units that are sold meanwhile: an update that lowers the total takes no more units than are left here at that instant, and says
  how many. The rest is for the caller to take from other shards; if all of them have too few, it returns what it took, by another
  plan, and reports out_of_stock. Between the two, buyers find fewer units, never more.

  Only ok writes, and replayed, which writes record or rules again: a caller that waits for replicas has something to wait for. The stock comes last if it grows and first if it shrinks, so that a cut leaves fewer units to sell, never more. The same call
  again does what a cut left: all of a set without its stock, of an update what comes behind its record. Units that an update took
  before it, or did not add behind its entry, an audit finds.

  Commands it needs (checked before the first write from Redis 7.0 on): GET HGET HMGET TYPE EXISTS XRANGE XREVRANGE XLEN SET
  DECRBY INCRBY HSET HDEL UNLINK XADD.
]]
--- @use "codes"
--- @use "total_change"

local mode, by, reason, plan = ARGV[1], ARGV[2], ARGV[3], ARGV[5]
if mode ~= 'set' and mode ~= 'update' and mode ~= 'remove' then return usage('preheat_shard: ARGV[1] is not set, update or remove') end
if #ARGV < (mode == 'remove' and 6 or 10) or #ARGV > 10 then return usage('preheat_shard: 10 arguments are wanted, not ' .. #ARGV) end
if #KEYS ~= 6 then return usage('preheat_shard: 6 keys are wanted, not ' .. #KEYS) end
local epoch = whole(ARGV[4])
if not epoch then return usage('preheat_shard: ARGV[4] is not an epoch') end
if (mode == 'update') ~= (plan ~= '') or not find(plan, '^%w*$') then return usage('preheat_shard: ARGV[5] is not the plan of an update') end
local units, title = 0, ARGV[8]
if mode ~= 'remove' then
  local sign, number = string.match(ARGV[6], '^(%-?)(%d+)$')
  units = whole(number)
  if not units or (sign == '-' and (mode == 'set' or units == 0)) then return usage('preheat_shard: ARGV[6] is not a number of units') end
  if sign == '-' then units = -units end
end
local given = {limit = whole(ARGV[7]), starts = whole(ARGV[9]), ends = whole(ARGV[10])}
if mode ~= 'remove' then
  if not (given.limit or ARGV[7] == '') then return usage('preheat_shard: per_user_limit') end
  if not (given.starts or ARGV[9] == '') then return usage('preheat_shard: starts_at') end
  if not (given.ends or ARGV[10] == '') then return usage('preheat_shard: ends_at') end
  if given.starts and given.ends and given.starts >= given.ends then return usage('preheat_shard: the window ends before it starts') end
end

local function denied()
  return denied_command('SET', KEYS[1], 'INCRBY', KEYS[1], 'DECRBY', KEYS[1], 'HSET', KEYS[2], 'HDEL', KEYS[2],
    'HSET', KEYS[3], 'HDEL', KEYS[3], 'XADD', KEYS[4], 'UNLINK', KEYS[1])
end

-- A set and a removal look only for the epoch, which is the third word of the rules, even if the others are damaged.
if mode ~= 'update' then
  local is_meta = redis.call('TYPE', KEYS[2]).ok == 'hash'
  local text = is_meta and redis.call('HGET', KEYS[2], 'rules') or ''
  local has = whole(string.match(text, '^%S+ %S+ (%d+) '))
  local is_removed = find(text, REMOVED) ~= nil
  if has and (has > epoch or has == epoch and is_removed ~= (mode == 'remove')) then return {OTHER_EPOCH, digits(has)} end
  local command = denied()
  if command then return forbidden(command) end
  if has == epoch then
    local known, stock = parse_rules(text), redis.pcall('GET', KEYS[1])
    if stock or is_removed then
      redis.call('HSET', KEYS[2], 'rules', text)
      if is_removed then return {REPLAYED, '0', false, false} end
      return {REPLAYED, '0', type(stock) == 'string' and stock, known and digits(known.total) or false}
    end
    -- The stock is what a set writes last: without it nobody can have bought.
    local is_sold = redis.call('EXISTS', KEYS[3], KEYS[5], KEYS[6]) > 0
      or redis.call('TYPE', KEYS[4]).ok == 'stream' and redis.call('XLEN', KEYS[4]) > 1
    if is_sold then return {CORRUPT, false, false, 1, false} end
  end
  redis.call('UNLINK', KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6])
  if mode == 'remove' then
    redis.call('HSET', KEYS[2], 'rules', rules_text({state = 'archived', ledger = false, epoch = epoch, total = 0}))
    return {OK, '0', false, false}
  end
  local rules = {state = 'live', ledger = true, epoch = epoch, limit = given.limit, total = units, starts = given.starts, ends = given.ends}
  local set = {'rules', rules_text(rules), 'repairs', '0'}
  if title ~= '' then set[5], set[6] = 'title', title end
  redis.call('HSET', KEYS[2], unpack(set))
  local total = digits(units)
  redis.call('XADD', KEYS[4], '*', unpack(entry('preheat', by, reason, total, 'total', total, 'epoch', digits(epoch))))
  redis.call('SET', KEYS[1], total)
  return {OK, total, total, total}
end

-- An update: read what there is.
local shard, reply = read_shard(digits(epoch))
if not shard then return reply end
local record_key = '\tu:' .. plan
local record = redis.pcall('HGET', KEYS[3], record_key)
if type(record) == 'table' then return unfit(record, 3) end
local command = denied()
if command then return forbidden(command) end
reply = finish_move(shard)
if reply then return reply end
if record then
  redis.call('HSET', KEYS[3], record_key, record)
  return {REPLAYED, record, digits(shard.units), digits(shard.rules.total)}
end

-- Write.
-- Without a minus before a zero.
units = math.max(units, -shard.units, -shard.rules.total) + 0
if shard.units + units > MOST_UNITS or shard.rules.total + units > MOST_UNITS then return usage('preheat_shard: the stock would pass 2^53 - 1') end
local change, total = digits(units), digits(shard.rules.total + units)
if units < 0 then
  take_units(shard.units, shard.withdrawn, -units)
  shard.units = shard.units + units
end
begin_move(shard, {'update', plan, digits(math.max(units, 0)), '', total, by, reason, '', ARGV[7], ARGV[9], ARGV[10], title},
  {record_key, change})
return {OK, change, digits(shard.units), total}
