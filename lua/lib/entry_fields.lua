-- The arguments of one ledger entry after its id; empty ones are left out.
local function entry(op, by, reason, stock, name, value)
  local fields = {'op', op, 'stock', stock}
  local function add(field, text)
    if text and text ~= '' then
      fields[#fields + 1] = field
      fields[#fields + 1] = text
    end
  end
  add('by', by)
  add('reason', reason)
  add(name, value)
  return fields
end
