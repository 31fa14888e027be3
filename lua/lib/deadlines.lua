-- The last key is a sorted set, request id by deadline in Unix ms, or nothing.
local deadlines_type = redis.call('TYPE', KEYS[DEADLINES]).ok
if deadlines_type ~= 'zset' and deadlines_type ~= 'none' then return {CORRUPT, false, false, DEADLINES, false} end
