-- A call that gives units back (refund, release, expire, abort), and a confirm, writes down first what it will do, in the field
-- `<tab>begun` of KEYS[3]. Whichever script finds it there finishes that call before its own, by `finish_begun`. The field is
--   begun <last> <json>     until all but the stock is written: the ledger's last id before it (`-`: it writes no entry), and what
--                           it does; all of that is absolute, so that it may be done twice
--   stock <before> <units>  then: the stock, withdrawn units included, gets so many units at once or not at all; behind it ` short`,
--                           if nobody may be recorded then, and units are missing
--   first                   nobody is recorded, and units are missing all the same: a purchase that was cut took them, before it
--                           recorded the first user or before others gave all back. The next purchase is the first one, and
--                           removes it
-- The JSON has `units` that return; `entry` of the ledger, as XADD takes it, with the stock in the fourth place (absent: none);
-- `users`, who hold units, with them; `joined`, members of a set who may be new (absent: none); `gone`, users who hold none; `set` and
-- `cleared`, fields of KEYS[3]; `ids`, whose deadlines go; and `short`, whether units are missing then. Numbers are texts.
--- @use "values"
--- @use "stock"

-- Whether nobody's units change: of a confirm. Its records are written together with what they lack, so that an audit never finds an
-- entry without its record.
local function is_record_alone(it)
  return it.units == '0' and #it.users + #it.gone == 0
end

