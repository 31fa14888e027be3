-- Holds: units that are taken with a deadline. KEYS[3] has of each hold `<tab>h:<id>`, which is `state quantity deadline order
-- user`, of each user who has open ones `<tab>o:<user>`, their units, and `<tab>holds`, the open units of all users. A record and what
-- it counts for change in one command.

local HOLD_STATES = {held = true, confirmed = true, released = true, expired = true, void = true}

-- State, quantity, order and user of a hold as it is stored, or nil. The order is `-`, or `m:<primary>` of an item of a multi-order;
-- a hold that was aborted before it came has no user.
local function parse_hold(text)
  local state, quantity, deadline, order, user = string.match(text or '', '^(%l+) (%d+) (%d+) (%S+) (.*)$')
  quantity = whole(quantity)
  if not (HOLD_STATES[state or ''] and quantity and whole(deadline) and (user ~= '' or state == 'void')) then return nil end
  return state, quantity, order, user
end
