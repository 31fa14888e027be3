-- Records who holds the units of a file's orders. Reads set and its size, or members, and applied.
--- @if hash
redis.call('HSET', KEYS[5], unpack(set, 1, size))
--- @end
--- @if set
-- Units are written before their member, who would be unknown without them.
redis.call('HSET', KEYS[6], unpack(set, 1, size))
--- @end
--- @if set coupon
redis.call('SADD', KEYS[5], unpack(members, 1, applied))
--- @end
