-- What the caller may not run of what orders take: sets denied. Reads has_ledger, withdrawn and SELLS, whether units are taken.
local allowed = redis.acl_check_cmd
local denied = allowed and (not allowed('HSET', KEYS[3], 'f', 'v') and 'HSET'
  or SELLS and (not allowed('DECRBY', KEYS[1], '1') and 'DECRBY'
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
  )) or nil
