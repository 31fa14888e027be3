--[[
  adopt: takes over an activity that another system created, or that lost its meta or the beginning of its ledger. One
  step a call: a million participants fit into no single one, and each step may be the last that runs. Run again from
  the beginning, it resumes.

  KEYS[1]  stock          string  units left; 0 while they are withdrawn. An expiry is removed from every key
  KEYS[2]  meta           hash    rules; adopt: `<state> <had>` from withdraw to switch, the state to return to (live, paused or
                                  withdrawn) and 1 if there was a meta before; adopted: the name of the last adoption
  KEYS[3]  requests       hash    <tab>c:<name>:<n> -> page n of the checkpoint, which `trim` writes; <tab>begun -> what a call that gives
                                  units back is about to do: withdraw finishes one that was cut
  KEYS[4]  ledger         stream
  KEYS[5]  participants   hash (kind hash) | set (kinds set and coupon) | none (kind counter)
  KEYS[6]  units          hash; kind set only

  ARGV[1]  kind           hash, set, coupon or counter
  ARGV[2]  step           plan, withdraw, switch or undo
  ARGV[3]  by             who runs this, for the ledger; may be empty
  ARGV[4]  reason         why, for the ledger; may be empty
  ARGV[5]  name           of the adoption, letters, digits and dashes; of no use to plan
  ARGV[6]  total          switch: the total; withdraw: live or paused, if no meta says it; else of no use
  ARGV[7]  held           switch: units that participants hold; else of no use, as are those that follow
  ARGV[8]  units          switch: units for sale, withdrawn ones included; empty: as many as there are
  ARGV[9]  participants   switch: how many there are, as they were scanned; empty: not compared
  ARGV[10] last           switch: the ledger's last id, as it was read; empty: none
  ARGV[11] pages          switch: pages of the checkpoint; empty: the ledger is whole without one
  ARGV[12] per_user_limit, ARGV[13] title, ARGV[14] starts_at, ARGV[15] ends_at
                          switch: each `=text`, `=` for none, or empty: as it is
  ARGV[16] state          switch: live or paused, if no meta says it and no stock was withdrawn

  Steps: `plan` only reads. `withdraw` moves the stock to meta's `withdrawn` and pauses the activity, without a ledger;
  a meta that it makes has no total that counts. Then participants are scanned, and `trim` writes the pages. `switch`
  writes the adopt entry and the checkpoint behind which the ledger is whole, and returns the stock last. `undo` ends an
  adoption that cannot be finished: all is as it was before. A cut leaves fewer units for sale, never more.

  Returns {status, ...}
     1 ok             plan, withdraw: {1, stage, units, withdrawn, total, limit, epoch, last, length, participants, stock,
                      expires}, texts, false if there is none. Total: of a meta that adopt did not make. Expires: 1 if a
                      key has an expiry. Stage: whole (nothing to do), ledger (the ledger has its beginning,
                      and the meta is gone), unfinished, partial (a ledger without its beginning), lost (no meta, a ledger
                      without its beginning), stock (the stock key is gone) or foreign
                      switch, undo: {1, stock}
     2 replayed       switch: this adoption was finished before
    -4 not_preheated  none of the keys exists, the stock of a counter is gone, or it is archived
   -11 corrupt        {-11, false, false, n, value}: KEYS[n] holds value (false: it is of the wrong type)
   -23 stale          withdraw, switch: something changed since it was read, or another adoption runs

  Commands it needs (checked before the first write from Redis 7.0 on): GET HGET HGETALL TYPE EXISTS HLEN SCARD HEXISTS XLEN
  XRANGE XREVRANGE TIME PTTL DECRBY INCRBY PERSIST HSET HDEL UNLINK XADD; sets also SADD SREM.
]]
--- @use "codes"
--- @use "meta"
--- @use "denied"
--- @use "unfinished_call"
--- @use "mark_first"

local kind, step, by, reason, name, total_text = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]
if #KEYS ~= (KEYS_OF[kind] or -1) then return usage('adopt: kind and number of keys do not fit') end
if step ~= 'plan' and step ~= 'withdraw' and step ~= 'switch' and step ~= 'undo' then return usage('adopt: ARGV[2] is no step') end
if step ~= 'plan' and not find(name or '', '^[%w%-]+$') then return usage('adopt: ARGV[5] is no name') end
local total = whole(total_text)
if step == 'switch' and not total then return usage('adopt: ARGV[6] is not a total') end

