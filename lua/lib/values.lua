-- What every script includes: what a number, an id and a refusal are. Pure: no call to the server
-- but for the permission check.

-- What Lua counts exactly: 2^53 - 1.
local MOST_UNITS = 9007199254740991
local MOST_QUANTITY = 1000000000

-- Keys of an activity, by how it records who bought.
local KEYS_OF = {hash = 5, set = 6, coupon = 5, counter = 4}

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

-- 1 to 128 printable ASCII characters.
local function is_request(text)
  return #text <= 128 and find(text, '^[ -~]+$') ~= nil
end

-- A text as JSON, never a number: cjson would round it.
local function json(text)
  if find(text, '[%c"\\\127]') then return cjson.encode(text) end
  return '"' .. text .. '"'
end

-- Texts as a JSON array.
local function column(texts)
  local parts = {}
  for i = 1, #texts do parts[i] = json(texts[i]) end
  return '[' .. concat(parts, ',') .. ']'
end

local function usage(what)
  return redis.error_reply('USAGE ' .. what)
end

-- The reply for a value that is not what KEYS[key] must hold. A reply that is an error other than a wrong
-- type (no permission, say) is passed on as it is.
local function unfit(value, key)
  if type(value) == 'table' then
    if value.err and not find(value.err, 'WRONGTYPE', 1, true) then return value end
    return {CORRUPT, false, false, key, false}
  end
  return {CORRUPT, false, false, key, string.sub(tostring(value), 1, 64)}
end

-- The error for a command that the caller may not run, told before anything is written.
local function forbidden(command)
  return redis.error_reply('NOPERM this user may not run `' .. command .. '`, which the script needs')
end

-- What a request id says of an order with this digest: a status, or nil where the id is new.
local function settled(found, digest)
  if not found then return nil end
  if found == digest then return REPLAYED end
  local code, rest = string.match(found, '^(%-%d+)\t(.*)$')
  return rest == digest and tonumber(code) or REQUEST_CONFLICT
end
