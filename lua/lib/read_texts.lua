-- A JSON array of texts as a list, or nil; and whether it is written without white space and escapes, as nearly all are.
local function read_texts(text)
  local is_json, values = pcall(cjson.decode, text)
  if not is_json or type(values) ~= 'table' then return nil end
  local is_list, joined = pcall(concat, values, '","')
  if is_list and '["' .. joined .. '"]' == text then return values, true end
  for i = 1, #values do
    if type(values[i]) ~= 'string' then return nil end
  end
  return values, false
end
