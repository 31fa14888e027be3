-- What every script includes: what a request id and a refusal are. Pure: no call to the server.
--- @use "checks"

-- Keys of an activity, by how it records who bought.
local KEYS_OF = {hash = 5, set = 6, coupon = 5, counter = 4}

-- 1 to 128 printable ASCII characters.
local function is_request(text)
  return #text <= 128 and find(text, '^[ -~]+$') ~= nil
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

-- What a request id says of an order with this digest: a status, or nil if the id is new.
local function settled(found, digest)
  if not found then return nil end
  if found == digest then return REPLAYED end
  local code, rest = string.match(found, '^(%-%d+)\t(.*)$')
  return rest == digest and tonumber(code) or REQUEST_CONFLICT
end
