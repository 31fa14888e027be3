-- How many users are recorded: sets participants, and with_units, how many of a set have units.
local participants = 0
if kind == 'hash' then
  participants = redis.pcall('HLEN', KEYS[5])
elseif kind ~= 'counter' then
  participants = redis.pcall('SCARD', KEYS[5])
end
if type(participants) == 'table' then return unfit(participants, 5) end
--- @if adopt archive restore snapshot
local with_units = kind == 'set' and redis.pcall('HLEN', KEYS[6]) or 0
if type(with_units) == 'table' then return unfit(with_units, 6) end
--- @end
