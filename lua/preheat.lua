--[[
  preheat: makes one activity what it should be, or reports how it differs.

  KEYS[1]  stock          string
  KEYS[2]  meta           hash    rules, title, repairs; `update`, the units that an update which is unfinished has still to add
                                  to the stock; whatever else it has belongs to a sale that a reset ends
  KEYS[3]  requests       hash    <tab>begun -> what a call that gives units back is about to do; `first`, while an
                                  update moves units and nobody is recorded
  KEYS[4]  ledger         stream
  KEYS[5]  participants   hash (kind hash) | set (kinds set and coupon) | none (kind counter)
  KEYS[6]  units          hash; kind set only
  last key deadlines      sorted set of open holds: KEYS[6], of kind set KEYS[7]; not of a counter

  ARGV[1]  kind           hash, set, coupon or counter
  ARGV[2]  by             who runs this, for the ledger; may be empty
  ARGV[3]  reason         why, for the ledger; may be empty
  ARGV[4]  mode           create, update or reset
  ARGV[5]  dry            1: tell what would be done, write nothing
  ARGV[6]  total          units to sell, in all
  ARGV[7]  per_user_limit, ARGV[8] title, ARGV[9] starts_at, ARGV[10] ends_at, ARGV[11] ledger
                          each `=text`, or empty if it is not given: create and reset then take none (and a
                          ledger), update keeps what there is; `=` is none, but not of a ledger; times are Unix ms, ledger is
                          0 or 1
  ARGV[12] if_total       update only: nothing is done unless this is the total before; may be empty or left out

  Returns {status, action, total before, total, stock before, stock, limit, field, before, after, ...} with the
  fields that differ (of a reset those of ARGV[7] to ARGV[11]); numbers are texts, false if there is none. Stock includes withdrawn units; limit is the one
  that is in force afterwards.
     1 ok                action create (also of a reset if none of the keys exists), update, reset, or unchanged
    -3 out_of_stock      update: the stock would go below zero
    -4 not_preheated     update: if_total is given, and none of the keys exists
   -10 exists            it is there and differs; for an update: it was not preheated by this script, its stock is
                         gone, its ledger would have to be turned on or off, it is archived, an adoption of it is
                         unfinished, or its total is not if_total (the field `if_total`, after all others)
   -11 corrupt           {-11, false, false, n, value}: KEYS[n] holds value (false: it is of the wrong type)
   -15 sharded           {-15, false, shards}: its units are in activities of their own, of which these are the numbers, or a
                         preheat that makes it so is unfinished (then shards may be false). Whatever the mode, nothing is done
  The same update again completes one that was cut; a call that gave units back and was cut is finished before. An activity is there if any of its keys is. Only ok writes, except unchanged; the stock comes last if it grows and
  first if it shrinks, so that a cut leaves fewer units to sell, never more. While the stock is withdrawn, an update
  changes meta's `withdrawn` instead. A reset keeps nothing of the old meta but the epoch, which it raises.

  Commands it needs (checked before the first write from Redis 7.0 on): GET HGET HGETALL TYPE EXISTS XLEN XRANGE XREVRANGE SET
  DECRBY INCRBY HSET HDEL UNLINK XADD; sets also SADD SREM.
]]
--- @use "codes"
--- @use "meta"
--- @use "denied"
--- @use "mark_first"
--- @use "unfinished_call"
--- @use "clear_meta"

local kind, by, reason, mode, dry, total_text = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5] == '1', ARGV[6]
KEYS_OF = {hash = 6, set = 7, coupon = 6, counter = 4}
if #KEYS ~= (KEYS_OF[kind] or -1) then return usage('preheat: kind and number of keys do not fit') end
if mode ~= 'create' and mode ~= 'update' and mode ~= 'reset' then return usage('preheat: ARGV[4] is not create, update or reset') end
local total = whole(total_text)
if not total then return usage('preheat: ARGV[6] is not a total') end
local if_total = ARGV[12] ~= '' and ARGV[12] or nil
if if_total and not (mode == 'update' and whole(if_total)) then return usage('preheat: ARGV[12] is not a total of an update') end

-- The fields of meta that a plan sets, in the order in which they are reported.
local FIELDS = {'per_user_limit', 'title', 'starts_at', 'ends_at', 'ledger'}
local given = {}
for i, field in ipairs(FIELDS) do
  local text = ARGV[6 + i]
  if not text or (text ~= '' and string.sub(text, 1, 1) ~= '=') then return usage('preheat: ' .. field) end
  if text ~= '' then given[field] = string.sub(text, 2) end
end
for _, field in ipairs({'per_user_limit', 'starts_at', 'ends_at'}) do
  if given[field] and given[field] ~= '' and not whole(given[field]) then return usage('preheat: ' .. field) end
