--[[
  A shop's own purchase, as it runs in production: checks, then writes, and validates nothing.
  KEYS[1]  product_stock_<id>  string  units left
  ARGV     quantity
  Returns 1 when sold, 0 when there are too few, -1 when the product is not there.
]]
local quantity = tonumber(ARGV[1])
local stock = redis.call('GET', KEYS[1])
if not stock then
  return -1
end
if tonumber(stock) < quantity then
  return 0
end
redis.call('DECRBY', KEYS[1], quantity)
return 1
