-- Moves units into and out of the stock, and, while it is withdrawn, meta's `withdrawn` (nil: it is not).

-- Adds units to what is for sale. It comes last in a call, so that a cut leaves fewer units for sale, never more.
local function return_units(withdrawn, units)
  if withdrawn then
    redis.call('HSET', KEYS[2], 'withdrawn', string.format('%.0f', withdrawn + units))
  else
    redis.call('INCRBY', KEYS[1], string.format('%.0f', units))
  end
end

-- Removes units from what is for sale, at most the `left` that there are, withdrawn ones included. Those of the stock go before those
-- that are withdrawn, because a plain script could sell them. It comes first in a call, for the same reason.
local function take_units(left, withdrawn, units)
  local of_stock = math.min(left - (withdrawn or 0), units)
  if of_stock > 0 then redis.call('DECRBY', KEYS[1], string.format('%.0f', of_stock)) end
  if units > of_stock then redis.call('HSET', KEYS[2], 'withdrawn', string.format('%.0f', left - units)) end
end
