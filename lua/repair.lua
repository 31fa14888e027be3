--[[
  repair: corrects what an audit found, each repair only if everything still is as it was found.

  KEYS[1]  stock          string
  KEYS[2]  meta           hash    rules, repairs, withdrawn, update; may be absent
  KEYS[3]  requests       hash    id of a repair -> digest of it; <tab>o:<user> -> units held open; request id -> digest of
                                  the order; <tab>h:<id> -> `state quantity deadline order user` of a hold;
                                  <tab>begun -> what a call that gives units back is about to do
  KEYS[4]  ledger         stream  one entry a call
  KEYS[5]  participants   hash: user -> units (kind hash) | set: users (kinds set and coupon) | none (kind counter)
  KEYS[6]  units          hash    units of a set's members; kind set only

  ARGV[1]  kind           hash, set, coupon or counter
  ARGV[2]  by             who runs this, for the ledger; may be empty
  ARGV[3]  reason         why, for the ledger; may be empty
  ARGV[4]  dry            1: tell what would be done, write nothing
  ARGV[5]  epoch          as it was audited; empty: there was no meta
  ARGV[6]  repairs        how many repairs there were when it was audited; empty: there was no meta
  ARGV[7..11]             a repair: id, user, from, to, change of the stock (`5` or `-5`); an empty user: the stock
                          alone (kind counter: from and to are units sold, as the ledger has them). from is `?` for a
                          member of a set without units, and, of the stock alone, for a KEYS[1] that is absent: it is
                          created
  ARGV[12..]              further repairs; at most 1,000. Their order does not matter
  after them              may be left out: the request ids that each repair takes back, purchases of its user (kind counter: of anybody)
                          that hold nothing any more. One text, with a line for each repair, empty for none, and tabs between ids; at most 10,000 ids.
                          Each is `reversed` from then on, and its hold is void
  last two                may be left out: the stock, and the id of the ledger's last entry (empty: none), as they were
                          audited. What raises the stock alone, or gives a user more than it takes from the stock, requires
                          that the stock moved since only as the ledger says, by 64 entries at most. While all users are
                          lost, only a call with them for which that holds, or one that creates KEYS[1], records any

  Returns {status, stock, letters}, with the stock after it and a letter a repair
     1 ok              o applied, r replayed (this id was applied before), c changed (the user holds something else
                       by now, all users were lost since, a request id is no purchase of the user or is held open, KEYS[1] is
                       there again, or the stock moved past the ledger), s out_of_stock (fewer are left than must be taken),
                       b exceeds_bought (the user would hold less than what is held open),
                       x exceeds_total (the stock would pass the total), t stale (it raises the stock, and a repair
                       of the call that does not was refused), q request_conflict (the id was used for something else)
    -4 not_preheated   KEYS[1] is absent, and no repair creates it
   -11 corrupt         {-11, false, false, n, value}: KEYS[n] holds value (false: it is of the wrong type)
   -23 stale           {-23, epoch, repairs, letters}: it was reset or repaired since it was audited, or this call
                     finished one that gives units back and was cut; letters only if
                       some of these repairs were applied before: r, q, and t for the others
  Only `o` writes. Request ids are reversed first, then participants change. The stock is taken first and given last, so that a cut
  leaves fewer units to sell, never more; a call that is not stale raises the count of repairs, so that nobody else repairs by the
  same audit. One that raises the stock and is cut is finished by the next script, as a refund is, which counts it once more: an
  audit between the two has seen the count, and not the units.

  While the stock is withdrawn, units move to meta's `withdrawn`, and from there behind those of KEYS[1]; the stock includes that.

  Commands it needs (checked before the first write from Redis 7.0 on): GET HGET HMGET TYPE EXISTS XLEN XRANGE XREVRANGE
  DECRBY INCRBY HSET HDEL XADD; sets also SMISMEMBER SADD SREM.
]]
--- @use "codes"
--- @use "denied"
--- @use "unfinished_call"
--- @use "columns"
--- @use "status_letters"
--- @use "holds"
--- @use "entry_fields"