end
if given.ledger and given.ledger ~= '0' and given.ledger ~= '1' then return usage('preheat: ledger') end

-- The fields as texts, as they are compared and reported, of a title and rules.
local function fields_of(title, rules)
  local function text(number) return number and digits(number) end
  return {per_user_limit = text(rules.limit), title = title, starts_at = text(rules.starts), ends_at = text(rules.ends),
    ledger = rules.ledger and '1' or '0'}
end

-- Read what there is. A reset looks only for the epoch, and takes whatever else was there.
local there = redis.call('EXISTS', KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5] or KEYS[4], KEYS[6] or KEYS[4], KEYS[7] or KEYS[4]) > 0
local meta, old = {}, nil
local meta_type = redis.call('TYPE', KEYS[2]).ok
if meta_type == 'hash' then
  local flat = redis.call('HGETALL', KEYS[2])
  for i = 1, #flat, 2 do meta[flat[i]] = flat[i + 1] end
end
if meta.shards or meta.plan then return {SHARDED, false, meta.shards or false} end
local stock_text = redis.pcall('GET', KEYS[1])
local stock = whole(stock_text)
local withdrawn = meta.withdrawn and whole(meta.withdrawn)
-- Units that an update which was cut did not add to the stock.
local pending = 0
if mode ~= 'reset' then
  if meta_type ~= 'none' and meta_type ~= 'hash' then return {CORRUPT, false, false, 2, false} end
  local invalid
  old, invalid = rules_of(meta.rules, next(meta) ~= nil)
  if not old then return unfit(invalid, 2) end
  if meta.withdrawn and not withdrawn then return unfit(meta.withdrawn, 2) end
  pending = whole(meta.update or '0')
  if not pending then return unfit(meta.update, 2) end
  local bad = read_ledger(stock_text, old)
  if bad then return bad end
  if stock_text and not stock then return unfit(stock_text, 1) end
  local requests_type = redis.call('TYPE', KEYS[3]).ok
  if requests_type ~= 'none' and requests_type ~= 'hash' then return {CORRUPT, false, false, 3, false} end
  if kind ~= 'counter' then
    local participants_type = redis.call('TYPE', KEYS[5]).ok
    if participants_type ~= 'none' and participants_type ~= (kind == 'hash' and 'hash' or 'set') then return {CORRUPT, false, false, 5, false} end
    local deadlines_type = kind == 'set' and redis.call('TYPE', KEYS[7]).ok or kind ~= 'set' and redis.call('TYPE', KEYS[6]).ok
    if deadlines_type ~= 'none' and deadlines_type ~= 'zset' then return {CORRUPT, false, false, KEYS_OF[kind], false} end
  end
  -- Units that a call gave back and that did not return yet are counted first: afterwards the stock no longer says whether they did.
  local begun = mode == 'update' and not dry and redis.call('HGET', KEYS[3], '\tbegun')
  if begun then
    local refusal = finish_begun({kind = kind}, begun)
    if refusal then return refusal end
    stock, meta.withdrawn = whole(redis.call('GET', KEYS[1])), redis.call('HGET', KEYS[2], 'withdrawn')
    withdrawn = meta.withdrawn and whole(meta.withdrawn)
  end
end

-- What it will be: the plan, over what an update keeps.
local known = old or parse_rules(meta.rules or '') or {}
local before = known.total and fields_of(meta.title, known) or {}
local total_before = known.total and digits(known.total)
local plan = {}
for _, field in ipairs(FIELDS) do
  plan[field] = given[field]
  if plan[field] == nil and mode == 'update' then plan[field] = before[field] end
end
if plan.ledger == nil then plan.ledger = '1' end
local starts, ends = whole(plan.starts_at), whole(plan.ends_at)
if starts and ends and starts >= ends then return usage('preheat: the window ends before it starts') end