-- Writes down what a call will do.
local function begin(it)
  local last = '-'
  if it.entry then
    local newest = redis.call('XREVRANGE', KEYS[4], '+', '-', 'COUNT', '1')[1]
    last = newest and newest[1] or '0-0'
  end
  local fields = {}
  if is_record_alone(it) then fields, it.set = it.set, {} end
  fields[#fields + 1], fields[#fields + 2] = '\tbegun', 'begun ' .. last .. ' ' .. cjson.encode(it)
  redis.call('HSET', KEYS[3], unpack(fields))
end

-- Who holds nothing is no participant. A set's units are written before their member and removed after it, who would be unknown
-- without them.
local function write_users(kind, it)
  if kind == 'hash' then
    if #it.users > 0 then redis.call('HSET', KEYS[5], unpack(it.users)) end
    if #it.gone > 0 then redis.call('HDEL', KEYS[5], unpack(it.gone)) end
    return
  end
  if kind == 'set' and #it.users > 0 then redis.call('HSET', KEYS[6], unpack(it.users)) end
  if it.joined and #it.joined > 0 then redis.call('SADD', KEYS[5], unpack(it.joined)) end
  if #it.gone > 0 then redis.call('SREM', KEYS[5], unpack(it.gone)) end
  if kind == 'set' and #it.gone > 0 then redis.call('HDEL', KEYS[6], unpack(it.gone)) end
end

-- Does what is written down, the stock last; `stock` is what it is (nil: it is lost, and nothing returns). A script without the key of
-- deadlines leaves them.
local function carry_out(kind, it, stock, withdrawn)
  if it.entry then redis.call('XADD', KEYS[4], '*', unpack(it.entry)) end
  write_users(kind, it)
  if #it.cleared > 0 then redis.call('HDEL', KEYS[3], unpack(it.cleared)) end
  --- @if hold hold_file settle settle_file
  if #it.ids > 0 then redis.call('ZREM', KEYS[DEADLINES], unpack(it.ids)) end
  --- @end
  local set = it.set
  if is_record_alone(it) then
    redis.call('HDEL', KEYS[3], '\tbegun')
    return
  end
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

-- What the caller may not run of what giving units back takes; nil if it may.
local function may_not_return(kind, withdrawn, it)
  local allowed = redis.acl_check_cmd
  if not allowed then return nil end
  local moves = it.units ~= '0' or it.users and #it.users + #it.gone > 0
  return moves and not withdrawn and not allowed('INCRBY', KEYS[1], '1') and 'INCRBY'
    or moves and withdrawn and not allowed('HSET', KEYS[2], 'f', 'v') and 'HSET'
    or not allowed('HSET', KEYS[3], 'f', 'v') and 'HSET'
    or not allowed('HDEL', KEYS[3], 'f') and 'HDEL'
    or it.entry and not allowed('XADD', KEYS[4], '*', 'f', 'v') and 'XADD'
    or it.entry and not allowed('XREVRANGE', KEYS[4], '+', '-') and 'XREVRANGE'
    or moves and kind == 'hash' and not (allowed('HSET', KEYS[5], 'f', 'v') and allowed('HDEL', KEYS[5], 'f')) and 'HSET and HDEL'
    or moves and kind == 'set' and not (allowed('HSET', KEYS[6], 'f', 'v') and allowed('HDEL', KEYS[6], 'f')) and 'HSET and HDEL'
    or it.joined and not allowed('SADD', KEYS[5], 'm') and 'SADD'
    or moves and (kind == 'set' or kind == 'coupon') and not allowed('SREM', KEYS[5], 'm') and 'SREM'
    --- @if hold hold_file settle settle_file
    or #it.ids > 0 and not allowed('ZREM', KEYS[DEADLINES], 'm') and 'ZREM'
    --- @end
    or nil
end

-- Gives units back in the order that a cut leaves to be finished.
local function give_units_back(call, it)
  it.short = call.rules.total ~= nil and call.stock + it.units < call.rules.total
  begin(it)
  carry_out(call.kind, it, call.stock, call.withdrawn)
end

-- Whether the entry was written: it is the first one behind the last that was there. Its stock may be another one.
local function is_written(entry, first)
  for i = 1, math.max(#entry, #first) do
    if i ~= 4 and entry[i] ~= first[i] then return false end
  end
  return true
end

-- Finishes what `text` says was begun. Returns the refusal if it is no such text, or if the caller may not; a purchase goes on
-- then, unless it is of one of the users concerned: it only adds to what others hold.
local function finish_begun(call, text)
  local kind = call.kind
  if text == 'first' then return nil end
  local last, words = string.match(text, '^begun (%S+) (.*)$')
  local before, units, short = string.match(text, '^stock (%d+) (%d+)( ?%l*)$')
  local is_json, it = pcall(cjson.decode, words or '{"users":[],"gone":[],"ids":[]}')
  if not (last or before) or not is_json or type(it) ~= 'table' then return unfit(text, 3) end
  local stock, withdrawn = whole(redis.call('GET', KEYS[1])), whole(redis.call('HGET', KEYS[2], 'withdrawn'))
  if stock then stock = stock + (withdrawn or 0) end
  local allowed = redis.acl_check_cmd
  local denied = may_not_return(kind, withdrawn, it)
    or allowed and (it.entry and not allowed('XRANGE', KEYS[4], '-', '+') and 'XRANGE'
      or before and kind ~= 'counter' and not allowed('EXISTS', KEYS[5]) and 'EXISTS')
  if denied then
    if call.op ~= 'deduct' and call.op ~= 'multi_deduct' then return forbidden(denied) end
    local is_concerned = {}
    for i = 1, #it.users, 2 do is_concerned[it.users[i]] = true end
    for i = 1, #it.gone do is_concerned[it.gone[i]] = true end
    for i = 1, #call.users do
      if is_concerned[call.users[i]] then return forbidden(denied) end
    end
    return nil
  end
  if before then
    -- If nobody is recorded, nobody bought since: then the stock says whether the units returned. Otherwise they may have, and
    -- an audit finds them if not.
    local is_empty = kind ~= 'counter' and redis.call('EXISTS', KEYS[5]) == 0
    local is_known = stock == whole(before) or stock == whole(before) + whole(units)
    if is_empty and stock == whole(before) then return_units(withdrawn, whole(units)) end
    if is_empty and (short == ' short' or not is_known) then
      redis.call('HSET', KEYS[3], '\tbegun', 'first')
    else
      redis.call('HDEL', KEYS[3], '\tbegun')
    end
    return nil
  end
  if it.entry then
    local first = redis.call('XRANGE', KEYS[4], '(' .. last, '+', 'COUNT', '1')[1]
    if first and is_written(it.entry, first[2]) then
      it.entry = nil
    else
      it.entry[4] = digits((stock or 0) + whole(it.units))
      -- Somebody else wrote meanwhile: from now on ours would not be the first.
      if first then begin(it) end
      -- An audit since then counted the repair, and may have planned another one of the same units: that one is stale.
      if it.entry[2] == 'repair' then
        redis.call('HSET', KEYS[2], 'repairs', digits((whole(redis.call('HGET', KEYS[2], 'repairs')) or 0) + 1))
      end
    end
  end
  -- A pause or an update that was cut meanwhile took units, too.
  local total = whole(string.match(redis.call('HGET', KEYS[2], 'rules') or '', '^%l+ %d %d+ %S+ (%d+) '))
  it.short = it.short or stock and total and stock + whole(it.units) < total
  carry_out(kind, it, stock, withdrawn)
end