local kind, by, reason, dry, epoch, repairs = ARGV[1], ARGV[2], ARGV[3], ARGV[4] == '1', ARGV[5], ARGV[6]
local WIDTH, MOST_REPAIRS, MOST_REVERSED, AT_ONCE = 5, 1000, 10000, 1000
if #KEYS ~= (KEYS_OF[kind] or -1) then return usage('repair: kind and number of keys do not fit') end
local seen_stock, seen_last
local more = (#ARGV - 6) % WIDTH
if more > 3 then return usage('repair: the repairs are not complete') end
if more > 1 then seen_stock, seen_last = ARGV[#ARGV - 1], ARGV[#ARGV] end
if seen_stock and not whole(seen_stock) then return usage('repair: the stock as audited') end
local reversed_text = more % 2 == 1 and ARGV[#ARGV - more + 1]
local count = (#ARGV - 6 - more) / WIDTH
if count < 1 then return usage('repair: the repairs are not complete') end
if count > MOST_REPAIRS then return usage('repair: more than ' .. MOST_REPAIRS .. ' in one call') end
if repairs ~= '' and not whole(repairs) then return usage('repair: ARGV[6] is no count') end
local users, ids, restores = {}, {}, false
-- A number that may be below zero, or nil.
local function signed(text)
  local below, digits_of = string.match(text or '', '^(%-?)(.*)$')
  local units = whole(digits_of)
  return units and (below == '-' and -units or units)
end
local wanted = {}
for i = 1, count do
  local at = 6 + (i - 1) * WIDTH
  local id, user, from_text, to, change = ARGV[at + 1], ARGV[at + 2], ARGV[at + 3], whole(ARGV[at + 4]), ARGV[at + 5]
  local is_unknown = from_text == '?' and (user == '' or kind == 'set')
  local units = signed(change)
  if id == '' or not is_request(id) then return usage('repair: id of repair ' .. i) end
  if user ~= '' and (kind == 'counter' or not is_user(user)) then return usage('repair: user of repair ' .. i) end
  if not ((is_unknown or whole(from_text)) and to and units) then return usage('repair: numbers of repair ' .. i) end
  if kind == 'coupon' and user ~= '' and to > 1 then return usage('repair: more than one coupon in repair ' .. i) end
  local creates = is_unknown and user == ''
  restores = restores or creates
  wanted[i] = {user = user, from_text = from_text, from = whole(from_text), to = to, change = units, restores = creates, raises = units > 0 or creates,
    digest = concat({'repair', from_text, ARGV[at + 4], change}, ' ') .. '\t' .. user}
  users[i], ids[i] = user, id
end
-- Request ids that are taken back, each once, with the number of its repair; and what they store.
local taken_back, repair_of, stored = {}, {}, {}
if reversed_text then
  local number = 0
  for line in string.gmatch(reversed_text .. '\n', '(.-)\n') do
    number = number + 1
    for id in string.gmatch(line, '[^\t]+') do
      if number > count or wanted[number].user == '' and kind ~= 'counter' or not is_request(id) or repair_of[id] then
        return usage('repair: request ids of repair ' .. number)
      end
      taken_back[#taken_back + 1], repair_of[id] = id, number
    end
  end
  if number ~= count then return usage('repair: request ids are not of as many repairs') end
  if #taken_back > MOST_REVERSED then return usage('repair: more than ' .. MOST_REVERSED .. ' request ids in one call') end
end

-- Read, and check, everything. The first turn finishes what was cut; then everything is read again.
local key, value, call, begun, is_lost, has_finished
for turn = 1, 2 do
  repeat
    --- @include "activity"
    local epoch = total and string.match(rules, '^%l+ %d (%d+)') or ''
    call = {kind = kind, stock = stock, withdrawn = withdrawn, rules = {total = total, ledger = has_ledger, epoch = epoch}}
    begun = redis.pcall('HGET', KEYS[3], '\tbegun')
    if type(begun) == 'table' then key, value = 3, begun break end
  until true
  if key or not begun or begun == 'first' or dry or has_finished then break end
  local refusal = finish_begun(call, begun)
  if refusal then return refusal end
  has_finished = true
end
if key then return unfit(value, key) end
local counted = redis.call('HMGET', KEYS[2], 'repairs', 'update')
local repairs_text = counted[1] or '0'
local repaired = whole(repairs_text)
if not repaired or repaired == MOST_UNITS then return unfit(repairs_text, 2) end
local its_epoch = call.rules.epoch
local known = redis.call('HMGET', KEYS[3], unpack(ids))
-- What users hold: a text, false for nothing, true for a member of a set whose units are unknown.
local held, is_first, has_lost_users = {}, false, false
if kind == 'hash' then
  held = redis.pcall('HMGET', KEYS[5], unpack(users))
elseif kind ~= 'counter' then
  held = redis.pcall('SMISMEMBER', KEYS[5], unpack(users))
end
if held.err then return unfit(held, 5) end
if kind == 'set' or kind == 'coupon' then
  local units_of = kind == 'set' and redis.pcall('HMGET', KEYS[6], unpack(users)) or {}
  if units_of.err then return unfit(units_of, 6) end
  for i = 1, count do held[i] = held[i] == 1 and (units_of[i] or kind == 'set' or '1') end
end
-- If users were lost already, a call that is cut leaves it so.
if kind ~= 'counter' then
  local is_whole = begun == 'first' or not call.rules.total or call.stock >= call.rules.total
  local is_anybody = redis.call('EXISTS', KEYS[5]) == 1
  is_first, has_lost_users = not is_anybody and is_whole, not (is_anybody or is_whole)
end
local open, fields = {}, {}
for i = 1, count do fields[i] = '\to:' .. users[i] end
for i, text in ipairs(redis.call('HMGET', KEYS[3], unpack(fields))) do
  open[users[i]] = whole(text or '0')
  if not open[users[i]] then return unfit(text, 3) end
end
local letters, fresh = {}, false
for i = 1, count do
  local status = settled(known[i], wanted[i].digest)
  letters[i] = status and LETTERS[status]
  fresh = fresh or not status
end
-- What a call that was cut has left was finished: then nothing is as it was audited.
if fresh and (has_finished or its_epoch ~= epoch or (repairs ~= '' and repairs_text ~= repairs)) then
  if next(letters) == nil then return {STALE, its_epoch, repairs_text} end
  for i = 1, count do letters[i] = letters[i] or 't' end
  return {STALE, its_epoch, repairs_text, concat(letters)}
end

-- What a request id that is taken back stores from then on: nil if it is no purchase of the user, or of a counter of anybody, that
-- holds units.
local function reversed_record(text, hold_text, user)
  if text and kind == 'counter' then user = string.match(text, '[^\t]*$') end
  if not text or user ~= '' and string.sub(text, -#user) ~= user then return nil end
  local what = string.sub(text, 1, #text - #user)
  local record = digits(REVERSED) .. '\t'
  if string.sub(what, 1, #record) == record then return text end
  if not (what == '' or find(what, '^%d+\t$') or find(what, '^hold %d+\t$') or find(what, '^multi_deduct %x+\t$')) then return nil end
  local state, _, _, holder = parse_hold(hold_text)
  if find(what, '^hold') and not state or state and (state ~= 'confirmed' or holder ~= user) then return nil end
  return record .. text
end
-- The repairs of which a request id is something else by now.
local is_other = {}
for from = 1, #taken_back, AT_ONCE do
  local fields = {}
  for i = from, math.min(from + AT_ONCE - 1, #taken_back) do
    fields[#fields + 1] = taken_back[i]
    fields[#fields + 1] = '\th:' .. taken_back[i]
  end
  local found = redis.pcall('HMGET', KEYS[3], unpack(fields))
  if found.err then return unfit(found, 3) end
  for i = 1, #fields, 2 do
    local number = repair_of[fields[i]]
    stored[fields[i]] = {reversed_record(found[i], found[i + 1], wanted[number].user), found[i + 1]}
    is_other[number] = is_other[number] or not stored[fields[i]][1]
  end
end

-- Whether the stock moved since the audit otherwise than the ledger says: a backend may sell past it. Entries that are
-- new since then are few, because the caller has just looked; more than that is not decided here.
local MOST_NEW, MOST_BYTES = 64, 65536
local function moved_past_ledger()
  local expected, bytes = whole(seen_stock), 0
  local new = {}
  if call.rules.ledger then
    if not find(seen_last, '^%d+%-%d+$') then return true end
    new = redis.call('XRANGE', KEYS[4], seen_last, '+', 'COUNT', digits(MOST_NEW + 2))
    -- A failover lost what was seen.
    if not new[1] or new[1][1] ~= seen_last then return true end
  end
  if #new > MOST_NEW + 1 then return true end
  for n = 2, #new do
    local change, fields = {}, new[n][2]
    for i = 1, #fields, 2 do change[fields[i]] = fields[i + 1] end
    local takes, returns = change.op == 'deduct' or change.op == 'hold', change.op == 'refund' or change.op == 'release' or change.op == 'expire'
    local sign = takes and -1 or returns and 1
    if sign and change.users and change.quantity then
      bytes = bytes + #change.users + #change.quantity
      if bytes > MOST_BYTES then return true end
      local sold_to, quantities = read_column(change.users), read_column(change.quantity)
      for i = 1, #sold_to do
        local units = whole(quantities[2] and quantities[i] or quantities[1])
        if not units then return true end
        expected = expected + sign * units
      end
    elseif change.op == 'repair' then
      local units = signed(change.stock_change)
      if not units then return true end
      expected = expected + units
    elseif change.op ~= 'pause' and change.op ~= 'resume' and change.op ~= 'confirm' then
      return true
    end
  end
  return expected ~= call.stock
end
local moved = seen_stock and moved_past_ledger()

-- Decide. What does not raise the stock comes first, and what raises it needs all of that: otherwise more would be for
-- sale than is left. If the whole adds up, the order does not matter, because nobody sees the steps of one call.
local left, most = call.stock, call.rules.total or MOST_UNITS
local now, touched, kept = {}, {}, {}
-- The ledger's columns.
local changed, from, to = {}, {}, {}
local applied, restored = 0, false
local function apply(i)
  local repair = wanted[i]
  letters[i] = 'o'
  left = left + repair.change
  applied = applied + 1
  restored = restored or repair.restores
  if repair.user ~= '' then
    if now[repair.user] == nil then touched[#touched + 1] = repair.user end
    now[repair.user] = repair.to
  end
  if repair.user ~= '' or kind == 'counter' and not repair.restores then
    local at = #changed + 1
    changed[at], from[at], to[at] = repair.user, repair.from_text == '?' and '0' or repair.from_text, digits(repair.to)
  end
  kept[#kept + 1] = ids[i]
  kept[#kept + 1] = repair.digest
end
local sum, is_short = left, false
for i = 1, count do
  local repair = wanted[i]
  if not letters[i] then
    local found = repair.from_text
    if repair.restores then
      found = is_lost and '?'
    elseif repair.user ~= '' then
      found = held[i] == true and '?' or held[i] or '0'
    end
    -- Units that the stock does not give must still be missing there: another call may have finished a cut one, and returned them.
    local gains = repair.user ~= '' and repair.from and repair.to - repair.from + repair.change > 0
    local is_late = moved and (gains or repair.raises and repair.user == '' and not repair.restores)
    -- An audit that saw that users were lost brings them back, and says what stock it saw, or that it was lost too. By any other, or by one
    -- that is late for some of them, this user would be recorded alone, and limits of those who were lost would start over.
    is_late = is_late or has_lost_users and (moved or not (seen_stock or restores)) and repair.user ~= '' and repair.to > 0
    if found ~= repair.from_text or is_late or is_other[i] then
      letters[i] = 'c'
      is_short = is_short or not repair.raises
    elseif repair.to < (open[repair.user] or 0) then
      letters[i] = 'b'
      is_short = is_short or not repair.raises
    else
      sum = sum + repair.change
    end
  end
end
local adds_up = not is_short and sum >= 0 and sum <= most
for i = 1, count do
  if not letters[i] and not wanted[i].raises then
    if adds_up or left + wanted[i].change >= 0 then
      apply(i)
    else
      letters[i], is_short = 's', true
    end
  end
end
for i = 1, count do
  if not letters[i] then
    if left + wanted[i].change > most then
      letters[i] = 'x'
    elseif is_short then
      letters[i] = 't'
    elseif not adds_up and left + wanted[i].change < 0 then
      letters[i] = 's'
    else
      apply(i)
    end
  end
end

-- Write: the stock first if it shrinks, last if it grows.
if fresh and not dry then
  local of_hash, of_set, has_members = kind == 'hash', kind == 'set', kind == 'set' or kind == 'coupon'
  local denied = denied_command('DECRBY', KEYS[1], 'INCRBY', KEYS[1], 'HSET', KEYS[3], left > call.stock and 'HDEL', KEYS[3],
    of_hash and 'HSET', KEYS[5], of_hash and 'HDEL', KEYS[5], call.rules.total and 'HSET', KEYS[2], of_set and 'HSET', KEYS[6],
    of_set and 'HDEL', KEYS[6], call.rules.ledger and 'XADD', KEYS[4], has_members and 'SADD', KEYS[5], has_members and 'SREM', KEYS[5])
  if denied then return forbidden(denied) end
  -- What an update that was cut did not add to the stock is in what was audited.
  local set = {'repairs', digits(repaired + 1)}
  if counted[2] then set[3], set[4] = 'update', '0' end
  if call.rules.total then redis.call('HSET', KEYS[2], unpack(set)) end
  if applied > 0 then
    local reversed = {}
    for i = 1, #taken_back do
      if letters[repair_of[taken_back[i]]] == 'o' then reversed[#reversed + 1] = taken_back[i] end
    end
    for first = 1, #reversed, AT_ONCE do
      local fields = {}
      for i = first, math.min(first + AT_ONCE - 1, #reversed) do
        local id = reversed[i]
        local hold = stored[id][2]
        fields[#fields + 1] = id
        fields[#fields + 1] = stored[id][1]
        if hold and parse_hold(hold) then
          fields[#fields + 1] = '\th:' .. id
          fields[#fields + 1] = string.gsub(hold, '^%l+', 'void')
        end
      end
      redis.call('HSET', KEYS[3], unpack(fields))
    end
    local row
    if call.rules.ledger then
      row = entry('repair', by, reason, digits(left), 'stock_change', digits(left - call.stock))
      local columns = #changed > 0 and {'users', concat(changed, '\t'), 'from', concat(from, '\t'), 'to', concat(to, '\t')} or {}
      for _, part in ipairs(columns) do row[#row + 1] = part end
      if #reversed > 0 then row[#row + 1], row[#row + 2] = 'reversed', concat(reversed, '\t') end
    end
    if restored then redis.call('INCRBY', KEYS[1], '0') end
    local it = {units = digits(left - call.stock), entry = row, set = kept, cleared = {}, ids = {}, users = {}, gone = {}}
    it.joined = has_members and {} or nil
    for _, user in ipairs(touched) do
      if now[user] > 0 then
        it.users[#it.users + 1], it.users[#it.users + 2] = user, digits(now[user])
        if it.joined then it.joined[#it.joined + 1] = user end
      else
        it.gone[#it.gone + 1] = user
      end
    end
    if left > call.stock then
      give_units_back(call, it)
    else
      -- The first user is recorded behind a mark, if the caller may remove it. So is the removal of the last one, if units are missing
      -- then: that mark stays.
      local may_be_last = #it.gone > 0 and call.rules.total and left < call.rules.total
      is_first = is_first or may_be_last
      --- @let MAY_UNMARK = not denied_command('HDEL', KEYS[3], 'DECRBY', KEYS[1])
      --- @include "mark_nobody"
      take_units(call.stock, call.withdrawn, call.stock - left)
      write_users(kind, it)
      if marks and not (may_be_last and redis.call('EXISTS', KEYS[5]) == 0) then redis.call('HDEL', KEYS[3], '\tbegun') end
      redis.call('HSET', KEYS[3], unpack(kept))
      if row then redis.call('XADD', KEYS[4], '*', unpack(row)) end
    end
  end
end
return {OK, digits(left), concat(letters)}
