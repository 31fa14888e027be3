-- Before units leave a stock beside which nobody is recorded, a mark says so, if the caller may remove it: why,
-- `lib/unfinished_call.lua` says. Reads allowed, is_first and begun; sets marks, whether the mark is to be removed behind the first
-- user.
--- @if counter
local marks = false
--- @else
--- @if deduct hold repair
--- @else
--- @let MAY_UNMARK = (not allowed or allowed('HDEL', KEYS[3], 'f'))
--- @end
local marks = (begun == 'first' or is_first and not begun) and MAY_UNMARK
if marks then redis.call('HSET', KEYS[3], '\tbegun', 'first') end
--- @end
