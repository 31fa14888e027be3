-- Columns of orders, as arguments of a call and entries of the ledger have them: no text of theirs has a tab.

-- The lines of that many orders, in rising order, or nil.
local function read_lines(text, count)
  local lines = {}
  for word in string.gmatch(text, '[^ ]+') do
    local line = whole(word)
    if not line or line <= (lines[#lines] or 0) then return nil end
    lines[#lines + 1] = line
  end
  return #lines == count and lines or nil
end

-- The texts of a column, which tabs separate, as a list.
local function read_column(text)
  local texts, count = {}, 0
  for part in string.gmatch(text .. '\t', '([^\t]*)\t') do
    count = count + 1
    texts[count] = part
  end
  return texts
end
