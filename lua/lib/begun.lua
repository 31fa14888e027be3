-- A call that gives units back (refund, release, expire, abort) writes down first what it will do, in the field `<tab>begun` of
-- KEYS[3]. Whichever script finds it there finishes that call before its own, by `lib/finish_begun.lua`. The field is
--   begun <last> <json>     until all but the stock is written: the ledger's last id before it (`-`: it writes no entry), and what
--                           it does; all of that is absolute, so that it may be done twice
--   stock <before> <units>  then: the stock, withdrawn units included, gets so many units at once or not at all; behind it ` short`,
--                           if nobody may be recorded then, and units are missing
--   first                   nobody is recorded, and units are missing all the same: a purchase that was cut took them, before it
--                           recorded the first user or before others gave all back. The next purchase is the first one, and
--                           removes it
-- The JSON has `units` that return; `entry` of the ledger, as XADD takes it, with the stock in the fourth place (absent: none);
-- `users`, who hold units, with them; `joined`, members of a set who may be new (absent: none); `gone`, users who hold none; `set` and
-- `cleared`, fields of KEYS[3]; `holds`, the units held open (absent: as they are); `ids`, whose deadlines go; and `short`, whether
-- units are missing then. Numbers are texts.
--- @use "stock"

-- Writes down what a call will do.
local function begin(it)
  local last = '-'
  if it.entry then
    local newest = redis.call('XREVRANGE', KEYS[4], '+', '-', 'COUNT', '1')[1]
    last = newest and newest[1] or '0-0'
  end
  redis.call('HSET', KEYS[3], '\tbegun', 'begun ' .. last .. ' ' .. cjson.encode(it))
end

-- Does what is written down, the stock last; `stock` is what it is (nil: it is lost, and nothing returns). `write_users` writes what
-- users hold, `remove` removes deadlines, if the script has their key.
local function carry_out(it, stock, withdrawn, write_users, remove)
  if it.entry then redis.call('XADD', KEYS[4], '*', unpack(it.entry)) end
  write_users(it)
  if #it.cleared > 0 then redis.call('HDEL', KEYS[3], unpack(it.cleared)) end
  if it.holds then redis.call('HSET', KEYS[2], 'holds', it.holds) end
  if remove and #it.ids > 0 then remove(it.ids) end
  local set = it.set
  set[#set + 1] = '\tbegun'
  set[#set + 1] = string.format('stock %.0f %s%s', stock or 0, it.units, it.short and #it.gone > 0 and ' short' or '')
  redis.call('HSET', KEYS[3], unpack(set))
  if stock then return_units(withdrawn, it.units + 0) end
  if it.short and #it.gone > 0 and redis.pcall('EXISTS', KEYS[5]) == 0 then
    redis.call('HSET', KEYS[3], '\tbegun', 'first')
  else
    redis.call('HDEL', KEYS[3], '\tbegun')
  end
end
