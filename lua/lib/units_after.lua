-- What the user of order i holds after it, for the reply: `?` of a member of a set without units.
--- @if hash set
if bought then bought[i] = texts[had] or digits(had or 0) end
--- @end
--- @if coupon
if bought then bought[i] = digits(had) end
--- @end
--- @if counter
if bought then bought[i] = '0' end
--- @end
