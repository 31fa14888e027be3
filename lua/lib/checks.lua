-- What a user is, how numbers are written, and the errors that refuse a call: what all scripts check by. Pure: no call to the server.

--- @use "numbers"
local concat = table.concat

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
