-- Undoes an order whose entry was refused, the stock last: nobody was told of it. Reads added, the refusal.
if not undoes then return added end
--- @if hold
redis.call('HDEL', KEYS[3], request, '\th:' .. request)
if fields[3] then redis.call('HSET', KEYS[3], open_field, fields[3]) else redis.call('HDEL', KEYS[3], open_field) end
if meta[2] then redis.call('HSET', KEYS[2], 'holds', meta[2]) else redis.call('HDEL', KEYS[2], 'holds') end
--- @else
if request ~= '' then redis.call('HDEL', KEYS[3], request) end
--- @end
--- @if hash set coupon
if begun == 'first' then redis.call('HSET', KEYS[3], '\tbegun', 'first') end
--- @end
--- @if hash
if found then redis.call('HSET', KEYS[5], user, found) else redis.call('HDEL', KEYS[5], user) end
--- @end
--- @if set coupon
redis.call('SREM', KEYS[5], user)
--- @end
--- @if set
redis.call('HDEL', KEYS[6], user)
--- @end
--- @if hold
-- A deadline without a hold is nobody's.
if is_new == 1 then redis.pcall('ZREM', KEYS[DEADLINES], request) end
--- @end
redis.call('DECRBY', KEYS[1], '-' .. quantity)
key, value = 4, find(added.err, 'last possible ID', 1, true) and LAST_ID or added
break
