-- Overdue holds: what is found of them, and how their units return.

-- How long those are left alone that only somebody else can decide, so that they do not hold up the others.
local POSTPONED_MS = 5000

-- Finds so many overdue holds. Returns the moves that return their units, with `examined`, how many ids there were; `gone`, ids
-- that are not held any more; and `left`, ids that stay: items of multi-orders, which have an entry in `orders`, and records that
-- are not what they should be. Or nil and the reply that refuses the call.
local function look_for_overdue(call, now, most)
  local ids = overdue_ids(now, most)
  local moves = new_moves({})
  moves.examined, moves.gone, moves.records, moves.left, moves.orders = #ids, {}, {}, {}, {}
  if #ids == 0 then return moves end
  local fields = {}
  for i = 1, #ids do fields[i] = '\th:' .. ids[i] end
  local found = redis.pcall('HMGET', KEYS[3], unpack(fields))
  if found.err then return nil, unfit(found, 3) end
  local holds, due, users = {}, {}, {}
  for i = 1, #ids do
    local hold = found[i] and parse_hold(found[i])
    if not found[i] or hold and hold.state ~= 'held' then
      moves.gone[#moves.gone + 1], moves.records[#moves.records + 1] = ids[i], hold
    elseif not hold or hold.order ~= '-' then
      moves.left[#moves.left + 1] = ids[i]
      moves.orders[#moves.orders + 1] = hold and hold.order or false
    else
      due[#due + 1], holds[#holds + 1], users[#users + 1] = ids[i], hold, hold.user
    end
  end
  if #due == 0 then return moves end
  local view = {kind = call.kind, users = users, count = #users}
  local bad = read_held(view)
  if bad then return nil, bad end
  local open
  open, bad = read_open(call, users)
  if not open then return nil, bad end
  moves.open = open
  for i = 1, #due do
    local user, quantity = users[i], holds[i].quantity
    local had = moves.now[user] or units_held(view.held[i])
    local fits = had and had ~= UNKNOWN and had >= quantity and (open[user] or 0) >= quantity
      and moves.units + quantity <= call.holds and call.stock + moves.units + quantity <= call.rules.total
    if fits then
      add_move(moves, due[i], holds[i], 'expired')
      move_units(moves, user, had, -quantity)
      move_open(moves, user, -quantity)
    else
      moves.left[#moves.left + 1], moves.orders[#moves.orders + 1] = due[i], false
    end
  end
  return moves
end

-- The same, after what calls that were cut left of them is finished, unless nothing may be written; then it `is_finished`.
local function find_overdue(call, now, most)
  local moves, reply = look_for_overdue(call, now, most)
  if not moves or call.dry or #moves.gone == 0 then return moves, reply end
  local denied = may_not_give_back(call)
  if denied then return nil, forbidden(denied) end
  if not finish(call, moves.gone, moves.records) then
    -- They stay, and do not hold up the others.
    for i = 1, #moves.gone do
      moves.left[#moves.left + 1] = moves.gone[i]
      moves.orders[#moves.orders + 1] = false
    end
    return moves
  end
  moves, reply = look_for_overdue(call, now, most)
  if moves then moves.is_finished = true end
  return moves, reply
end

-- Postpones what is left.
local function postpone(call, moves, now)
  if #moves.left > 0 then
    local later = {}
    for i = 1, #moves.left do later[2 * i - 1], later[2 * i] = digits(now + POSTPONED_MS), moves.left[i] end
    set_deadlines(later)
  end
end

-- Returns the units of what was found.
local function give_back_overdue(call, moves)
  if #moves.ids > 0 then give_back({
    kind = call.kind, by = call.by, reason = call.reason, stock = call.stock, holds = call.holds, rules = call.rules,
    withdrawn = call.withdrawn, remove_deadlines = call.remove_deadlines,
  }, 'expire', moves, {}) end
end