-- A call that was cut is finished before anybody's units are counted.
local begun = step == 'withdraw' and redis.pcall('HGET', KEYS[3], '\tbegun')
local refusal = type(begun) == 'string' and finish_begun({kind = kind}, begun)
if refusal then return refusal end

-- Read, and check, everything.
if redis.call('EXISTS', KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5] or KEYS[4], KEYS[6] or KEYS[4]) == 0 then return {NOT_PREHEATED} end
local stock_text = redis.pcall('GET', KEYS[1])
local stock = whole(stock_text)
if stock_text and not stock then return unfit(stock_text, 1) end
--- @include "all_meta"
if rules.state == 'archived' then return {NOT_PREHEATED} end
local withdrawn = whole(meta.withdrawn)
if meta.withdrawn and not withdrawn then return unfit(meta.withdrawn, 2) end
-- The state to return to, and whether there was a meta before.
local return_to, had = string.match(meta.adopt or 'live 1', '^(%a+) ([01])$')
if return_to ~= 'live' and return_to ~= 'paused' and return_to ~= 'withdrawn' then return unfit(meta.adopt, 2) end
local repairs = whole(meta.repairs or '0')
if not repairs then return unfit(meta.repairs, 2) end
local requests_type, ledger_type = redis.call('TYPE', KEYS[3]).ok, redis.call('TYPE', KEYS[4]).ok
if requests_type ~= 'none' and requests_type ~= 'hash' then return unfit({}, 3) end
if ledger_type ~= 'none' and ledger_type ~= 'stream' then return unfit({}, 4) end
--- @include "participants"
local units = (stock or 0) + (withdrawn or 0)
if units > MOST_UNITS then return unfit(meta.withdrawn, 2) end

-- The ledger: its last id, how long it is, and the epoch that it begins with, if it begins with a preheat.
local last, length, begins = false, 0, nil
if ledger_type == 'stream' then
  length = redis.call('XLEN', KEYS[4])
  local newest = redis.call('XREVRANGE', KEYS[4], '+', '-', 'COUNT', 1)[1]
  last = newest and newest[1] or false
  local oldest = redis.call('XRANGE', KEYS[4], '-', '+', 'COUNT', 1)[1]
  local fields = {}
  for i = 1, oldest and #oldest[2] or 0, 2 do fields[oldest[2][i]] = oldest[2][i + 1] end
  if fields.op == 'preheat' and last ~= LAST_ID then begins = whole(fields.epoch) end
end
-- Whether the checkpoint of this epoch is there, with the entry that follows it and its first page.
local function is_behind_checkpoint()
  local pattern = '^%d+ (%S+) (%d+) (%d+) (%d+%-%d+) '
  local called, pages, epoch, from = string.match(meta.checkpoint or '', pattern)
  if not called or whole(epoch) ~= rules.epoch then return false end
  if #redis.call('XRANGE', KEYS[4], from, from) == 0 then return false end
  return pages == '0' or redis.call('HEXISTS', KEYS[3], '\tc:' .. called .. ':0') == 1
end
local stage
if meta.adopt then
  stage = 'unfinished'
elseif not rules.total then
  stage = begins and 'ledger' or ledger_type == 'stream' and 'lost' or stock and 'foreign' or 'stock'
elseif rules.ledger then
  stage = last ~= LAST_ID and (begins == rules.epoch or is_behind_checkpoint()) and 'whole' or stock and 'partial' or 'stock'
else
  stage = stock and 'whole' or 'stock'
end
if not stock and kind == 'counter' and stage ~= 'whole' and stage ~= 'ledger' then return {NOT_PREHEATED} end
local epoch = rules.epoch or begins or 1
local function seen()
  local has_total = rules.total and had == '1'
  local expires = redis.call('PTTL', KEYS[1]) >= 0 or redis.call('PTTL', KEYS[2]) >= 0
    or redis.call('PTTL', KEYS[3]) >= 0 or redis.call('PTTL', KEYS[4]) >= 0
    or KEYS[5] and redis.call('PTTL', KEYS[5]) >= 0 or KEYS[6] and redis.call('PTTL', KEYS[6]) >= 0
  return {OK, stage, digits(units), withdrawn and digits(withdrawn) or false,
    has_total and digits(rules.total) or false, rules.limit and digits(rules.limit) or false,
    digits(epoch), last, digits(length), digits(participants), stock_text or false, expires and '1' or '0'}
