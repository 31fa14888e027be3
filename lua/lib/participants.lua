-- How many users are recorded: sets participants, and of an archive units, how many of a set have a number of units.
local participants = 0
if kind == 'hash' then
  participants = redis.pcall('HLEN', KEYS[5])
elseif kind ~= 'counter' then
  participants = redis.pcall('SCARD', KEYS[5])
end
if type(participants) == 'table' then return unfit(participants, 5) end
--- @if archive restore
local units = kind == 'set' and redis.pcall('HLEN', KEYS[6]) or 0
if type(units) == 'table' then return unfit(units, 6) end
--- @end
