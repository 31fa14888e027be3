-- What the drop-in scripts share. They reply codes of their own, so a fault is an error here, with its kind in front.
--- @use "checks"

-- The units of an order in an argument, or nil.
local function quantity_of(text)
  local number = whole(text)
  return number and number >= 1 and number <= MOST_QUANTITY and number or nil
end

-- A text in an error, which is one line: of a value only ASCII, of a key its own characters.
local OF_VALUE, OF_KEY = '[%c\127-\255]', '[%c\127]'
local function quoted(text, hidden)
  return '`' .. string.gsub(string.sub(text, 1, 256), hidden, '?') .. '`'
end

local function miscounted(name, keys, arguments)
  return usage(format('%s: %d keys and %d arguments are wanted, not %d and %d', name, keys, arguments, #KEYS, #ARGV))
end

local function bad_quantity(name, at)
  return usage(name .. ': ARGV[' .. at .. '], the quantity, is not 1 to ' .. digits(MOST_QUANTITY) .. ' in plain digits: ' .. quoted(ARGV[at], OF_VALUE))
end

local function bad_text(name, at, what)
  return usage(name .. ': ARGV[' .. at .. '], the ' .. what .. ', is not 1 to 256 bytes without control characters or white space at the ends')
end

local function not_preheated(key)
  return redis.error_reply('NOT_PREHEATED there is no stock in ' .. quoted(key, OF_KEY))
end

-- The error for what a key holds, if it is not what it should be. An error other than a wrong type (no permission, say) is
-- passed on as it is.
local function corrupt(key, found, expected)
  if type(found) ~= 'table' then
    return redis.error_reply('CORRUPT ' .. quoted(key, OF_KEY) .. ' holds ' .. quoted(found, OF_VALUE) .. ', which is no ' .. expected)
  end
  if not find(found.err, 'WRONGTYPE', 1, true) then return found end
  return redis.error_reply('CORRUPT ' .. quoted(key, OF_KEY) .. ' has the wrong type, and no ' .. expected)
end
