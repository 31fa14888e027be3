--[[
  A shop's own sale as tutorials have it: joins its keys from ARGV, checks, then writes, and validates nothing.
  ARGV     voucher user order
  Returns 1 when there are none left, 2 when the user has one, 0 when sold.
]]
local voucher, user, order = ARGV[1], ARGV[2], ARGV[3]
local stock_key = 'seckill:stock:' .. voucher
local order_key = 'seckill:order:' .. voucher
if tonumber(redis.call('GET', stock_key)) <= 0 then
  return 1
end
if redis.call('SISMEMBER', order_key, user) == 1 then
  return 2
end
redis.call('INCRBY', stock_key, -1)
redis.call('SADD', order_key, user)
redis.call('XADD', 'stream.orders', '*', 'userId', user, 'voucherId', voucher, 'id', order)
return 0
