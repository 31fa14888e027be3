-- The ledger entry of the orders that were applied: those without a letter. Reads the columns, letters, applied, how many were, and
-- left, the stock after them; sets entry. What is empty is left out. Those of settle have a letter if their units were taken again.
local entry = {'op', 'OP', 'stock', digits(left)}
do
  local users, quantities, requests, reasons, common = users, quantities, requests, reasons, common
  local users_text, requests_text, lines_text = ARGV[3], ARGV[10], ARGV[9]
  --- @if settle_file
  users_text, requests_text = concat(users, '\t'), ARGV[3]
  --- @else
  --- @let LETTER = nil
  --- @end
  if applied < #users then
    local numbers = {}
    local function of(values)
      local some = {}
      for i = 1, values and count or 0 do
        if letters[i] == LETTER then some[#some + 1] = values[i] end
      end
      return values and some
    end
    for i = 1, count do numbers[i] = digits(lines and lines[i] or first and first + i - 1 or 0) end
    lines_text = concat(of(numbers), ' ')
    users, quantities, requests, reasons = of(users), of(quantities), of(requests), of(reasons)
    users_text, requests_text = concat(users, '\t'), requests and concat(requests, '\t')
  end
  --- @if settle_file
  if not common or applied < count then common = common_text(quantities) end
  if common then quantities = nil end
  --- @end
  local function add(name, text)
    entry[#entry + 1] = name
    entry[#entry + 1] = text
  end
  if by ~= '' then add('by', by) end
  if reason ~= '' then add('reason', reason) end
  add('job', ARGV[5])
  add('lines', lines_text)
  add('quantity', quantities and concat(quantities, '\t') or common)
  add('users', users_text)
  if requests then add('requests', requests_text) end
  if reasons then add('reasons', concat(reasons, '\t')) end
end
