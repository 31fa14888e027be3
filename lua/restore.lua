--[[
  restore: writes the keys of an archived activity from its files. One step a call: a million participants fit into no
  single one, and each step may be the last that runs. Run again from the beginning, it resumes.

  KEYS[1]  stock          string  written before the rules
  KEYS[2]  meta           hash    rules, whose state is archived until switch; restore: `<sha256> <had>` from begin to switch, 1
                                  if there was a meta before; restored: `<sha256> <ms> <by>` of the last restore
  KEYS[3]  requests       hash
  KEYS[4]  ledger         stream
  KEYS[5]  participants   hash (kind hash) | set (kinds set and coupon) | none (kind counter)
  KEYS[6]  units          hash; kind set only

  ARGV[1]  kind           hash, set, coupon or counter
  ARGV[2]  step           plan, begin, page, switch or undo
  ARGV[3]  sha256         of the manifest, 64 hexadecimal digits: which archive it is
  ARGV[4]  begin: the rules as they will be; page: requests, ledger, participants or units; switch: what must be there,
           `<last> <requests> <entries> <participants> <units>`
  ARGV[5]  switch: by, who runs this, and why; may be empty
  ARGV[6]  switch: the stock
  ARGV[7]  switch: the consumer groups, a JSON array: name, last id that was delivered, name, …
  ARGV[8..] switch: fields of meta and their values, `rules` among them
           page: from ARGV[5] on the fields and values of a hash, the members of a set, or entries: id, how many texts
           follow, fields and values

  Steps: `plan` only reads. `begin` makes a meta in the state archived, so that nobody buys and nobody refunds. Pages are
  written only behind it, and each may be sent twice. `switch` compares what is there with what the files have, writes
  the stock, and makes meta what it was. `undo` removes the pages; a meta that was there before stays.

  Returns {status, ...}
     1 ok             plan: {1, stage, total, stock}: absent, archived (this archive was made of it) or unfinished; texts
     2 replayed       {2, stage, total, stock}: plan, begin, switch: it was restored from this archive
   -10 exists         {-10, what, total, stock}: plan, begin: keys of it are there; `archived`: other files have it; `restore`: from
                      other files
   -11 corrupt        {-11, false, false, n, value}: KEYS[n] holds value (false: it is of the wrong type)
   -23 stale          {-23, seen}: page, switch, undo: no restore of this archive is under way, or (with what is there) somebody
                      else wrote to it

  Commands it needs (checked before the first write from Redis 7.0 on): GET HGETALL TYPE EXISTS HLEN XLEN XREVRANGE TIME
  HSET HDEL XADD XGROUP UNLINK SET; sets also SCARD SADD.
]]
--- @use "codes"
--- @use "meta"
--- @use "denied"
--- @use "earlier"

local kind, step, sha256 = ARGV[1], ARGV[2], ARGV[3] or ''
if #KEYS ~= (KEYS_OF[kind] or -1) then return usage('restore: kind and number of keys do not fit') end
if #sha256 ~= 64 or not find(sha256, '^%x+$') then return usage('restore: ARGV[3] is no SHA-256') end
--- @include "all_meta"
local is_under_way = meta.restore and string.sub(meta.restore, 1, 65) == sha256 .. ' ' and rules.state == 'archived'

