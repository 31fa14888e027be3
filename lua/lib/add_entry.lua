-- Writes the ledger entry of one order, and undoes the order if it is refused. Reads what `entry` reads, has_ledger and undoes.
if has_ledger then
  --- @include "entry"
  --- @if hold
  if items then
    local size = #entry
    entry[size + 1], entry[size + 2] = 'primary', string.sub(order, 3)
    if items ~= '' then entry[size + 3], entry[size + 4] = 'items', items end
  end
  --- @end
  local added = redis.pcall('XADD', KEYS[4], '*', unpack(entry))
  if type(added) == 'table' then
    --- @include "undo"
  end
end
