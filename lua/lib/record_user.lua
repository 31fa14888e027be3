-- Records who holds the units of one order, and removes the mark of the first user. Reads user, quantity and marks; HELD_AFTER is what
-- the user holds then.
--- @if hash
redis.call('HSET', KEYS[5], user, HELD_AFTER)
--- @end
--- @if set
-- A member without units would be unknown.
redis.call('HSET', KEYS[6], user, quantity)
--- @end
--- @if set coupon
redis.call('SADD', KEYS[5], user)
--- @end
if marks then redis.call('HDEL', KEYS[3], '\tbegun') end
