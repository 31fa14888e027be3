--[[
  A shop's own claim, as it runs in production: checks, then writes, and validates nothing.
  KEYS[1]  coupon:stock:<id>  string  coupons left
  KEYS[2]  coupon:user:<id>   set     users who have one
  ARGV     user
  Returns 0 when there are none left, 2 when the user has one, 1 when claimed.
]]
local user = ARGV[1]
local stock = tonumber(redis.call('GET', KEYS[1]) or '0')
if stock <= 0 then
  return 0
end
if redis.call('SISMEMBER', KEYS[2], user) == 1 then
  return 2
end
redis.call('DECR', KEYS[1])
redis.call('SADD', KEYS[2], user)
return 1
