-- What the user holds. Sets found, whether the user is recorded, and had, the units: `?` of a member of a set without units. Of
-- settle it is nil if it is damaged, which only some states of a hold need to know.
--- @if hash
local found, had = redis.pcall('HGET', KEYS[5], user), 0
if found then
  if found.err then key, value = 5, found break end
  had = found == '1' and 1 or whole(found)
  --- @if deduct multi_deduct refund hold
  if not had then key, value = 5, found break end
  --- @end
end
--- @end
--- @if set coupon
local members, had = redis.pcall('SMISMEMBER', KEYS[5], user), 0
if members.err then key, value = 5, members break end
local found = members[1] == 1
--- @end
--- @if set
local its_units = redis.pcall('HGET', KEYS[6], user)
if type(its_units) == 'table' then key, value = 6, its_units break end
if found then
  had = not its_units and '?' or whole(its_units)
  --- @if deduct multi_deduct refund hold
  if not had then key, value = 6, its_units break end
  --- @end
end
--- @end
--- @if coupon
if found then had = 1 end
--- @end
