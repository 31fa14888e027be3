-- Counts anew what is held open.

local AT_ONCE = 500

-- The reply of the step `recount`: what the counts say and what the holds do, of all users and of each who differs. Unless nothing
-- may be written, the counts are then what the holds say, and what calls that were cut left is finished.
local function recount(call, most)
  if has_more_than(most) then return {OK, digits(call.stock), digits(call.holds), false} end
  local open, every = {}, {stale = {}, holds = {}}
  local units, damaged = count_open(call, open, every)
  if not units then return unfit(damaged, 3) end
  local users, fields, counted = {}, {}, {}
  for user in pairs(open) do users[#users + 1] = user end
  table.sort(users)
  local answer = {OK, digits(call.stock), digits(call.holds), digits(units)}
  for from = 1, #users, 1000 do
    fields = {}
    for i = from, math.min(from + 999, #users) do fields[#fields + 1] = '\to:' .. users[i] end
    counted = redis.pcall('HMGET', KEYS[3], unpack(fields))
    if counted.err then return unfit(counted, 3) end
    for i = 1, #fields do
      local user = users[from + i - 1]
      local at, text = #answer, counted[i] or '0'
      answer[at + 1], answer[at + 2], answer[at + 3] = user, text, digits(open[user])
      -- Only those who differ are written.
      if text == answer[at + 3] then open[user] = nil end
    end
  end
  if call.dry or next(open) == nil and units == call.holds and #every.stale == 0 then return answer end
  local denied = may_not_give_back(call)
  if denied then return forbidden(denied) end
  write_open(call, open, units)
  for from = 1, #every.stale, AT_ONCE do
    local stale, holds = {}, {}
    for i = from, math.min(from + AT_ONCE - 1, #every.stale) do
      stale[#stale + 1], holds[#holds + 1] = every.stale[i], every.holds[i]
    end
    end_stale(call, stale, holds)
  end
  return answer
end
