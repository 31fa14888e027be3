-- Moves units into and out of the stock, or, while it is withdrawn, meta's `withdrawn` (nil: it is not).

-- Adds units to what is for sale. It comes last in a call, so that a cut leaves fewer units for sale, never more.
local function return_units(withdrawn, units)
  if withdrawn then
    redis.call('HSET', KEYS[2], 'withdrawn', string.format('%.0f', withdrawn + units))
  else
    redis.call('INCRBY', KEYS[1], string.format('%.0f', units))
  end
end

-- Removes units from what is for sale, at most as many as there are. It comes first in a call, for the same reason.
local function take_units(withdrawn, units)
  local of_withdrawn = math.min(withdrawn or 0, units)
  if units > of_withdrawn then redis.call('DECRBY', KEYS[1], string.format('%.0f', units - of_withdrawn)) end
  if of_withdrawn > 0 then redis.call('HSET', KEYS[2], 'withdrawn', string.format('%.0f', withdrawn - of_withdrawn)) end
end
