--[[
  preheat_shard: does to one shard what the preheat of a sharded activity wants, once. The epoch of the shard, or a record of the
  plan, says whether it was done: a preheat that was cut short is finished by sending all calls again.

  KEYS[1]  stock          string
  KEYS[2]  meta           hash    rules, title, repairs, withdrawn
  KEYS[3]  requests       hash    `\tu:<plan>`: by how many units an update changed the shard, such as `-3`
  KEYS[4]  ledger         stream  an entry `preheat` or `update`, as the script preheat writes them
  KEYS[5]  participants   hash
  KEYS[6]  deadlines      sorted set

  ARGV[1]  mode           set: the shard becomes new, whatever it was; update; or remove
  ARGV[2]  by             who runs this, for the ledger; may be empty
  ARGV[3]  reason         why, for the ledger; may be empty
  ARGV[4]  epoch          of the whole sale: set gives it to the shard, update requires it, remove spares a shard that has it
  ARGV[5]  plan           update: names the change; else empty
  ARGV[6]  units          set: to sell; update: by how much total and stock change, such as `5` or `-5`; remove: empty
  ARGV[7]  per_user_limit, ARGV[8] title, ARGV[9] starts_at, ARGV[10] ends_at
                          as they should be, empty for none; times are Unix ms; to remove, they may be left out

  Returns {status, units, stock, total}: by how many units it changed, and what is left and the total afterwards, all as texts
     1 ok                 done
     2 replayed           done before: set: it has this epoch; update: it has a record of this plan; remove: nothing is there
    -4 not_preheated      update: KEYS[1] or KEYS[2] is absent
   -11 corrupt            update: {-11, false, false, n, value}: KEYS[n] holds value (false: it is of the wrong type)
   -21 other epoch        {-21, epoch}: set: it has a later one; remove: this or a later one; update: any other
  Stock includes withdrawn units, and what an update changes is withdrawn while the stock is.

  Units that are sold meanwhile: an update that lowers the total takes no more units than are left here at that instant, and says
  how many. The rest is for the caller to take from other shards; if all of them have too few, it returns what it took, by another
  plan, and reports out_of_stock. Between the two, buyers find fewer units, never more.

  Only ok writes, and replayed of an update, which writes its record again: a caller that waits for replicas has something to wait
  for. The stock comes last if it grows and first if it shrinks, so that a cut leaves fewer units to sell, never more.

  Commands it needs (checked before the first write from Redis 7.0 on): GET HGET HMGET TYPE EXISTS SET DECRBY INCRBY HSET HDEL
  UNLINK XADD.
]]
--- @include "codes"

-- Includes.
--- @include "values"
--- @include "meta"
--- @include "stock"

-- Reference path.
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
  if not redis.acl_check_cmd then return nil end
  local command = not redis.acl_check_cmd('SET', KEYS[1], '1') and 'SET'
    or not redis.acl_check_cmd('INCRBY', KEYS[1], '1') and 'INCRBY'
    or not redis.acl_check_cmd('DECRBY', KEYS[1], '1') and 'DECRBY'
    or not redis.acl_check_cmd('HSET', KEYS[2], 'f', 'v') and 'HSET'
    or not redis.acl_check_cmd('HDEL', KEYS[2], 'f') and 'HDEL'
    or not redis.acl_check_cmd('XADD', KEYS[4], '*', 'f', 'v') and 'XADD'
    or not redis.acl_check_cmd('UNLINK', KEYS[1]) and 'UNLINK'
  return command and forbidden(command)
end

-- A set and a removal look only for the epoch, which is the third word of the rules, even if the others are damaged.
local meta_type = redis.call('TYPE', KEYS[2]).ok
if mode ~= 'update' then
  local rules_text_before = meta_type == 'hash' and redis.call('HGET', KEYS[2], 'rules') or ''
  local has = whole(string.match(rules_text_before, '^%S+ %S+ (%d+) '))
  if mode == 'set' and has == epoch then
    local known, stock = parse_rules(rules_text_before), redis.pcall('GET', KEYS[1])
    return {REPLAYED, '0', type(stock) == 'string' and stock, known and digits(known.total) or false}
  end
  if has and (has > epoch or (mode == 'remove' and has == epoch)) then return {OTHER_EPOCH, digits(has)} end
  local there = redis.call('EXISTS', KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]) > 0
  if mode == 'remove' and not there then return {REPLAYED, '0', false, false} end
  local refused = denied()
  if refused then return refused end
  if there then redis.call('UNLINK', KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]) end
  if mode == 'remove' then return {OK, '0', false, false} end
  local rules = {state = 'live', ledger = true, epoch = epoch, limit = given.limit, total = units, starts = given.starts, ends = given.ends}
  redis.call('HSET', KEYS[2], 'rules', rules_text(rules), 'repairs', '0')
  if title ~= '' then redis.call('HSET', KEYS[2], 'title', title) end
  local total = digits(units)
  local fields = entry('preheat', by, reason, total, 'total', total)
  fields[#fields + 1] = 'epoch'
  fields[#fields + 1] = digits(epoch)
  redis.call('XADD', KEYS[4], '*', unpack(fields))
  redis.call('SET', KEYS[1], total)
  return {OK, total, total, total}
end

-- An update: read what there is.
if meta_type ~= 'none' and meta_type ~= 'hash' then return {CORRUPT, false, false, 2, false} end
local fields = redis.call('HMGET', KEYS[2], 'rules', 'withdrawn')
local rules, invalid = rules_of(fields[1], meta_type ~= 'none')
if not rules then return unfit(invalid, 2) end
local withdrawn = withdrawn_units(fields[2])
if fields[2] and not withdrawn then return unfit(fields[2], 2) end
local bad = ledger_unfit(redis.call('TYPE', KEYS[4]).ok, rules)
if bad then return bad end
local stock_text = redis.pcall('GET', KEYS[1])
local stock = whole(stock_text)
if stock_text and not stock then return unfit(stock_text, 1) end
local record_key = '\tu:' .. plan
local record = redis.pcall('HGET', KEYS[3], record_key)
if type(record) == 'table' then return unfit(record, 3) end
if not rules.total or not stock or rules.state == 'archived' then return {NOT_PREHEATED, false, false, false} end
if rules.epoch ~= epoch then return {OTHER_EPOCH, digits(rules.epoch)} end
local left = stock + (withdrawn or 0)
local refused = denied()
if refused then return refused end
if record then
  redis.call('HSET', KEYS[3], record_key, record)
  return {REPLAYED, record, digits(left), digits(rules.total)}
end

-- Write.
-- Without a minus before a zero.
units = math.max(units, -left, -rules.total) + 0
if left + units > MOST_UNITS or rules.total + units > MOST_UNITS then return usage('preheat_shard: the stock would pass 2^53 - 1') end
rules.total, rules.limit, rules.starts, rules.ends = rules.total + units, given.limit, given.starts, given.ends
local change, total, left_after = digits(units), digits(rules.total), digits(left + units)
if units < 0 then take_units(withdrawn, -units) end
redis.call('HSET', KEYS[3], record_key, change)
redis.call('HSET', KEYS[2], 'rules', rules_text(rules))
if title ~= '' then redis.call('HSET', KEYS[2], 'title', title) else redis.call('HDEL', KEYS[2], 'title') end
redis.call('XADD', KEYS[4], '*', unpack(entry('update', by, reason, left_after, 'total', total)))
if units > 0 then return_units(withdrawn, units) end
return {OK, change, left_after, total}
