-- Ends overdue holds, at most MOST, up to the time NOW, unless this is a dry run. Reads call; sets ids, those that
-- were looked at; holds, those whose units return, and moved, how many; left, ids that stay, with their order: items of multi-orders, and
-- records that are not what they should be (false); and returned, the units by user.
local ids = redis.call('ZRANGEBYSCORE', KEYS[DEADLINES], '-inf', digits(NOW), 'LIMIT', '0', MOST)
local records, holds, left, users, open_fields, stale = {}, {}, {}, {}, {}, {}
for i = 1, #ids do records[i] = '\th:' .. ids[i] end
if #ids > 0 then records = redis.call('HMGET', KEYS[3], unpack(records)) end
for i = 1, #ids do
  local state, quantity, order, user = parse_hold(records[i])
  if not records[i] or state and state ~= 'held' then
    -- A call that was cut left it.
    stale[#stale + 1] = ids[i]
  elseif not state or order ~= '-' then
    left[#left + 1] = {ids[i], order or false}
  else
    local at = #holds + 1
    holds[at] = {id = ids[i], quantity = quantity, user = user, text = records[i]}
    users[at], open_fields[at] = user, '\to:' .. user
  end
end
local moved, returned, now, now_open, touched = 0, {}, {}, {}, {}
local it = {users = {}, gone = {}, ids = {}, set = {}, cleared = {}}
if #holds > 0 then
  --- @include "held_many"
  local open, repeats, numbers = redis.call('HMGET', KEYS[3], unpack(open_fields)), true, {[true] = math.huge}
  local due = {}
  for i, hold in ipairs(holds) do
    local user, units, text = hold.user, hold.quantity, open[i] or '0'
    --- @include "units_before"
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
it.units = digits(moved)
it.set[#it.set + 1], it.set[#it.set + 2] = '\tholds', digits(call.holds - moved)
if not call.dry and #ids > 0 then
  local allowed = redis.acl_check_cmd
  local denied = may_not_return(KIND, call.withdrawn, {units = '1', ids = {'m'}, entry = call.rules.ledger})
    or allowed and not allowed('ZADD', KEYS[DEADLINES], '1', 'm') and 'ZADD'
    --- @if hold hold_file
    or allowed and (not allowed('DECRBY', KEYS[1], '1') and 'DECRBY' or not allowed('EXISTS', KEYS[5]) and 'EXISTS')
    --- @end
  --- @include "forbidden"
  if #stale > 0 then redis.call('ZREM', KEYS[DEADLINES], unpack(stale)) end
  if #holds > 0 then
    if call.rules.ledger then
      local quantities, common = {}, digits(holds[1].quantity)
      users = {}
      for i, hold in ipairs(holds) do
        users[i], quantities[i] = hold.user, digits(hold.quantity)
        if quantities[i] ~= quantities[1] then common = nil end
      end
      it.entry = entry('expire', call.by, call.reason, digits(call.stock + moved), 'quantity', common or concat(quantities, '\t'),
        'users', concat(users, '\t'), 'requests', concat(it.ids, '\t'))
    end
    give_units_back(call, it)
  end
end
