--[[
  A shop's own purchase of several SKUs, as it runs in production: checks, then writes, and validates nothing.
  KEYS     stock:<id>  string  units left, of each SKU
  ARGV     quantities
  Returns `key=rest` for each key of which too few are left; nothing when all are sold.
]]
local short = {}
for i, key in ipairs(KEYS) do
  local stock = tonumber(redis.call('GET', key) or '0')
  if stock < tonumber(ARGV[i]) then
    table.insert(short, key .. '=' .. stock)
  end
end
if #short > 0 then
  return short
end
for i, key in ipairs(KEYS) do
  redis.call('DECRBY', key, ARGV[i])
end
return {}
