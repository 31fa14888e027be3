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

-- The texts of a column, which tabs separate, as a list; the length of the longest; and whether all have characters of that class alone.
local function read_column(text, class)
  local texts, count, longest, are_plain = {}, 0, 0, true
  for part, rest in string.gmatch(text .. '\t', class and '(' .. class .. '*)([^\t]*)\t' or '([^\t]*)\t') do
    if rest and rest ~= '' then part, are_plain = part .. rest, false end
    count = count + 1
    texts[count] = part
    if #part > longest then longest = #part end
  end
  return texts, longest, are_plain
end
