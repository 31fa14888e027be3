-- Finds overdue holds, at most MOST, up to the time NOW. Reads call; sets ids, those that were looked at; holds, those of which the
-- units return, and moved, how many; left, ids that stay, with their order: items of multi-orders, and records that are not what they
-- should be (false); returned, the units by user; and it, what returns them. What a call that was cut left of them is finished first,
-- unless nothing may be written.
local ids, holds, left, users, open_fields, failed
for look = 1, 2 do
  ids = redis.call('ZRANGEBYSCORE', KEYS[DEADLINES], '-inf', digits(NOW), 'LIMIT', '0', MOST)
  local found, is_stale = {}, false
  holds, left, users, open_fields = {}, {}, {}, {}
  for i = 1, #ids do found[i] = '\th:' .. ids[i] end
  if #ids > 0 then found = redis.call('HMGET', KEYS[3], unpack(found)) end
  for i = 1, #ids do
    local state, quantity, order, user = parse_hold(found[i])
    if not found[i] or state and state ~= 'held' then
      is_stale = true
      -- What cannot be finished does not hold up the others.
      if failed then left[#left + 1] = {ids[i], false} end
    elseif not state or order ~= '-' then
      left[#left + 1] = {ids[i], order or false}
    else
      local at = #holds + 1
      holds[at] = {id = ids[i], quantity = quantity, order = order, user = user, text = found[i]}
      users[at], open_fields[at] = user, '\to:' .. user
    end
  end
  if look == 2 or not is_stale or call.dry then break end
  local units, refusal = recount(call)
  if units == false then return refusal end
  failed = not units
end
local moved, returned, now, now_open, touched = 0, {}, {}, {}, {}
local it = {users = {}, gone = {}, ids = {}, set = {}, cleared = {}}
if #holds > 0 then
  --- @include "held_many"
  local open, repeats, numbers = redis.call('HMGET', KEYS[3], unpack(open_fields)), true, {[true] = math.huge}
  local due = {}
  for i, hold in ipairs(holds) do
    local user, units, text = hold.user, hold.quantity, open[i] or '0'
    --- @include "had"
    local is_open = now_open[user] or whole(text)
    if not is_open then key, value = 3, text break end
    if had and had ~= math.huge and had >= units and is_open >= units and moved + units <= call.holds
      and call.stock + moved + units <= call.rules.total then
      if not returned[user] then touched[#touched + 1] = user end
      moved, now[user], now_open[user], due[#due + 1] = moved + units, had - units, is_open - units, hold
      returned[user] = (returned[user] or 0) + units
      it.ids[#due], it.set[2 * #due - 1], it.set[2 * #due] = hold.id, '\th:' .. hold.id, 'expired' .. string.sub(hold.text, 5)
    else
      left[#left + 1] = {hold.id, false}
    end
  end
  if key then break end
  holds = due
end
for _, user in ipairs(touched) do
  if now_open[user] > 0 then
    it.set[#it.set + 1], it.set[#it.set + 2] = '\to:' .. user, digits(now_open[user])
  else
    it.cleared[#it.cleared + 1] = '\to:' .. user
  end
  if now[user] > 0 then
    it.users[#it.users + 1], it.users[#it.users + 2] = user, digits(now[user])
  else
    it.gone[#it.gone + 1] = user
  end
end
it.units, it.holds = digits(moved), digits(call.holds - moved)
if #holds > 0 and call.rules.ledger then
  it.entry = hold_entry('expire', call.by, call.reason or '', call.stock + moved, holds)
end
