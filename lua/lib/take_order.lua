-- Takes the units of order i of a file. Reads user, units, repeats and had, what the user holds; adds to left, applied and had, and
-- to what users hold: set and its size, or members.
left, applied = left - units, applied + 1
--- @if hash set coupon
had = had + units
if repeats then now[user] = had end
--- @end
--- @if hash set
local numeral = texts[had]
if not numeral then
  numeral = digits(had)
  texts[had] = numeral
end
size = size + 2
set[size - 1] = user
set[size] = numeral
--- @end
--- @if set coupon
members[applied] = user
--- @end
