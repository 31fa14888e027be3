--[[
  trim: removes old entries of the ledger, and leaves a checkpoint from which an audit stays exact. One step a call:
  a million users fit into no single one, and each step may be the last that runs.

  KEYS[1]  stock     of which nothing is read
  KEYS[2]  meta      hash    rules; checkpoint: what counts now; draft: pages that do not count, of the next or the last one
  KEYS[3]  requests  hash    <tab>begun -> what a call that was cut began, of which the entries stay; <tab>c:<name>:<n> -> page n of a checkpoint: JSON pairs of user and `units`, or `units open`
                             if some are held open, from 0 on; last those of transfers between
                             shards: `lend` or `borrow`, the id, and `units shard ms`
  KEYS[4]  ledger    stream
  further keys of the activity may be given

  ARGV[1]  step      plan, page, switch, cut or clear
  ARGV[2]  epoch     as it was planned; empty for plan, and for any
  ARGV[3]  plan: the id from which on entries should be kept; else the name of the checkpoint, of no use to cut and clear
  ARGV[4]  page: its number; switch: how many pages there are
  ARGV[5]  page: its text; switch: the name of the checkpoint that is replaced, empty for none
  ARGV[6]  switch: `<first kept> <last removed> <entries> <total> <sum>`, as in meta's checkpoint
  ARGV[7]  switch: by, who runs this; may be empty

  meta's checkpoint is `<removed> <name> <pages> <epoch> <first kept> <last removed> <entries> <total> <sum> <ms> <by>`: how
  many entries were removed since the preheat; where its pages are; and, of all entries before the first kept one: the
  last, how many they were, the total they left, the units their users hold, when that was written down, and by whom.
  meta's draft is `<name> <pages> <open>`; only an open one (1) takes pages. `none 0 0` is one that has nothing.

  The order that is safe wherever it ends: pages into a draft, which nobody reads; switch, at which instant the draft
  is the checkpoint, and the old checkpoint a draft that is not open; cut, again and again, which takes entries that
  no audit reads any more, and counts them; clear, again and again. Before a new draft the old one is cleared.

  Returns {status, ...}
     1 ok             plan: {1, epoch, first kept, held by, first, checkpoint, draft}, as texts, false if there is none;
                      `held by` is the consumer group that has not read and acknowledged all that should go
                      page, switch: {1}, also if that very call was applied before
                      cut: {1, removed, more}: since the preheat; more is 1 if the next call has something to do
                      clear: {1, more}
    -4 not_preheated  KEYS[2] is absent
   -11 corrupt        {-11, false, false, n, value}: KEYS[n] holds value (false: it is of the wrong type)
   -23 stale          it was reset, or somebody else trims it
   -24 unread         cut: {-24, removed, group}: a consumer group has not read and acknowledged all that would go

  Commands it needs (checked before the first write from Redis 7.0 on): HGET HMGET TYPE TIME XRANGE XREVRANGE XINFO XPENDING
  HSET HDEL XTRIM.
]]
--- @use "codes"
--- @use "meta"
--- @use "denied"
--- @use "earlier"

local step, epoch, name = ARGV[1], ARGV[2], ARGV[3]
-- What one call may take: a millisecond or two.
local MOST_ENTRIES, MOST_PAGES = 2000, 100
if #KEYS < 4 then return usage('trim: at least 4 keys are wanted, not ' .. #KEYS) end
if not (epoch and name) then return usage('trim: ARGV[2] is no epoch, or ARGV[3] nothing') end
local fields = redis.pcall('HMGET', KEYS[2], 'rules', 'checkpoint', 'draft')
if fields.err then return unfit(fields, 2) end
local rules, invalid = rules_of(fields[1], redis.call('TYPE', KEYS[2]).ok ~= 'none')
if not rules then return unfit(invalid, 2) end
local ledger_type = redis.call('TYPE', KEYS[4]).ok
if ledger_type == 'stream' and not rules.total then return unfit('nothing, beside a ledger', 2) end
if ledger_type ~= 'none' and ledger_type ~= 'stream' then return unfit({}, 4) end
local requests_type = redis.call('TYPE', KEYS[3]).ok
if requests_type ~= 'none' and requests_type ~= 'hash' then return unfit({}, 3) end
if not rules.total then return {NOT_PREHEATED} end
local its_epoch = digits(rules.epoch)

-- What meta says of checkpoint and draft. A checkpoint of another epoch is none.
local removed, active, active_pages, rest = 0, '', nil, nil
if fields[2] then
  local count, called, pages, of_epoch, words = string.match(fields[2], '^(%d+) (%S+) (%d+) (%d+) (.+)$')
  if not (whole(count) and whole(pages) and find(words, '^%d+%-%d+ ')) then return unfit(fields[2], 2) end
  if of_epoch == its_epoch then removed, active, active_pages, rest = whole(count), called, pages, of_epoch .. ' ' .. words end
end
local draft, draft_pages, open
if fields[3] then
  draft, draft_pages, open = string.match(fields[3], '^(%S+) (%d+) ([01])$')
  draft_pages = whole(draft_pages)
  if not draft_pages or draft == active then return unfit(fields[3], 2) end
end
-- Of what is archived nothing is left that a page, or what clears it, could be of: a restore would take it for another sale's.
if step ~= 'plan' and rules.state == 'archived' or epoch ~= '' and epoch ~= its_epoch then return {STALE} end

-- The id of the first entry in a range, or nil.
local function first_of(from)
  local found = redis.call('XRANGE', KEYS[4], from, '+', 'COUNT', 1)
  return found[1] and found[1][1]
end

