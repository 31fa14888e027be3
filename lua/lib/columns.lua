-- The columns of a job's orders, as the arguments of a call have them.

-- The lines of so many orders, in rising order, or nil: `first-last` if they follow each other, else each of them.
local function read_lines(text, count)
  local lines = {}
  local first, last = string.match(text, '^(%d+)%-(%d+)$')
  if first then
    first, last = whole(first), whole(last)
    if not (first and last) or last - first + 1 ~= count then return nil end
    for i = 1, count do lines[i] = first + i - 1 end
    return lines
  end
  for word in string.gmatch(text, '[^ ]+') do
    local line = whole(word)
    if not line or line <= (lines[#lines] or 0) then return nil end
    lines[#lines + 1] = line
  end
  return #lines == count and lines or nil
end

-- A JSON array of texts as a list, or nil.
local function read_column(text)
  local is_json, values = pcall(cjson.decode, text)
  if not is_json or type(values) ~= 'table' then return nil end
  for key, value in pairs(values) do
    if type(key) ~= 'number' or type(value) ~= 'string' then return nil end
  end
  return values
end
