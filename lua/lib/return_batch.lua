--- @use "begun"
-- Writes the refunds of a batch, as `decide_batch` gives them.
local function return_batch(change)
  local it = {
    units = change.returned, entry = change.row, users = {unpack(change.set, 1, change.sets)}, gone = change.cleared,
    set = {unpack(change.kept, 1, change.kept_size)}, cleared = {}, ids = {}, short = change.short,
  }
  begin(it)
  carry_out(it, change.stock, nil, function()
    if #it.users > 0 then redis.call('HSET', KEYS[5], unpack(it.users)) end
    if #it.gone > 0 then redis.call('HDEL', KEYS[5], unpack(it.gone)) end
  end)
end
