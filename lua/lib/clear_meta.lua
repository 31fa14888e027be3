-- Removes all fields that a meta has, but for those that are kept.
local function clear_meta(meta, kept)
  local cleared = {}
  for field in pairs(meta) do
    if not kept[field] then cleared[#cleared + 1] = field end
  end
  for from = 1, #cleared, 1000 do
    redis.call('HDEL', KEYS[2], unpack(cleared, from, math.min(from + 999, #cleared)))
  end
end