-- The first entry that must be kept for the consumer groups' sake, if that is before one, and the group.
local function held_back(from)
  local holder
  for _, group in ipairs(redis.call('XINFO', 'GROUPS', KEYS[4])) do
    local about = {}
    for i = 1, #group, 2 do about[group[i]] = group[i + 1] end
    local needed = first_of('(' .. about['last-delivered-id'])
    if about.pending > 0 then needed = first_of(redis.call('XPENDING', KEYS[4], about.name)[2]) or needed end
    if needed and earlier(needed, from) then from, holder = needed, about.name end
  end
  return from, holder
end

if step == 'plan' then
  if not find(name, '^%d+%-%d+$') then return usage('trim: ARGV[3] is no id') end
  local first, from, holder = false, false, nil
  if ledger_type == 'stream' then first = first_of('-') or false end
  if first then
    -- The last entry is always kept: its id shows whether a tail was lost.
    from = first_of(name) or redis.call('XREVRANGE', KEYS[4], '+', '-', 'COUNT', 1)[1][1]
    from, holder = held_back(from)
    -- By what came since, a call that was cut is finished.
    local last = string.match(redis.call('HGET', KEYS[3], '\tbegun') or '', '^begun (%d+%-%d+) ')
    local needed = last and first_of('(' .. last)
    if needed and earlier(needed, from) then from = needed end
  end
  return {OK, its_epoch, from, holder or false, first, fields[2] and active ~= '' and fields[2], fields[3]}
end
if step ~= 'cut' and step ~= 'clear' and not find(name, '^[%w%-]+$') then return usage('trim: ARGV[3] is no name') end
local denied = denied_command('HSET', KEYS[2], 'HSET', KEYS[3], 'HDEL', KEYS[2], 'HDEL', KEYS[3], 'XTRIM', KEYS[4])
if denied then return forbidden(denied) end

if step == 'page' then
  local number, text = whole(ARGV[4]), ARGV[5]
  if not (number and text) then return usage('trim: a page has a number and a text') end
  -- A late copy of one that audits read by now.
  if name == active then return {STALE} end
  if not draft and number == 0 then draft, draft_pages, open = name, 0, '1' end
  if draft ~= name or open ~= '1' then return {STALE} end
  -- One that was counted before may not be there.
  if number ~= draft_pages and number ~= draft_pages - 1 then return {STALE} end
  -- Counted first: what is counted and not there is cleared like the rest.
  redis.call('HSET', KEYS[2], 'draft', name .. ' ' .. digits(number + 1) .. ' 1')
  redis.call('HSET', KEYS[3], '\tc:' .. name .. ':' .. ARGV[4], text)
  return {OK}
end

if step == 'switch' then
  local pages, replaced, sums, by = whole(ARGV[4]), ARGV[5], ARGV[6] or '', ARGV[7] or ''
  if not (pages and replaced and find(sums, '^%d+%-%d+ %d+%-%d+ %d+ %d+ %-?%d+$')) then return usage('trim: sums of the checkpoint') end
  if active == name then return {OK} end
  if active ~= replaced then return {STALE} end
  -- A server that went back to older data lost it: behind this checkpoint the ledger would have no beginning.
  local first_kept = string.match(sums, '^%S+')
  if first_of(first_kept) ~= first_kept then return {STALE} end
  if (draft ~= name or open ~= '1' or draft_pages ~= pages) and not (pages == 0 and not draft) then return {STALE} end
  local now = digits(unix_ms())
  local words = concat({digits(removed), name, digits(pages), its_epoch, sums, now, by}, ' ')
  -- In one write: a draft that is the checkpoint too would be cleared.
  local old = active ~= '' and active .. ' ' .. active_pages or 'none 0'
  redis.call('HSET', KEYS[2], 'checkpoint', words, 'draft', old .. ' 0')
  return {OK}
end

if step == 'cut' then
  if not rest or ledger_type ~= 'stream' then return {OK, removed, 0} end
  local from, entries = string.match(rest, '^%d+ (%d+%-%d+) %d+%-%d+ (%d+) ')
  local first, count, more = first_of('-'), 0, 0
  if not (first and whole(entries)) then return {OK, removed, 0} end
  if earlier(first, from) then
    local _, holder = held_back(from)
    if holder then return {UNREAD, removed, holder} end
    -- Whole nodes, as long as there are any; then what is left of one.
    count, more = redis.call('XTRIM', KEYS[4], 'MINID', '~', from, 'LIMIT', MOST_ENTRIES), 1
    if count == 0 then count, more = redis.call('XTRIM', KEYS[4], 'MINID', from), 0 end
  end
  -- In the end all that the checkpoint has are gone, also those of a call that ended before it counted them.
  count = more == 1 and removed + count or whole(entries)
  if count ~= removed then redis.call('HSET', KEYS[2], 'checkpoint', concat({digits(count), active, active_pages, rest}, ' ')) end
  return {OK, count, more}
end

if step == 'clear' then
  if not draft then return {OK, 0} end
  -- Another process may still write it: it would switch to pages that are gone.
  if open == '1' then redis.call('HSET', KEYS[2], 'draft', draft .. ' ' .. digits(draft_pages) .. ' 0') end
  local left = math.max(draft_pages - MOST_PAGES, 0)
  local pages = {}
  for n = left, draft_pages - 1 do pages[#pages + 1] = '\tc:' .. draft .. ':' .. digits(n) end
  if #pages > 0 then redis.call('HDEL', KEYS[3], unpack(pages)) end
  if left == 0 then
    redis.call('HDEL', KEYS[2], 'draft')
  else
    redis.call('HSET', KEYS[2], 'draft', draft .. ' ' .. digits(left) .. ' 0')
  end
  return {OK, left > 0 and 1 or 0}
end
return usage('trim: ARGV[1] is no step')
