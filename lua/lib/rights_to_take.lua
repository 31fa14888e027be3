-- What an order takes, the caller may run: else it is refused. Sets allowed, and undoes, whether the caller may undo the order. To look
-- for a ledger at its last id takes a tenth of an order, so who may undo it finds out by its entry.
local allowed = redis.acl_check_cmd
if allowed then
  local denied = not allowed('HSET', KEYS[3], 'f', 'v') and 'HSET'
    --- @if hold
    or not allowed('DECRBY', KEYS[1], '1') and 'DECRBY'
    --- @end
    --- @if set coupon
    or not allowed('SADD', KEYS[5], 'm') and 'SADD'
    --- @end
  --- @include "forbidden"
end
local undoes = not allowed or allowed('HDEL', KEYS[3], 'f')
--- @if set coupon
  and allowed('SREM', KEYS[5], 'm')
--- @end
if has_ledger and not undoes then
  --- @include "last_id"
  local denied = not allowed('XADD', KEYS[4], '*', 'f', 'v') and 'XADD'
  --- @include "forbidden"
end
