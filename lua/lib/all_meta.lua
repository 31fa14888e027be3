-- All that KEYS[2] has. Sets flat, a list of fields and values; meta, the values by their fields; and rules.
local flat = redis.pcall('HGETALL', KEYS[2])
if flat.err then return unfit(flat, 2) end
local meta = {}
for i = 1, #flat, 2 do meta[flat[i]] = flat[i + 1] end
local rules, invalid = rules_of(meta.rules, next(meta) ~= nil)
if not rules then return unfit(invalid, 2) end
