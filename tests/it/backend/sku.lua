--[[
  A shop's own purchase, as it runs in production: checks, then writes, and validates nothing.
  KEYS[1]  stock:<id>   string  units left
  KEYS[2]  bought:<id>  set     users who ordered
  ARGV     quantity, user
  Returns the units left, -1 when there are too few, -2 when the user has ordered before.
]]
local quantity, user = tonumber(ARGV[1]), ARGV[2]
if redis.call('SISMEMBER', KEYS[2], user) == 1 then
  return -2
end
local stock = tonumber(redis.call('GET', KEYS[1]) or '0')
if stock < quantity then
  return -1
end
redis.call('SADD', KEYS[2], user)
return redis.call('DECRBY', KEYS[1], quantity)