end
if step == 'plan' then return seen() end
local function persist_keys()
  redis.call('PERSIST', KEYS[1])
  redis.call('PERSIST', KEYS[2])
  redis.call('PERSIST', KEYS[3])
  redis.call('PERSIST', KEYS[4])
  if KEYS[5] then redis.call('PERSIST', KEYS[5]) end
  if KEYS[6] then redis.call('PERSIST', KEYS[6]) end
end

local denied = denied_command('DECRBY', KEYS[1], 'INCRBY', KEYS[1], 'HSET', KEYS[2], 'HDEL', KEYS[2], 'UNLINK', KEYS[2],
  'XADD', KEYS[4], 'UNLINK', KEYS[4], 'PERSIST', KEYS[1], 'PERSIST', KEYS[2], 'PERSIST', KEYS[3], 'PERSIST', KEYS[4],
  'PERSIST', KEYS[5], 'PERSIST', KEYS[6])
if denied then return forbidden(denied) end

if step == 'withdraw' then
  if stage == 'whole' then return {STALE} end
  local answer = seen()
  -- A key that expires in the midst would be taken for one that was evicted.
  persist_keys()
  local marks = mark_first(units, rules.total)
  if stock and stock > 0 then redis.call('DECRBY', KEYS[1], digits(stock)) end
  local state = withdrawn and (stock or 0) == 0 and 'withdrawn' or rules.state or total_text == 'paused' and 'paused' or 'live'
  local adopt = meta.adopt or state .. (rules.total and ' 1' or ' 0')
  local count = digits(rules.total and repairs or length)
  -- Until the switch a total that nobody knows refuses no refund; if nobody is recorded, nothing counts as sold.
  rules.state, rules.epoch = 'paused', epoch
  rules.total = rules.total or kind ~= 'counter' and participants == 0 and units or MOST_UNITS
  if kind == 'set' or kind == 'coupon' then rules.limit = 1 end
  redis.call('HSET', KEYS[2], 'rules', rules_text(rules), 'repairs', count, 'adopt', adopt, 'withdrawn', digits(units))
  if marks then redis.call('HDEL', KEYS[3], '\tbegun') end
  answer[2], answer[4], answer[11] = 'unfinished', digits(units), stock and '0' or false
  return answer
end

if step == 'undo' then
  if not meta.adopt then return {OK, digits(units)} end
  if return_to == 'withdrawn' then
    -- What a pause withdrew meanwhile has no rules to return to: it waits for another adoption.
    if had == '1' then redis.call('HDEL', KEYS[2], 'adopt') end
    return {OK, digits(units)}
  end
  local marks = mark_first(units, rules.total)
  -- Where there was no ledger, only a switch that was cut has written entries.
  if had == '0' and repairs == 0 and length > 0 then redis.call('UNLINK', KEYS[4]) end
  redis.call('HDEL', KEYS[2], 'withdrawn')
  if had == '1' then
    rules.state = return_to
    redis.call('HSET', KEYS[2], 'rules', rules_text(rules))
    redis.call('HDEL', KEYS[2], 'adopt')
  else
    redis.call('UNLINK', KEYS[2])
  end
  if stock and withdrawn then redis.call('INCRBY', KEYS[1], digits(withdrawn)) end
  if marks then redis.call('HDEL', KEYS[3], '\tbegun') end
  return {OK, digits(units)}
end

-- Switch.
local held, wanted, count, read_to, pages = whole(ARGV[7]), ARGV[8], ARGV[9], ARGV[10], ARGV[11]
if not (held and wanted and count and read_to and pages) then return usage('adopt: ARGV[7] to ARGV[11] of the switch') end
if (wanted ~= '' and not whole(wanted)) or (pages ~= '' and not whole(pages)) then return usage('adopt: units or pages of the switch') end
local given = {}
for i, field in ipairs({'per_user_limit', 'title', 'starts_at', 'ends_at'}) do
  local text = ARGV[11 + i]
  if not text or (text ~= '' and string.sub(text, 1, 1) ~= '=') then return usage('adopt: ' .. field) end
  local value = string.sub(text, 2)
  if value ~= '' and field ~= 'title' and not whole(value) then return usage('adopt: ' .. field) end
  if text ~= '' then given[field] = value end
