-- What shops run for several products: check all stocks, then take of each, no validation.
local stocks = redis.call('MGET', unpack(KEYS))
for i = 1, #KEYS do
  if tonumber(stocks[i] or '0') < tonumber(ARGV[i]) then return {-3, 'sold out'} end
end
for i = 1, #KEYS do redis.call('DECRBY', KEYS[i], ARGV[i]) end
return {1, 'ok'}
