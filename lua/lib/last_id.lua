-- Looks whether KEYS[4] takes an entry: none comes behind the last id that there can be.
local at_last_id = redis.pcall('XREVRANGE', KEYS[4], LAST_ID, LAST_ID, 'COUNT', '1')
if at_last_id.err then key, value = 4, at_last_id break end
if #at_last_id > 0 then key, value = 4, LAST_ID break end