end
if given.per_user_limit then rules.limit = whole(given.per_user_limit) end
if given.starts_at then rules.starts = whole(given.starts_at) end
if given.ends_at then rules.ends = whole(given.ends_at) end
if rules.starts and rules.ends and rules.starts >= rules.ends then return usage('adopt: the window ends before it starts') end
if meta.adopted == name and not meta.adopt then return {REPLAYED, digits(units)} end
if (last or '') ~= read_to then return {STALE} end
if pages ~= '' then
  -- Nothing moved since the scan, the stock is still withdrawn, and all pages are there.
  if not meta.adopt or not withdrawn or (stock or 0) > 0 or count ~= digits(participants) then return {STALE} end
  if stock and wanted ~= digits(withdrawn) then return {STALE} end
  local draft = (meta.draft or '') == '' and pages == '0' or meta.draft == name .. ' ' .. pages .. ' 1'
  if not draft then return {STALE} end
elseif rules.total or not begins then
  return {STALE}
end
-- For a stock key that was lost, what nobody holds is for sale.
local after = whole(wanted) or units
local with_ledger = pages == '' or had == '0' or rules.ledger
local fields = entry('adopt', by, reason, digits(after), 'total', total_text, 'epoch', digits(epoch))
rules.total, rules.ledger, rules.epoch = total, with_ledger, epoch
rules.state = rules.state or ARGV[16] == 'paused' and 'paused' or 'live'
-- Until nothing is withdrawn it stays paused: a purchase from one that is live does not look.
local returns = pages ~= '' and return_to ~= 'withdrawn'
local set = {'rules', rules_text(rules), 'adopted', name}
if given.title then set[#set + 1], set[#set + 2] = 'title', given.title end
if not meta.repairs then set[#set + 1], set[#set + 2] = 'repairs', digits(length) end
-- Units that an update which was cut has not added are in this total.
if meta.update then set[#set + 1], set[#set + 2] = 'update', '0' end
local now = digits(unix_ms())
persist_keys()
if with_ledger then
  -- Behind the last id there is no next entry: the ledger begins anew.
  local removed = last == LAST_ID and length or 0
  if last == LAST_ID then redis.call('UNLINK', KEYS[4]) end
  local id = redis.call('XADD', KEYS[4], '*', unpack(fields))
  if pages ~= '' then
    -- The checkpoint ends right before this entry: all that came earlier is in its pages.
    local ms, n = string.match(id, '^(%d+)%-(%d+)$')
    local upto = n ~= '0' and ms .. '-' .. digits(whole(n) - 1) or digits(whole(ms) - 1) .. '-' .. digits(MOST_UNITS)
    set[#set + 1] = 'checkpoint'
    set[#set + 1] = concat({digits(removed), name, pages, digits(epoch), id, upto, digits(length), total_text, digits(held), now, by}, ' ')
  end
end
-- Pages of a checkpoint that does not count any more are a draft that `trim` clears.
local old, old_pages = string.match(meta.checkpoint or '', '^%d+ (%S+) (%d+) ')
if return_to == 'withdrawn' then set[#set + 1], set[#set + 2] = 'withdrawn', digits(after) end
if pages ~= '' then set[#set + 1], set[#set + 2] = 'draft', (old and old .. ' ' .. old_pages or 'none 0') .. ' 0' end
local marks = mark_first(after, total)
redis.call('HSET', KEYS[2], unpack(set))
if return_to == 'withdrawn' then
  if not stock then redis.call('INCRBY', KEYS[1], '0') end
  redis.call('HDEL', KEYS[2], 'adopt')
else
  redis.call('HDEL', KEYS[2], 'adopt', 'withdrawn')
end
if returns and return_to ~= rules.state then
  rules.state = return_to
  redis.call('HSET', KEYS[2], 'rules', rules_text(rules))
end
if returns and (after > 0 or not stock) then redis.call('INCRBY', KEYS[1], digits(after)) end
if marks then redis.call('HDEL', KEYS[3], '\tbegun') end
return {OK, digits(after)}
