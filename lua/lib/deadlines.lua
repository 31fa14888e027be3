-- The last key of the scripts that know holds, by kind: a sorted set, request id by deadline in Unix ms. Keys are literal, because
-- the proxies of some clouds refuse anything else.
KEYS_OF = {hash = 6, set = 7, coupon = 6}

local function deadlines_type(kind)
  if kind == 'set' then return redis.call('TYPE', KEYS[7]).ok end
  return redis.call('TYPE', KEYS[6]).ok
end

-- The refusal if the key holds anything but a sorted set.
local function deadlines_unfit(kind)
  local found = deadlines_type(kind)
  if found ~= 'none' and found ~= 'zset' then return {CORRUPT, false, false, KEYS_OF[kind], false} end
end

-- Adds deadlines and ids in turn, or moves those that are there. Returns how many are new.
local function set_deadlines(kind, list)
  if kind == 'set' then return redis.call('ZADD', KEYS[7], unpack(list)) end
  return redis.call('ZADD', KEYS[6], unpack(list))
end

local function remove_deadlines(kind, ids)
  if #ids == 0 then return nil end
  if kind == 'set' then return redis.call('ZREM', KEYS[7], unpack(ids)) end
  redis.call('ZREM', KEYS[6], unpack(ids))
end

-- So many ids that are overdue, the longest first.
local function overdue_ids(kind, now, most)
  if kind == 'set' then return redis.call('ZRANGEBYSCORE', KEYS[7], '-inf', digits(now), 'LIMIT', '0', digits(most)) end
  return redis.call('ZRANGEBYSCORE', KEYS[6], '-inf', digits(now), 'LIMIT', '0', digits(most))
end

-- All ids, or those of one deadline.
local function ids_between(kind, first, last)
  if kind == 'set' then return redis.call('ZRANGEBYSCORE', KEYS[7], first, last) end
  return redis.call('ZRANGEBYSCORE', KEYS[6], first, last)
end

-- Whether there are more than so many ids.
local function has_more_than(kind, most)
  local found
  if kind == 'set' then
    found = redis.call('ZRANGEBYSCORE', KEYS[7], '-inf', '+inf', 'LIMIT', digits(most), '1')
  else
    found = redis.call('ZRANGEBYSCORE', KEYS[6], '-inf', '+inf', 'LIMIT', digits(most), '1')
  end
  return #found > 0
end

local function may_change_deadlines(kind)
  if kind == 'set' then return redis.acl_check_cmd('ZADD', KEYS[7], '1', 'm') and redis.acl_check_cmd('ZREM', KEYS[7], 'm') end
  return redis.acl_check_cmd('ZADD', KEYS[6], '1', 'm') and redis.acl_check_cmd('ZREM', KEYS[6], 'm')
end
