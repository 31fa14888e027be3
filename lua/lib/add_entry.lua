-- Writes the ledger entry of one order, and undoes the order if it is refused, the stock last: nobody knows of it. Reads what
-- `entry` reads, has_ledger and undoes.
if has_ledger then
  --- @include "entry"
  --- @if hold
  if items then
    local size = #entry
    entry[size + 1], entry[size + 2] = 'primary', string.sub(order, 3)
    if items ~= '' then entry[size + 3], entry[size + 4] = 'items', items end
  end
  --- @end
  local added = redis.pcall('XADD', KEYS[4], '*', unpack(entry))
  if added.err then
    if not undoes then return added end
    --- @if hold
    -- Record and counts change together, as in every call.
    redis.call('HSET', KEYS[3], request, 'void\t', '\th:' .. request, 'void 0 0 - ', open_field, fields[3] or '0', '\tholds', fields[4] or '0')
    redis.call('HDEL', KEYS[3], request, '\th:' .. request, fields[3] and request or open_field, fields[4] and request or '\tholds')
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
    redis.pcall('ZREM', KEYS[DEADLINES], request)
    --- @end
    redis.call('DECRBY', KEYS[1], '-' .. quantity)
    key, value = 4, find(added.err, 'last possible ID', 1, true) and LAST_ID or added
    break
  end
end
