-- Why an order cannot be had: sets status, unless there is one. Reads what the user holds, units, limit and stock.
--- @if hash
if not status and had + units > (limit or MOST_UNITS) then status = LIMIT_EXCEEDED end
--- @end
--- @if set
if not status and had ~= 0 then status = LIMIT_EXCEEDED end
--- @end
--- @if coupon
if not status and (had ~= 0 or units > 1) then status = LIMIT_EXCEEDED end
--- @end
if not status and units > stock then status = OUT_OF_STOCK end
