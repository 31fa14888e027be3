-- Why an order cannot be had: sets status, unless there is one. Reads what the user holds, units, limit and stock.
--- @use "fits"
local most = limit or MOST_UNITS
if not status then status = not (FITS) and LIMIT_EXCEEDED or units > stock and OUT_OF_STOCK or nil end
