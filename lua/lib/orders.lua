-- What repair and the rare work of holds have in common: what is read and checked before anything is decided, and how what users
-- hold is written.

-- What a member of a set holds if no units are recorded, as a plain script leaves it: more than any number.
local UNKNOWN = math.huge

-- Reads stock and meta, and whether the ledger takes an entry. Returns nil, or the reply that refuses the whole activity. Afterwards
-- `call.stock` is the units for sale, with those that are withdrawn, `call.holds` the units held open.
local function read_activity(call)
  local stock_text = redis.pcall('GET', KEYS[1])
  local text = redis.pcall('HGET', KEYS[2], 'rules')
  local rules, invalid = rules_of(text, not text and redis.call('TYPE', KEYS[2]).ok ~= 'none')
  if not rules then return unfit(invalid, 2) end
  local entries, at_last_id = redis.pcall('XLEN', KEYS[4]), redis.pcall('XREVRANGE', KEYS[4], LAST_ID, LAST_ID, 'COUNT', 1)
  local bad = ledger_closed(stock_text or call.restores, rules, entries, at_last_id)
  if bad then return bad end
  -- Whatever a plain script may have made of its keys since.
  if rules.state == 'archived' then return {call.op and ENDED or NOT_PREHEATED, false, false} end
  if not stock_text then
    -- The units of a sharded activity are in activities of their own.
    local shards = rules.total and redis.call('HGET', KEYS[2], 'shards')
    if shards then return {SHARDED, false, shards} end
    if not call.restores then return {NOT_PREHEATED, false, false} end
  end
  call.is_lost = not stock_text
  local stock = whole(stock_text or '0')
  if not stock then return unfit(stock_text, 1) end
  local fields = redis.call('HMGET', KEYS[2], 'withdrawn', 'holds')
  call.holds = whole(fields[2] or '0')
  if not call.holds then return unfit(fields[2], 2) end
  local withdrawn, wrong = withdrawn_units(fields[1])
  if wrong and not withdrawn then return unfit(wrong, 2) end
  call.stock, call.withdrawn, call.rules = stock + (withdrawn or 0), withdrawn, rules
end

-- What a request id stores for an order, the user last, behind a tab, which no user contains. A purchase of one unit is
-- the user alone; another purchase has its quantity before it, and anything else its operation too.
local function digest_of(op, quantity, user)
  if op ~= 'deduct' then return op .. ' ' .. quantity .. '\t' .. user end
  return quantity == '1' and user or quantity .. '\t' .. user
end

-- Reads what is known of the request ids. Returns nil, or the reply that refuses the call. A call that was cut is
-- finished first, unless this is a dry run, and the activity is read anew; then `call.has_finished`.
local function read_requests(call)
  local fields = {'\tbegun'}
  for i = 1, call.requests and call.count or 0 do
    if call.requests[i] ~= '' then fields[#fields + 1] = call.requests[i] end
  end
  local found = redis.pcall('HMGET', KEYS[3], unpack(fields))
  if found.err then return unfit(found, 3) end
  call.was_first = found[1] == 'first'
  if found[1] and not call.was_first and not call.dry and not call.has_finished then
    call.has_finished = true
    return finish_begun(call, found[1]) or read_activity(call) or read_requests(call)
  end
  call.seen = {}
  for i = 1, #fields do call.seen[fields[i]] = found[i] end
end

-- Reads what the users hold: a text, false for nothing, true for a member of a set whose units are unknown. Returns nil,
-- or the reply that refuses the call.
local function read_held(call)
  local kind, users, count = call.kind, call.users, call.count
  if kind == 'counter' then return nil end
  local held
  if kind == 'hash' then
    if count == 1 then
      held = {(redis.pcall('HGET', KEYS[5], users[1]))}
      if type(held[1]) == 'table' then return unfit(held[1], 5) end
    else
      held = redis.pcall('HMGET', KEYS[5], unpack(users))
      if held.err then return unfit(held, 5) end
    end
  else
    held = redis.pcall('SMISMEMBER', KEYS[5], unpack(users))
    if held.err then return unfit(held, 5) end
    local units = {}
    if kind == 'set' then
      units = redis.pcall('HMGET', KEYS[6], unpack(users))
      if units.err then return unfit(units, 6) end
    end
    local alone = kind == 'set' or '1'
    for i = 1, count do held[i] = held[i] == 1 and (units[i] or alone) end
  end
  call.held = held
end

-- The units in what read_held found: nil if it is no number.
local function units_held(found)
  if not found then return 0 end
  if found == true then return UNKNOWN end
  return whole(found)
end

-- The users in `touched` who hold something now, with their units, and those who hold nothing; and the first ones alone.
local function part_users(touched, now)
  local set, left, joined = {}, {}, {}
  for i = 1, #touched do
    local user = touched[i]
    local units = now[user]
    if units > 0 then
      joined[#joined + 1] = user
      set[#set + 1] = user
      set[#set + 1] = digits(units)
    else
      left[#left + 1] = user
    end
  end
  return set, left, joined
end

-- Writes what the users in `touched` hold now. Who holds nothing is no participant.
local function write_held(call, touched, now)
  local kind = call.kind
  local set, left, joined = part_users(touched, now)
  if kind == 'hash' then
    if #set > 0 then redis.call('HSET', KEYS[5], unpack(set)) end
    if #left > 0 then redis.call('HDEL', KEYS[5], unpack(left)) end
    return
  end
  -- Units are written before their member and removed after it: a member without them would be unknown.
  if kind == 'set' and #set > 0 then redis.call('HSET', KEYS[6], unpack(set)) end
  if #joined > 0 then redis.call('SADD', KEYS[5], unpack(joined)) end
  if #left > 0 then redis.call('SREM', KEYS[5], unpack(left)) end
  if kind == 'set' and #left > 0 then redis.call('HDEL', KEYS[6], unpack(left)) end
end

-- Takes units, and records whose they are. The first user is recorded behind a mark, if the caller may remove it.
local function take_and_record(call, units, touched, now)
  local allowed = redis.acl_check_cmd
  local marks = (call.was_first or call.is_first and not call.seen['\tbegun']) and (not allowed or allowed('HDEL', KEYS[3], 'f') and allowed('DECRBY', KEYS[1], '1'))
  if marks then redis.call('HSET', KEYS[3], '\tbegun', 'first') end
  take_units(call.withdrawn, units)
  if call.kind ~= 'counter' then write_held(call, touched, now) end
  if marks then redis.call('HDEL', KEYS[3], '\tbegun') end
end
