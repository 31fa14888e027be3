--[[
  archive: removes all keys of an activity but its meta, once files have what they hold. One step a call.

  KEYS[1]  stock          string
  KEYS[2]  meta           hash    rules, withdrawn, adopt; archive: `<name>` from mark to remove, then
                                  `<name> <sha256> <ms> <stock> <buyers> <entries> <by>`
  KEYS[3]  requests       hash
  KEYS[4]  ledger         stream
  KEYS[5]  participants   hash (kind hash) | set (kinds set and coupon) | none (kind counter)
  KEYS[6]  units          hash; kind set only
  last key deadlines      sorted set of open holds: KEYS[6], of kind set KEYS[7]; not of a counter

  ARGV[1]  kind           hash, set, coupon or counter
  ARGV[2]  step           plan, mark or remove
  ARGV[3]  name           of the archive, letters, digits and dashes; of no use to plan, as are those that follow
  ARGV[4]  epoch          as it was planned
  ARGV[5]  sha256         remove: of the manifest, 64 hexadecimal digits
  ARGV[6]  seen           remove: what the files have: `<stock> <last> <requests> <entries> <participants> <units> <groups>`, as
                          plan replies them
  ARGV[7]  by             remove: who runs this; may be empty

  `plan` only reads. `mark` names the archive in meta: an archive of another name is not of this activity, or of another
  run, and is never overwritten. The caller watches all keys (WATCH), audits the activity, writes the files, reads them
  back, and sends `remove` in a transaction, which does nothing if any key was written since, whoever wrote it. `remove`
  compares once more what it can see at once. Rules, title and `archive` are left of meta; the state is archived. Each
  `mark` writes meta, and so voids a `remove` that is still to come, of whichever run: only then may files be replaced, or go.
  The same `remove` again removes what a cut left, if stock, users and entries are still as many: else keys were written since,
  and are in no file.

  Returns {status, ...}
     1 ok             plan: {1, state, epoch, seen, name, holds, unread}: the state (ended, paused, upcoming, sold_out or
                      live), texts, false if there is none; `unread` is a consumer group that has not read and acknowledged all
                      mark: {1, name}, the name in force, that of an earlier run if there was one
                      remove: {1}
     2 replayed       remove: it was archived under this name and sha256, and nothing else is there
    -4 not_preheated  KEYS[2] is absent, and no ledger is there, or plan: KEYS[1] is absent
    -6 ended          {-6, archive, epoch}: it is archived, with meta's `archive` or false
   -10 exists         an adoption of it is unfinished
   -11 corrupt        {-11, false, false, n, value}: KEYS[n] holds value (false: it is of the wrong type)
   -23 stale          mark, remove: it changed since it was read, or since it was archived

  Commands it needs (checked before the first write from Redis 7.0 on): GET HGET HGETALL HLEN EXISTS XLEN XRANGE XREVRANGE
  XINFO TIME HSET HDEL UNLINK; sets also SCARD.
]]
--- @use "codes"
--- @use "meta"
--- @use "denied"
--- @use "shown_state"
--- @use "clear_meta"

