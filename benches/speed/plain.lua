-- What shops run on the `seckill` keys: check, then write, no validation.
local stock = redis.call('GET', KEYS[1])
if not stock then return {-1, 'not preheated'} end
local bought = redis.call('HGET', KEYS[2], ARGV[1]) or '0'
local quantity = tonumber(ARGV[2])
if tonumber(bought) + quantity > tonumber(ARGV[3]) then return {-2, 'limit exceeded'} end
if tonumber(stock) < quantity then return {-3, 'sold out'} end
redis.call('DECRBY', KEYS[1], quantity)
redis.call('HINCRBY', KEYS[2], ARGV[1], quantity)
return {1, 'ok'}
