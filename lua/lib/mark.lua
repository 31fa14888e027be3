-- Before units leave a stock beside which nobody is recorded, a mark says so, if the caller may remove it: `lib/begun.lua` says why.
-- Reads is_first, begun and allowed; sets marks, whether the mark is to be removed behind the first user.
local marks = (begun == 'first' or is_first and not begun)
  and (not allowed or allowed('HDEL', KEYS[3], 'f') and allowed('DECRBY', KEYS[1], '1'))
if marks then redis.call('HSET', KEYS[3], '\tbegun', 'first') end