local action, status = mode, OK
local differences = {}
local function differ(field, was, will_be)
  differences[#differences + 1] = field
  differences[#differences + 1] = was or ''
  differences[#differences + 1] = will_be or ''
end
local function differ_in_fields()
  for _, field in ipairs(FIELDS) do
    if (before[field] or '') ~= (plan[field] or '') then differ(field, before[field], plan[field]) end
  end
end
-- Units for sale before, wherever they are.
local units = stock and stock + (withdrawn or 0)
local stock_after = total
if not there and if_total then
  action, status, stock_after = 'refused', NOT_PREHEATED, nil
elseif not there then
  action = 'create'
elseif mode == 'reset' then
  if total_before then differ_in_fields() end
else
  if old.total then
    if old.total ~= total then differ('stock', total_before, total_text) end
    differ_in_fields()
    if old.state == 'archived' then
      differ('state', 'archived', 'live')
    elseif not stock then
      differ('stock key', 'absent', 'present')
    end
    if meta.adopt then differ('adopt', 'unfinished', 'finished') end
  else
    differ('preheated', 'by another system', 'by seckill')
  end
  stock_after = units
  local more = old.total and total - old.total + pending
  local is_other = if_total and old.total and if_total ~= total_before
  if is_other then differ('if_total', total_before, if_total) end
  if #differences == 0 and (mode == 'create' or not meta.update) then
    action = 'unchanged'
  elseif mode == 'create' or is_other or not old.total or not stock or meta.adopt or old.state == 'archived' or before.ledger ~= plan.ledger then
    action, status = 'refused', EXISTS
  elseif units + more < 0 then
    action, status = 'refused', OUT_OF_STOCK
  else
    stock_after = units + more
    if stock_after > MOST_UNITS then return usage('preheat: the stock would pass 2^53 - 1') end
  end
end
local total_after, limit_after = total_text, plan.per_user_limit
if action == 'refused' then total_after, limit_after = total_before, before.per_user_limit end
local reply = {status, action, total_before or false, total_after or false, units and digits(units) or false,
  stock_after and digits(stock_after) or false, limit_after ~= '' and limit_after or false}
for i = 1, #differences do reply[#reply + 1] = differences[i] end
if dry or status ~= OK or action == 'unchanged' then return reply end

-- Write.
local denied = denied_command('SET', KEYS[1], 'INCRBY', KEYS[1], 'DECRBY', KEYS[1], 'HSET', KEYS[2], 'HDEL', KEYS[2], 'XADD', KEYS[4],
  'UNLINK', KEYS[1], 'UNLINK', KEYS[2], 'UNLINK', KEYS[3], 'UNLINK', KEYS[4], 'UNLINK', KEYS[5], 'UNLINK', KEYS[6], 'UNLINK', KEYS[7])
if denied then return forbidden(denied) end
local set = plan.title and {'title', plan.title} or {}
local rules = {state = 'live', ledger = plan.ledger == '1', limit = whole(plan.per_user_limit), total = total, starts = starts, ends = ends}
local stock_digits = digits(stock_after)
if action == 'update' then
  rules.state, rules.epoch = old.state, old.epoch
  local more = stock_after - units
  -- What is withdrawn shrinks behind the stock, and grows instead of it.
  local of_stock = (withdrawn and math.max(math.min(more, 0), -stock) or more) + 0
  if withdrawn then set[#set + 1], set[#set + 2] = 'withdrawn', digits(withdrawn + more - of_stock) end
  local marks = of_stock ~= 0 and mark_first(units, old.total)
  if of_stock < 0 then redis.call('DECRBY', KEYS[1], digits(-of_stock)) end
  redis.call('HSET', KEYS[2], 'rules', rules_text(rules), 'update', digits(math.max(of_stock, 0)), unpack(set))
  if plan.ledger == '1' then
    redis.call('XADD', KEYS[4], '*', unpack(entry('update', by, reason, stock_digits, 'total', total_text)))
  end
  redis.call('HDEL', KEYS[2], 'update')
  if of_stock > 0 then redis.call('INCRBY', KEYS[1], digits(of_stock)) end
  if marks then redis.call('HDEL', KEYS[3], '\tbegun') end
  return reply
end
-- The third word of the rules, even if the others are damaged.
rules.epoch = (whole(string.match(meta.rules or '', '^%S+ %S+ (%d+) ')) or 0) + 1
if action == 'reset' then
  redis.call('UNLINK', KEYS[1])
  -- The epoch outlives everything else: a bulk run of the old sale must not continue in the new one.
  if meta_type ~= 'hash' then redis.call('UNLINK', KEYS[2]) end
end
-- Whatever else meta had belongs to the old sale: checkpoint, draft, withdrawn units, what another system wrote.
-- `archive` goes behind the rules: until they change, its files bring the sale back.
clear_meta(meta, {rules = true, repairs = true, title = plan.title, archive = true})
redis.call('HSET', KEYS[2], 'rules', rules_text(rules), 'repairs', '0', unpack(set))
if meta.archive then redis.call('HDEL', KEYS[2], 'archive') end
if action == 'reset' then
  redis.call('UNLINK', KEYS[3], KEYS[4])
  if kind ~= 'counter' then redis.call('UNLINK', KEYS[5], KEYS[6]) end
  if kind == 'set' then redis.call('UNLINK', KEYS[7]) end
end
if plan.ledger == '1' then
  redis.call('XADD', KEYS[4], '*', unpack(entry('preheat', by, reason, stock_digits, 'total', total_text, 'epoch', digits(rules.epoch))))
end
redis.call('SET', KEYS[1], stock_digits)
return reply
