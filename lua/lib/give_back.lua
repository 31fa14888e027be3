-- Returns units of holds that were not confirmed.

-- What a call moves: holds by number with the state that they get, and units of users, open ones and all. `held` is what
-- `read_held` found of `users`, `open` what `read_open` did.
local function new_moves(open)
  return {holds = {}, ids = {}, states = {}, units = 0, now = {}, touched = {}, is_touched = {}, open = open, moved_open = {}, is_moved = {}}
end

local function add_move(moves, id, hold, state)
  local at = #moves.ids + 1
  moves.ids[at], moves.holds[at], moves.states[at] = id, hold, state
  moves.units = moves.units + hold.quantity
end

-- Changes what a user holds, from `had`, by a number of units.
local function move_units(moves, user, had, units)
  moves.now[user] = had + units
  if not moves.is_touched[user] then moves.touched[#moves.touched + 1], moves.is_touched[user] = user, true end
end

-- Changes what a user holds open.
local function move_open(moves, user, units)
  moves.open[user] = moves.open[user] + units
  if not moves.is_moved[user] then moves.moved_open[#moves.moved_open + 1], moves.is_moved[user] = user, true end
end

-- The states of holds as HSET takes them, with the open units of users, behind those of `fields`; and the fields of users who
-- hold nothing open any more.
local function hold_fields(moves, fields)
  local cleared = {}
  for i = 1, #moves.ids do
    fields[#fields + 1] = '\th:' .. moves.ids[i]
    fields[#fields + 1] = hold_text(moves.holds[i], moves.states[i])
  end
  for i = 1, #moves.moved_open do
    local user = moves.moved_open[i]
    if moves.open[user] > 0 then
      fields[#fields + 1] = '\to:' .. user
      fields[#fields + 1] = digits(moves.open[user])
    else
      cleared[#cleared + 1] = '\to:' .. user
    end
  end
  return fields, cleared
end

-- The ledger entry of some holds.
local function hold_entry(call, op, left, moves)
  local users, texts = {}, {}
  local common = moves.holds[1].quantity
  for i = 1, #moves.ids do
    local hold = moves.holds[i]
    users[i], texts[i] = hold.user, digits(hold.quantity)
    if hold.quantity ~= common then common = nil end
  end
  local row = entry(op, call.by, call.reason, digits(left), 'quantity', common and texts[1] or column(texts))
  local function add(name, text)
    row[#row + 1] = name
    row[#row + 1] = text
  end
  add('users', column(users))
  add('requests', column(moves.ids))
  local order = moves.holds[1].order
  if #moves.ids == 1 and order ~= '-' then add('primary', string.sub(order, 3)) end
  return row
end

-- What the caller may not run of all that returning units takes; nil if it may.
local function may_not_give_back(call)
  local allowed, kind = redis.acl_check_cmd, call.kind
  if not allowed then return nil end
  return not allowed('HSET', KEYS[3], 'f', 'v') and 'HSET'
    or not allowed('HDEL', KEYS[3], 'f') and 'HDEL'
    or not allowed('HSET', KEYS[2], 'f', 'v') and 'HSET'
    or not may_change_deadlines() and 'ZADD and ZREM'
    or not call.withdrawn and not allowed('INCRBY', KEYS[1], '1') and 'INCRBY'
    or call.rules.ledger and not allowed('XADD', KEYS[4], '*', 'f', 'v') and 'XADD'
    or kind == 'hash' and not (allowed('HSET', KEYS[5], 'f', 'v') and allowed('HDEL', KEYS[5], 'f')) and 'HSET and HDEL'
    or kind == 'set' and not (allowed('HSET', KEYS[6], 'f', 'v') and allowed('HDEL', KEYS[6], 'f')) and 'HSET and HDEL'
    or kind ~= 'hash' and not (allowed('SADD', KEYS[5], 'm') and allowed('SREM', KEYS[5], 'm')) and 'SADD and SREM'
    or nil
end

-- Writes what was open and is not any more, with `fields` of the requests.
local function give_back(call, op, moves, fields)
  local it = {units = digits(moves.units), holds = digits(call.holds - moves.units), ids = moves.ids}
  it.users, it.gone = part_users(moves.touched, moves.now)
  it.set, it.cleared = hold_fields(moves, fields)
  if call.rules.ledger then it.entry = hold_entry(call, op, call.stock + moves.units, moves) end
  give_units_back(call, it)
end

-- What is held open, by the holds themselves: units of all users, and of those in `open`. With `every` of each user who has a hold
-- with a deadline; it then also gets the ids that have one and are not held, `stale`, and their holds, false without one. Nil if a
-- record is not what it should be.
-- All in one call, because they must be of one instant: 7 ms for 1,000 open holds on a slow core, 0.7 s for 100,000.
local function count_open(call, open, every)
  local ids, units = all_ids(), 0
  for from = 1, #ids, 1000 do
    local fields = {}
    for i = from, math.min(from + 999, #ids) do fields[#fields + 1] = '\th:' .. ids[i] end
    local found = redis.call('HMGET', KEYS[3], unpack(fields))
    for i = 1, #fields do
      local state, quantity, user
      if found[i] then
        state, quantity, user = string.match(found[i], '^(%l+) (%d+) %d+ %S+ (.*)$')
        quantity = HOLD_STATES[state or ''] and whole(quantity)
        if not quantity then return nil, found[i] end
      end
      if state == 'held' then
        units = units + quantity
        if every or open[user] then open[user] = (open[user] or 0) + quantity end
      elseif every then
        local at = #every.stale + 1
        every.stale[at], every.holds[at] = ids[from + i - 1], found[i] and parse_hold(found[i])
        if user and user ~= '' then open[user] = open[user] or 0 end
      end
    end
  end
  return units
end

-- Writes the units that users hold open, and of all users.
local function write_open(call, open, units)
  local set, cleared = {}, {}
  local function write(most)
    if #set > most then
      redis.call('HSET', KEYS[3], unpack(set))
      set = {}
    end
    if #cleared > most then
      redis.call('HDEL', KEYS[3], unpack(cleared))
      cleared = {}
    end
  end
  for user, is_open in pairs(open) do
    if is_open > 0 then
      set[#set + 1] = '\to:' .. user
      set[#set + 1] = digits(is_open)
    else
      cleared[#cleared + 1] = '\to:' .. user
    end
    write(4000)
  end
  write(0)
  redis.call('HSET', KEYS[2], 'holds', digits(units))
  call.holds = units
end

-- Ends what has a deadline and is not held, and writes to the ledger what of it was confirmed.
local function end_stale(call, stale, holds)
  remove_deadlines(stale)
  local moves = new_moves({})
  local function write()
    if #moves.ids == 0 then return end
    redis.call('XADD', KEYS[4], '*', unpack(hold_entry({by = call.by, reason = ''}, 'confirm', call.stock, moves)))
    moves = new_moves({})
  end
  for i = 1, call.rules.ledger and #stale or 0 do
    if holds[i] and holds[i].state == 'confirmed' then
      -- An item of an order over several slots has an entry of its own, which names the primary.
      local is_item = holds[i].order ~= '-'
      if is_item then write() end
      add_move(moves, stale[i], holds[i], 'confirmed')
      if is_item then write() end
    end
  end
  write()
end

-- Finishes calls that were cut: what has a deadline and is not held was ended by one, of which the counters may not know. `stale`
-- are such ids, `holds` their records, false without one. The deadlines are removed last, so that this can be cut, too; then the
-- ledger learns what was confirmed. Units that a release had not returned are for `reconcile`, which may have returned them.
-- Returns whether it could: if a record is not what it should be, the deadlines stay, because they say what is still to be counted.
local function finish(call, stale, holds)
  local open = {}
  for i = 1, #stale do
    local hold = holds[i]
    if hold and hold.user ~= '' then open[hold.user] = 0 end
  end
  local units = count_open(call, open)
  if not units then return false end
  write_open(call, open, units)
  end_stale(call, stale, holds)
  return true
end
