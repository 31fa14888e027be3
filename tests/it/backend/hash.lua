--[[
  A shop's own purchase, as it runs in production: checks, then writes, and validates nothing.
  KEYS[1]  seckill:stock:<id>         string  units left
  KEYS[2]  seckill:participants:<id>  hash    user -> units bought
  ARGV     user, quantity, limit per user
  Returns {1, text} when sold, {0, text} when not.
]]
local user, quantity, limit = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local stock = tonumber(redis.call('GET', KEYS[1]))
local bought = tonumber(redis.call('HGET', KEYS[2], user) or '0')
if bought + quantity > limit then
  return {0, '超过个人限购'}
end
if stock < quantity then
  return {0, '库存不足'}
end
redis.call('DECRBY', KEYS[1], quantity)
redis.call('HINCRBY', KEYS[2], user, quantity)
return {1, '成功'}
