-- Records whose the units of orders are: users with what they hold then, or users alone; and removes the mark of the first user.
--- @if deduct_file hold_file multi_deduct_file
--- @let HOLDERS_UNITS = unpack(set, 1, size)
--- @let HOLDERS = unpack(members, 1, applied)
--- @end
--- @if hash
redis.call('HSET', KEYS[5], HOLDERS_UNITS)
--- @end
--- @if set
-- Units are written before their member, who would be unknown without them.
redis.call('HSET', KEYS[6], HOLDERS_UNITS)
--- @end
--- @if set coupon
redis.call('SADD', KEYS[5], HOLDERS)
--- @end
if marks then redis.call('HDEL', KEYS[3], '\tbegun') end
