-- Holds: units that are taken with a deadline. KEYS[3] has of each hold `<tab>h:<id>`, which is `state quantity deadline order
-- user`, and of each user who has open ones `<tab>o:<user>`, their units; KEYS[2] has `holds`, the open units of all users.

local HOLD_STATES = {held = true, confirmed = true, released = true, expired = true, void = true}

-- A hold as it is stored, or nil. The order is `-`, or `m:<primary>` of an item of a multi-order.
local function parse_hold(text)
  local state, quantity, deadline, order, user = string.match(text, '^(%l+) (%d+) (%d+) (%S+) (.*)$')
  quantity, deadline = whole(quantity), whole(deadline)
  if not (HOLD_STATES[state] and quantity and deadline) then return nil end
  return {state = state, quantity = quantity, deadline = deadline, order = order, user = user}
end

local function hold_text(hold, state)
  return concat({state, digits(hold.quantity), digits(hold.deadline), hold.order, hold.user}, ' ')
end

-- Reads the units that users hold open: a number by user. If nothing is, nobody is asked for. Returns nil and the reply that
-- refuses the call if that is no number.
local function read_open(call, users)
  local open = {}
  if (call.holds or 0) == 0 or #users == 0 then return open end
  local fields = {}
  for i = 1, #users do fields[i] = '\to:' .. users[i] end
  local found = redis.pcall('HMGET', KEYS[3], unpack(fields))
  if found.err then return nil, unfit(found, 3) end
  for i = 1, #users do
    local units = whole(found[i] or '0')
    if not units then return nil, unfit(found[i], 3) end
    open[users[i]] = units
  end
  return open
end
