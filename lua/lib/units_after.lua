-- What the user of order i holds after it, for the reply: `?` of a member of a set without units.
--- @if hash set
if bought then bought[i] = texts[had] or digits(had or 0) end
--- @else
if bought then bought[i] = had == 0 and '0' or '1' end
--- @end
