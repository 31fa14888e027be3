-- What the users hold: of each a text, or false; of sets whether he is a member, 1 or 0, and units_of, the units.
--- @if hash set coupon
--- @let ASKED = users
--- @if settle_file
--- @let ASKED = names
--- @end
--- @if hash
local held = redis.pcall('HMGET', KEYS[5], unpack(ASKED))
--- @else
local held = redis.pcall('SMISMEMBER', KEYS[5], unpack(ASKED))
--- @end
if held.err then key, value = 5, held break end
--- @if set
local units_of = redis.pcall('HMGET', KEYS[6], unpack(ASKED))
if units_of.err then key, value = 6, units_of break end
--- @end
--- @end