KEYS_OF = {hash = 6, set = 7, coupon = 6, counter = 4}
local kind, step, name, epoch = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
if #KEYS ~= (KEYS_OF[kind] or -1) then return usage('archive: kind and number of keys do not fit') end
if step ~= 'plan' and step ~= 'mark' and step ~= 'remove' then return usage('archive: ARGV[2] is no step') end
if step ~= 'plan' and not (find(name or '', '^[%w%-]+$') and whole(epoch)) then return usage('archive: ARGV[3] is no name, or ARGV[4] no epoch') end
local sha256, expected, by = ARGV[5] or '', ARGV[6], ARGV[7] or ''
if step == 'remove' and not (#sha256 == 64 and find(sha256, '^%x+$') and expected) then return usage('archive: ARGV[5] is no SHA-256, or ARGV[6] nothing') end

-- Read, and check, everything.
--- @include "all_meta"
if not rules.total then return read_ledger(false, rules) or {NOT_PREHEATED} end
local archive = meta.archive or false
local denied = step ~= 'plan' and denied_command('HSET', KEYS[2], 'HDEL', KEYS[2], 'UNLINK', KEYS[1], 'UNLINK', KEYS[3], 'UNLINK', KEYS[4],
  'UNLINK', KEYS[5], 'UNLINK', KEYS[6], 'UNLINK', KEYS[7])
if denied then return forbidden(denied) end
-- All keys in one command, then all of meta but what is left of it.
local function remove_rest()
  redis.call('UNLINK', KEYS[1], KEYS[3], KEYS[4], KEYS[5] or KEYS[4], KEYS[6] or KEYS[4], KEYS[7] or KEYS[4])
  clear_meta(meta, {rules = true, title = true, archive = true})
end
local is_archived = rules.state == 'archived'
if is_archived then
  local is_this = step == 'remove' and archive and string.sub(archive, 1, #name + 66) == name .. ' ' .. sha256 .. ' '
  if not is_this then return {ENDED, archive, digits(rules.epoch)} end
  -- Pages of a restore are not what a cut left.
  if meta.restore then return {REPLAYED} end
  if redis.call('EXISTS', KEYS[1], KEYS[3], KEYS[4], KEYS[5] or KEYS[4], KEYS[6] or KEYS[4], KEYS[7] or KEYS[4]) == 0 then
    remove_rest()
    return {REPLAYED}
  end
  -- A removal that came to its end left nothing of meta but this.
  if not meta.repairs then return {STALE} end
end
local stock_text = redis.pcall('GET', KEYS[1])
if not stock_text then return {step == 'plan' and NOT_PREHEATED or STALE} end
local stock = whole(stock_text)
if not stock then return unfit(stock_text, 1) end
local withdrawn = whole(meta.withdrawn)
if meta.withdrawn and not withdrawn then return unfit(meta.withdrawn, 2) end
local holds = redis.pcall('HGET', KEYS[3], '\tholds') or '0'
if not whole(holds) then return unfit(holds, 3) end
local bad, entries, last = read_ledger(stock_text, rules)
if bad then return bad end
--- @include "participants"

-- Whether each consumer group of the ledger has read and acknowledged everything.
local groups, unread = 0, false
if entries > 0 then
  for _, group in ipairs(redis.call('XINFO', 'GROUPS', KEYS[4])) do
    local about = {}
    for i = 1, #group, 2 do about[group[i]] = group[i + 1] end
    local behind = redis.call('XRANGE', KEYS[4], '(' .. about['last-delivered-id'], '+', 'COUNT', 1)
    groups = groups + 1
    if about.pending > 0 or #behind > 0 then unread = unread or about.name end
  end
end
local seen = concat({stock_text, last or '-', digits(redis.call('HLEN', KEYS[3])), digits(entries), digits(participants), digits(with_units),
  digits(groups)}, ' ')
local its_epoch = digits(rules.epoch)
if meta.adopt then return {EXISTS} end
local units_left = stock + (withdrawn or 0)
local left = concat({digits(units_left), kind == 'counter' and '-' or digits(participants), digits(entries)}, ' ')
if is_archived then
  if string.match(archive, '^%S+ %S+ %S+ (%S+ %S+ %S+) ') ~= left then return {STALE} end
  remove_rest()
  return {REPLAYED}
end
local state = shown_state(rules.state, rules, units_left)
if step == 'plan' then return {OK, state, its_epoch, seen, archive, holds, unread} end

if epoch ~= its_epoch then return {STALE} end
if step == 'mark' then
  -- An archive that was restored has more words: it is another one.
  if archive and find(archive, '^[%w%-]+$') then name = archive end
  -- Also one that is named already: a removal that is still to come watches meta, and removes nothing then.
  redis.call('HSET', KEYS[2], 'archive', name)
  return {OK, name}
end

-- Remove: only what is as the files have it, and still over.
local is_over = state == 'ended' or state == 'paused'
if archive ~= name or expected ~= seen or unread or not is_over or holds ~= '0' then return {STALE} end
local now = digits(unix_ms())
-- First what says that the files have it, so that the same call again removes what a cut left.
rules.state = 'archived'
redis.call('HSET', KEYS[2], 'rules', rules_text(rules), 'archive', concat({name, sha256, now, left, by}, ' '))
remove_rest()
return {OK}
