-- The arguments of one ledger entry after its id, with more fields, each a name and a text; empty ones are left out.
local function entry(op, by, reason, stock, ...)
  local fields, given = {'op', op, 'stock', stock}, {'by', by, 'reason', reason, ...}
  for i = 1, 4 + select('#', ...), 2 do
    if given[i + 1] and given[i + 1] ~= '' then
      fields[#fields + 1] = given[i]
      fields[#fields + 1] = given[i + 1]
    end
  end
  return fields
end
