-- What quick paths accept of numbers and columns: less than the reference path, and all that most calls have.
-- Numbers have up to 13 digits here, because Lua's `..` writes sums of them as plain digits.

local find, match, concat = string.find, string.match, table.concat

local function small(text)
  if type(text) ~= 'string' or #text > 13 then return nil end
  return text == '0' and 0 or find(text, '^[1-9]%d*$') and text + 0 or nil
end

-- Whatever is not written as it is, is longer: by its escapes, or by white space. To write it again takes longer than to count.
local function texts_of(text)
  local values = cjson.decode(text)
  local size = 1
  for i = 1, #values do
    if type(values[i]) ~= 'string' then return nil end
    size = size + #values[i] + 3
  end
  return size == #text and values
end

--- @use "graphic"

-- The texts of a JSON array, if it is exactly what they are written as: texts alone, with nothing escaped, no white space and
-- no control character; or else of the characters that are allowed.
local function plain_column(text, allowed)
  if not (allowed and find(text, allowed) or not allowed and is_graphic(text)) then return nil end
  local is_list, values = pcall(texts_of, text)
  return is_list and values or nil
end

-- The first and the last of so many lines, and the text of the last, or nil: `first-last` if they follow each other, else
-- each of them.
local function ends_of(lines, count)
  local first_text, last_text = match(lines, '^(%d+)%-(%d+)$')
  local first, last = small(first_text), small(last_text)
  if first and last then
    if last - first + 1 ~= count then return nil end
    return first, last, last_text
  end
  local number = 0
  first, last = nil, 0
  for word in string.gmatch(lines, '[^ ]+') do
    local line = small(word)
    if not line or line <= last then return nil end
    first, last, last_text, number = first or line, line, word, number + 1
  end
  if number ~= count then return nil end
  return first, last, last_text
end
