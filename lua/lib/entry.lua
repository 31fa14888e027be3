-- The ledger entry of one order. Reads by, reason, quantity, user, request and left, the stock after it; sets entry. What is empty is
-- left out.
local entry = {'op', 'SCRIPT', 'stock', format('%d', left), 'by', by, 'quantity', quantity, 'users', user, 'requests', request}
if request == '' then entry[11], entry[12] = nil, nil end
if reason ~= '' then
  table.insert(entry, 7, 'reason')
  table.insert(entry, 8, reason)
end
if by == '' then
  table.remove(entry, 5)
  table.remove(entry, 5)
end
