-- What a number is. Pure: no call to the server.

-- What Lua counts exactly: 2^53 - 1.
local MOST_UNITS = 9007199254740991
local MOST_QUANTITY = 1000000000

local find, format = string.find, string.format

-- The number a text is, or nil. Matched as text first: tonumber alone takes `0x10`, `1e3`, ` 5 ` and `nan`.
local function whole(text)
  if text == '0' then return 0 end
  if type(text) ~= 'string' or #text > 16 or not find(text, '^[1-9]%d*$') then return nil end
  local number = text + 0
  return number <= MOST_UNITS and number or nil
end