if step == 'page' then
  local part, count = ARGV[4], #ARGV - 4
  if count < 1 or count > 7000 then return usage('restore: a page has 1 to 7000 texts') end
  if not is_under_way then return {STALE} end
  local written
  if part == 'requests' then
    written = redis.pcall('HSET', KEYS[3], unpack(ARGV, 5))
  elseif part == 'participants' and kind == 'hash' then
    written = redis.pcall('HSET', KEYS[5], unpack(ARGV, 5))
  elseif part == 'participants' and kind ~= 'counter' then
    written = redis.pcall('SADD', KEYS[5], unpack(ARGV, 5))
  elseif part == 'units' and kind == 'set' then
    written = redis.pcall('HSET', KEYS[6], unpack(ARGV, 5))
  elseif part == 'ledger' then
    -- Ids only grow: of a page that is sent twice, what is there already is passed over.
    local newest = redis.pcall('XREVRANGE', KEYS[4], '+', '-', 'COUNT', 1)
    if newest.err then return unfit(newest, 4) end
    local last = newest[1] and newest[1][1] or '0-0'
    local at = 5
    while at <= #ARGV do
      local id, texts = ARGV[at], whole(ARGV[at + 1])
      if not (find(id, '^%d+%-%d+$') and texts and at + 1 + texts <= #ARGV) then return usage('restore: entries of a page') end
      if earlier(last, id) then
        written = redis.pcall('XADD', KEYS[4], id, unpack(ARGV, at + 2, at + 1 + texts))
        if type(written) == 'table' and written.err then break end
      end
      at = at + 2 + texts
    end
  else
    return usage('restore: ARGV[4] is no part of this kind')
  end
  if type(written) == 'table' and written.err then return written end
  return {OK}
end

-- What there is.
local there = redis.call('EXISTS', KEYS[1], KEYS[3], KEYS[4], KEYS[5] or KEYS[4], KEYS[6] or KEYS[4]) > 0
local stock_text = redis.pcall('GET', KEYS[1])
local stock_digits = type(stock_text) == 'string' and stock_text
local total = rules.total and digits(rules.total) or false
local was_restored = meta.restored and string.sub(meta.restored, 1, 65) == sha256 .. ' ' and rules.state ~= 'archived'
local stage, refused = 'absent', nil
if is_under_way then
  stage = 'unfinished'
elseif meta.restore then
  refused = 'restore'
elseif rules.state == 'archived' then
  local its_sha256 = string.match(meta.archive or '', '^%S+ (%x+) ')
  stage = 'archived'
  if its_sha256 ~= sha256 then refused = 'archived' elseif there then refused = 'keys' end
elseif there or meta.rules then
  -- Or a later sale has other shards, and has removed this one.
  refused = 'keys'
end

if step == 'plan' or step == 'begin' then
  if was_restored then
    -- Of a switch that was cut.
    if step == 'begin' and meta.restore then redis.call('HDEL', KEYS[2], 'restore', 'archive') end
    return {REPLAYED, 'restored', total, stock_digits}
  end
  if refused then return {EXISTS, refused, total, stock_digits} end
  if step == 'plan' or is_under_way then return {OK, stage, total, stock_digits} end
end
if step ~= 'begin' and step ~= 'switch' and step ~= 'undo' then return usage('restore: ARGV[2] is no step') end
local denied = denied_command('HSET', KEYS[2], 'HDEL', KEYS[2], 'XADD', KEYS[4], 'UNLINK', KEYS[2], 'UNLINK', KEYS[4],
  (kind == 'set' or kind == 'coupon') and 'SADD', KEYS[5], 'SET', KEYS[1])
  or redis.acl_check_cmd and not redis.acl_check_cmd('XGROUP', 'CREATE', KEYS[4], 'g', '0') and 'XGROUP CREATE'
if denied then return forbidden(denied) end

if step == 'begin' then
  local plan = parse_rules(ARGV[4] or '')
  if not plan then return usage('restore: ARGV[4] is no rules') end
  plan.state = 'archived'
  redis.call('HSET', KEYS[2], 'rules', rules_text(plan), 'restore', sha256 .. (rules.total and ' 1' or ' 0'))
  return {OK, stage, total, stock_digits}
end

if step == 'undo' then
  if not is_under_way then return {STALE} end
  redis.call('UNLINK', KEYS[3], KEYS[4], KEYS[5] or KEYS[4], KEYS[6] or KEYS[4])
  if string.sub(meta.restore, -1) == '1' then
    redis.call('HDEL', KEYS[2], 'restore')
  else
    redis.call('UNLINK', KEYS[2])
  end
  return {OK}
end

-- Switch.
local expected, by, stock, groups = ARGV[4], ARGV[5], whole(ARGV[6]), ARGV[7]
if not (expected and by and stock and groups) then return usage('restore: ARGV[4] to ARGV[7] of the switch') end
if #ARGV < 9 or #ARGV > 4000 or #ARGV % 2 == 0 then return usage('restore: fields of meta') end
local fields = {unpack(ARGV, 8)}
local is_group_list, listed = pcall(cjson.decode, groups)
if not is_group_list or type(listed) ~= 'table' then return usage('restore: ARGV[7] is no list') end
if was_restored then return {REPLAYED, 'restored', total, stock_digits} end
if not is_under_way then return {STALE} end
local ledger_type = redis.call('TYPE', KEYS[4]).ok
local last, entries = '-', 0
if ledger_type == 'stream' then
  entries = redis.call('XLEN', KEYS[4])
  local newest = redis.call('XREVRANGE', KEYS[4], '+', '-', 'COUNT', 1)[1]
  last = newest and newest[1] or '-'
end
--- @include "participants"
local requests = redis.pcall('HLEN', KEYS[3])
if type(requests) == 'table' then return unfit(requests, 3) end
local seen = concat({last, digits(requests), digits(entries), digits(participants), digits(with_units)}, ' ')
-- A stock that somebody made meanwhile, as a plain refund does, is not ours to replace. The same one is of a call that was cut.
if stock_text and stock_text ~= ARGV[6] or seen ~= expected then return {STALE, seen .. (stock_text and ' stock' or '')} end
local now = digits(unix_ms())
for i = 1, #listed, 2 do
  local made = redis.pcall('XGROUP', 'CREATE', KEYS[4], listed[i], listed[i + 1])
  if type(made) == 'table' and made.err and not find(made.err, 'BUSYGROUP', 1, true) then return made end
end
-- Nobody buys or refunds until the rules are there, with which it is restored.
redis.call('SET', KEYS[1], ARGV[6])
redis.call('HSET', KEYS[2], 'restored', concat({sha256, now, by}, ' '), unpack(fields))
redis.call('HDEL', KEYS[2], 'restore', 'archive')
return {OK}
