-- What a number and a user are, and the errors that refuse a call: what all scripts check by. Pure: no call to the server.

-- What Lua counts exactly: 2^53 - 1.
local MOST_UNITS = 9007199254740991
local MOST_QUANTITY = 1000000000

local find, format, concat = string.find, string.format, table.concat

-- The number a text is, or nil. Matched as text first: tonumber alone takes `0x10`, `1e3`, ` 5 ` and `nan`.
local function whole(text)
  if type(text) ~= 'string' or #text > 16 or not (text == '0' or find(text, '^[1-9]%d*$')) then return nil end
  local number = tonumber(text)
  return number <= MOST_UNITS and number or nil
end

-- A number as the server must get it: Lua would write 1e+15.
local function digits(number)
  return format('%.0f', number)
end

-- 1 to 256 bytes, no control characters, no white space at either end.
local function is_user(text)
  return #text <= 256 and (find(text, '^[^%s%c][^%c]*[^%s%c]$') or find(text, '^[^%s%c]$')) ~= nil
end

local function usage(what)
  return redis.error_reply('USAGE ' .. what)
end

-- The error for a command that the caller may not run, before anything is written.
local function forbidden(command)
  return redis.error_reply('NOPERM this user may not run `' .. command .. '`, which the script needs')
end
