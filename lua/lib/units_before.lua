-- What the user of order i holds: nil if that is damaged, math.huge of a member of a set without units. Reads held, now, what users
-- hold after the orders before, and numbers, what was read before by its text.
--- @if coupon
local had = repeats and now[user] or held[i]
--- @end
--- @if hash set
local had = repeats and now[user]
if not had then
  --- @if hash
  local recorded = held[i]
  --- @else
  local recorded = held[i] == 1 and (units_of[i] or true)
  --- @end
  had = not recorded and 0 or numbers[recorded]
  if not had then
    had = whole(recorded)
    numbers[recorded] = had
  end
end
--- @end
