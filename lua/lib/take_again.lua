-- Takes the units of expired holds again, the stock first. Reads begun, is_first, withdrawn, taken, how many units, and whose they are:
-- takers, and takers_units, users with what they hold then.
--- @include "stock"
local allowed = redis.acl_check_cmd
if allowed then
  local denied = not allowed('HSET', KEYS[3], 'f', 'v') and 'HSET'
    or not allowed('DECRBY', KEYS[1], '1') and 'DECRBY'
    or withdrawn and not allowed('HSET', KEYS[2], 'f', 'v') and 'HSET'
    or has_ledger and not allowed('XADD', KEYS[4], '*', 'f', 'v') and 'XADD'
    --- @if hash
    or not allowed('HSET', KEYS[5], 'f', 'v') and 'HSET'
    --- @end
    --- @if set coupon
    or not allowed('SADD', KEYS[5], 'm') and 'SADD'
    --- @end
    --- @if set
    or not allowed('HSET', KEYS[6], 'f', 'v') and 'HSET'
    --- @end
  --- @include "forbidden"
end
-- The first user is recorded behind a mark, if the caller may remove it: `lib/begun.lua` says why.
local marks = (begun == 'first' or is_first and not begun) and (not allowed or allowed('HDEL', KEYS[3], 'f'))
if marks then redis.call('HSET', KEYS[3], '\tbegun', 'first') end
take_units(withdrawn, taken)
--- @if hash
redis.call('HSET', KEYS[5], unpack(takers_units))
--- @end
--- @if set
-- Units are written before their member, who would be unknown without them.
redis.call('HSET', KEYS[6], unpack(takers_units))
--- @end
--- @if set coupon
redis.call('SADD', KEYS[5], unpack(takers))
--- @end
if marks then redis.call('HDEL', KEYS[3], '\tbegun') end
