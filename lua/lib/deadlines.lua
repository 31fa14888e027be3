-- The last key of the scripts that know holds: a sorted set, request id by deadline in Unix ms.

-- The refusal if the key holds anything but a sorted set.
local function deadlines_unfit()
  local found = redis.call('TYPE', KEYS[DEADLINES]).ok
  if found ~= 'none' and found ~= 'zset' then return {CORRUPT, false, false, DEADLINES, false} end
end

-- Adds deadlines and ids in turn, or moves those that are there.
local function set_deadlines(list)
  redis.call('ZADD', KEYS[DEADLINES], unpack(list))
end

local function remove_deadlines(ids)
  if #ids > 0 then redis.call('ZREM', KEYS[DEADLINES], unpack(ids)) end
end

-- Up to that many ids that are overdue, the longest first.
local function overdue_ids(now, most)
  return redis.call('ZRANGEBYSCORE', KEYS[DEADLINES], '-inf', digits(now), 'LIMIT', '0', digits(most))
end

-- All ids.
local function all_ids()
  return redis.call('ZRANGEBYSCORE', KEYS[DEADLINES], '-inf', '+inf')
end

-- Whether there are more ids than that.
local function has_more_than(most)
  return #redis.call('ZRANGEBYSCORE', KEYS[DEADLINES], '-inf', '+inf', 'LIMIT', digits(most), '1') > 0
end

local function may_change_deadlines()
  return redis.acl_check_cmd('ZADD', KEYS[DEADLINES], '1', 'm') and redis.acl_check_cmd('ZREM', KEYS[DEADLINES], 'm')
end
