--[[
  parent: reads what the parent of a sharded activity says, or changes it, if it still says what the caller read.

  A sharded activity is its shards, each an activity of its own, `<id>#<k>`, and the parent, `<id>`, which has a meta and no
  other key: `rules` of the whole sale, `title`, `shards` (the numbers `k`, in the order of the homes of users), `plan`
  while a preheat of the whole is unfinished, and `revision`, how often it was changed: a change that comes late, when another one
  made the parent what it was before, is stale. Without `shards`, which a plan may have put aside, nobody can buy.

  KEYS[1]  stock          string; here and in all that follow: absent, unless mode clear makes a parent of an activity
  KEYS[2]  meta           hash    rules, title, shards, plan, revision
  KEYS[3]  requests       hash
  KEYS[4]  ledger         stream
  KEYS[5]  participants   hash
  KEYS[6]  deadlines      sorted set

  ARGV[1]  mode           read; set; or clear: as set, but all other keys and fields of the activity are removed
  ARGV[2]  rules, ARGV[3] title, ARGV[4] shards, ARGV[5] plan, ARGV[6] revision
                          as the caller read them: `=text` each, or empty if it is absent; to read, they may be left out
  ARGV[7]  rules, ARGV[8] title, ARGV[9] shards, ARGV[10] plan, ARGV[11] revision
                          as they should be, in the same form

  Returns {status, rules, title, shards, plan, revision, others}: what it says afterwards, false for what is absent, and how many other
  keys of the activity are there
     1 ok
     2 replayed           it says so already; its rules are written again, so that a WAIT that follows covers all of it
   -10 exists             set: other keys are there, so it is an activity without shards
   -11 corrupt            read, set: {-11, false, false, n, value}: KEYS[n] is of the wrong type
   -23 stale              it says neither what the caller read nor what it should: somebody else changed it
  Clear takes a meta of the wrong type for an absent one. Only ok and replayed write, in mode set and clear.

  Commands it needs (checked before the first write from Redis 7.0 on): TYPE EXISTS HMGET HGETALL HSET HDEL; clear also UNLINK.
]]
--- @use "codes"
--- @use "values"
--- @use "denied"

local FIELDS = {'rules', 'title', 'shards', 'plan', 'revision'}
local mode = ARGV[1]
if mode ~= 'read' and mode ~= 'set' and mode ~= 'clear' then return usage('parent: ARGV[1] is not read, set or clear') end
if #KEYS ~= 6 then return usage('parent: 6 keys are wanted, not ' .. #KEYS) end
if mode ~= 'read' and #ARGV ~= 11 then return usage('parent: 11 arguments are wanted, not ' .. #ARGV) end
local function given(text)
  return text ~= '' and string.sub(text, 2) or false
end

local meta_type = redis.call('TYPE', KEYS[2]).ok
if mode ~= 'clear' and meta_type ~= 'none' and meta_type ~= 'hash' then return {CORRUPT, false, false, 2, false} end
local found = meta_type == 'hash' and redis.call('HMGET', KEYS[2], unpack(FIELDS)) or {false, false, false, false, false}
local others = redis.call('EXISTS', KEYS[1], KEYS[3], KEYS[4], KEYS[5], KEYS[6])
if mode == 'read' then return {OK, found[1], found[2], found[3], found[4], found[5], others} end

local before, after = {}, {}
for i = 1, #FIELDS do
  before[i], after[i] = given(ARGV[1 + i]), given(ARGV[6 + i])
end
local function is(texts)
  for i = 1, #FIELDS do
    if found[i] ~= texts[i] then return false end
  end
  return true
end
local is_replayed = is(after) and others == 0
if not is_replayed and not is(before) then return {STALE, found[1], found[2], found[3], found[4], found[5], others} end
if mode == 'set' and others > 0 then return {EXISTS, found[1], found[2], found[3], found[4], found[5], others} end

local unlink = mode == 'clear' and 'UNLINK'
local denied = denied_command('HSET', KEYS[2], 'HDEL', KEYS[2], unlink, KEYS[1], unlink, KEYS[2], unlink, KEYS[3], unlink, KEYS[4],
  unlink, KEYS[5], unlink, KEYS[6])
if denied then return forbidden(denied) end
if is_replayed then
  if after[1] then redis.call('HSET', KEYS[2], 'rules', after[1]) end
  return {REPLAYED, after[1], after[2], after[3], after[4], after[5], 0}
end
local set, gone = {}, {}
for i, field in ipairs(FIELDS) do
  if after[i] then
    set[#set + 1] = field
    set[#set + 1] = after[i]
  else
    gone[#gone + 1] = field
  end
end
if mode == 'clear' then
  -- Read before the first write.
  local known = {rules = true, title = true, shards = true, plan = true, revision = true}
  local flat = meta_type == 'hash' and redis.call('HGETALL', KEYS[2]) or {}
  for i = 1, #flat, 2 do
    if not known[flat[i]] then gone[#gone + 1] = flat[i] end
  end
  redis.call('UNLINK', KEYS[1])
  if meta_type ~= 'hash' then redis.call('UNLINK', KEYS[2]) end
end
if #set > 0 then redis.call('HSET', KEYS[2], unpack(set)) end
for from = 1, #gone, 1000 do
  redis.call('HDEL', KEYS[2], unpack(gone, from, math.min(from + 999, #gone)))
end
if mode == 'clear' then redis.call('UNLINK', KEYS[3], KEYS[4], KEYS[5], KEYS[6]) end
return {OK, after[1], after[2], after[3], after[4], after[5], 0}
