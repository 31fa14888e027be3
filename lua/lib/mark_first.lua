-- Before units leave the stock of a sale in which nobody is recorded, `<tab>begun` says so (see `lib/unfinished_call.lua`): if the
-- call is cut, no purchase takes them for units that were sold. `units` are there of the total before that: if some are missing,
-- their users were lost. Returns whether it was written, to be removed in the end.
local function mark_first(units, total)
  if total and units < total then return false end
  if not KEYS[5] or denied_command('EXISTS', KEYS[5], 'HGET', KEYS[3], 'HSET', KEYS[3], 'HDEL', KEYS[3]) then return false end
  if redis.call('EXISTS', KEYS[5]) == 1 or redis.pcall('HGET', KEYS[3], '\tbegun') ~= false then return false end
  redis.call('HSET', KEYS[3], '\tbegun', 'first')
  return true
end
