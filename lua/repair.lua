--[[
  repair: corrects what an audit found, each repair only if everything still is as it was found.

  KEYS[1]  stock          string
  KEYS[2]  meta           hash    rules, repairs, withdrawn, holds; may be absent
  KEYS[3]  requests       hash    id of a repair -> digest of it; <tab>o:<user> -> units held open
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
  last two                may be left out: the stock, and the id of the ledger's last entry (empty: none), as they were
                          audited. What raises the stock alone requires that the stock moved since only as the ledger
                          says, by 64 entries at most

  Returns {status, stock, letters}, with the stock after it and a letter a repair
     1 ok              o applied, r replayed (this id was applied before), c changed (the user holds something else
                       by now, KEYS[1] is there again, or the stock moved past the ledger), s out_of_stock (fewer are left than must be taken),
                       b exceeds_bought (the user would hold less than what is held open),
                       x exceeds_total (the stock would pass the total), t stale (it raises the stock, and a repair
                       of the call that does not was refused), q request_conflict (the id was used for something else)
    -4 not_preheated   KEYS[1] is absent, and no repair creates it
   -11 corrupt         {-11, false, false, n, value}: KEYS[n] holds value (false: it is of the wrong type)
   -23 stale           {-23, epoch, repairs, letters}: it was reset or repaired since it was audited; letters only if
                       some of these repairs were applied before: r, q, and t for the others
  Only `o` writes. The stock is taken first and given last, so that a cut leaves fewer units to sell, never more; a
  call that is not stale raises the count of repairs, so that nobody else repairs by the same audit.

  While the stock is withdrawn, units move to and from meta's `withdrawn` first; the stock includes that.

  Commands it needs (checked before the first write from Redis 7.0 on): GET HGET HMGET TYPE XRANGE DECRBY INCRBY
  HSET HDEL XADD; sets also SMISMEMBER SADD SREM.
]]
--- @include "codes"

-- Includes.
--- @include "values"
--- @include "meta"
--- @include "stock"
--- @include "orders"
--- @include "holds"

-- Reference path.
local kind, by, reason, dry, epoch, repairs = ARGV[1], ARGV[2], ARGV[3], ARGV[4] == '1', ARGV[5], ARGV[6]
local WIDTH, MOST_REPAIRS = 5, 1000
if #KEYS ~= (KEYS_OF[kind] or -1) then return usage('repair: kind and number of keys do not fit') end
local seen_stock, seen_last
if (#ARGV - 6) % WIDTH == 2 then seen_stock, seen_last = ARGV[#ARGV - 1], ARGV[#ARGV] end
if seen_stock and not whole(seen_stock) then return usage('repair: the stock as audited') end
local count = (#ARGV - 6 - (seen_stock and 2 or 0)) / WIDTH
if count < 1 or count ~= math.floor(count) then return usage('repair: the repairs are not complete') end
if count > MOST_REPAIRS then return usage('repair: more than ' .. MOST_REPAIRS .. ' in one call') end
if repairs ~= '' and not whole(repairs) then return usage('repair: ARGV[6] is no count') end
local call = {kind = kind, count = count, users = {}, requests = {}, single = false}
local wanted = {}
for i = 1, count do
  local at = 6 + (i - 1) * WIDTH
  local id, user, from_text, to, change = ARGV[at + 1], ARGV[at + 2], ARGV[at + 3], whole(ARGV[at + 4]), ARGV[at + 5]
  local is_unknown = from_text == '?' and (user == '' or kind == 'set')
  local units = whole(string.match(change or '', '^%-?(.*)$'))
  if id == '' or not is_request(id) then return usage('repair: id of repair ' .. i) end
  if user ~= '' and (kind == 'counter' or not is_user(user)) then return usage('repair: user of repair ' .. i) end
  if not ((is_unknown or whole(from_text)) and to and units) then return usage('repair: numbers of repair ' .. i) end
  if kind == 'coupon' and user ~= '' and to > 1 then return usage('repair: more than one coupon in repair ' .. i) end
  if string.sub(change, 1, 1) == '-' then units = -units end
  local restores = is_unknown and user == ''
  call.restores = call.restores or restores
  wanted[i] = {user = user, from_text = from_text, to = to, change = units, restores = restores, raises = units > 0 or restores,
    digest = digest_of('repair', concat({ARGV[at + 3], ARGV[at + 4], change}, ' '), user)}
  call.users[i], call.requests[i] = user, id
end

-- Read, and check, everything.
local reply = read_activity(call)
if reply then return reply end
local repairs_text = redis.call('HGET', KEYS[2], 'repairs') or '0'
local repaired = whole(repairs_text)
if not repaired or repaired == MOST_UNITS then return unfit(repairs_text, 2) end
local its_epoch = call.rules.epoch and digits(call.rules.epoch) or ''
reply = read_requests(call)
if reply then return reply end
reply = read_held(call)
if reply then return reply end
local open
open, reply = read_open(call, call.users)
if not open then return reply end
local letters, fresh = {}, false
for i = 1, count do
  local status = settled(call.seen[call.requests[i]], wanted[i].digest)
  letters[i] = status and LETTERS[status]
  fresh = fresh or not status
end
if fresh and (its_epoch ~= epoch or (repairs ~= '' and repairs_text ~= repairs)) then
  if next(letters) == nil then return {STALE, its_epoch, repairs_text} end
  for i = 1, count do letters[i] = letters[i] or 't' end
  return {STALE, its_epoch, repairs_text, concat(letters)}
end

-- Whether the stock moved since the audit otherwise than the ledger says: a backend may sell past it. Entries that are
-- new since then are few, because the caller has just looked; more than that is not decided here.
local MOST_NEW, MOST_BYTES = 64, 65536
local function moved_past_ledger()
  local expected, bytes = whole(seen_stock), 0
  local new = {}
  if call.rules.ledger then
    if not find(seen_last, '^%d+%-%d+$') then return true end
    new = redis.call('XRANGE', KEYS[4], '(' .. seen_last, '+', 'COUNT', digits(MOST_NEW + 1))
  end
  if #new > MOST_NEW then return true end
  for _, row in ipairs(new) do
    local change = {}
    for i = 1, #row[2], 2 do change[row[2][i]] = row[2][i + 1] end
    local takes, returns = change.op == 'deduct' or change.op == 'hold', change.op == 'refund' or change.op == 'release' or change.op == 'expire'
    local sign = takes and -1 or returns and 1
    if sign and change.users and change.quantity then
      bytes = bytes + #change.users + #change.quantity
      if bytes > MOST_BYTES then return true end
      local are_users, sold_to = pcall(cjson.decode, change.users)
      if not are_users or type(sold_to) ~= 'table' then return true end
      local are_many, quantities = pcall(cjson.decode, change.quantity)
      for i = 1, #sold_to do
        local units = whole(are_many and type(quantities) == 'table' and quantities[i] or change.quantity)
        if not units then return true end
        expected = expected + sign * units
      end
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
local users, from, to = {}, {}, {}
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
    local at = #users + 1
    users[at], from[at], to[at] = repair.user, repair.from_text == '?' and '0' or repair.from_text, digits(repair.to)
  end
  kept[#kept + 1] = call.requests[i]
  kept[#kept + 1] = repair.digest
end
local sum, is_short = left, false
for i = 1, count do
  local repair = wanted[i]
  if not letters[i] then
    local held = repair.from_text
    if repair.restores then
      held = call.is_lost and '?'
    elseif repair.user ~= '' then
      held = call.held[i] == true and '?' or call.held[i] or '0'
    end
    local is_late = moved and repair.raises and repair.user == '' and not repair.restores
    if held ~= repair.from_text or is_late then
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
  if redis.acl_check_cmd then
    local denied = not redis.acl_check_cmd('DECRBY', KEYS[1], '1') and 'DECRBY'
      or not redis.acl_check_cmd('INCRBY', KEYS[1], '1') and 'INCRBY'
      or not redis.acl_check_cmd('HSET', KEYS[3], 'f', 'v') and 'HSET'
      or kind == 'hash' and not redis.acl_check_cmd('HSET', KEYS[5], 'f', 'v') and 'HSET'
      or kind == 'hash' and not redis.acl_check_cmd('HDEL', KEYS[5], 'f') and 'HDEL'
      or call.rules.total and not redis.acl_check_cmd('HSET', KEYS[2], 'f', 'v') and 'HSET'
      or kind == 'set' and not redis.acl_check_cmd('HSET', KEYS[6], 'f', 'v') and 'HSET'
      or kind == 'set' and not redis.acl_check_cmd('HDEL', KEYS[6], 'f') and 'HDEL'
      or call.rules.ledger and not redis.acl_check_cmd('XADD', KEYS[4], '*', 'f', 'v') and 'XADD'
      or (kind == 'set' or kind == 'coupon') and not redis.acl_check_cmd('SADD', KEYS[5], 'm') and 'SADD'
      or (kind == 'set' or kind == 'coupon') and not redis.acl_check_cmd('SREM', KEYS[5], 'm') and 'SREM'
    if denied then return forbidden(denied) end
  end
  if call.rules.total then redis.call('HSET', KEYS[2], 'repairs', digits(repaired + 1)) end
  if applied > 0 then
    if left < call.stock then take_units(call.withdrawn, call.stock - left) end
    if kind ~= 'counter' and #touched > 0 then write_held(call, touched, now) end
    redis.call('HSET', KEYS[3], unpack(kept))
    if call.rules.ledger then
      local row = entry('repair', by, reason, digits(left), 'stock_change', digits(left - call.stock))
      for _, part in ipairs({'users', column(users), 'from', column(from), 'to', column(to)}) do row[#row + 1] = part end
      redis.call('XADD', KEYS[4], '*', unpack(row))
    end
    if restored then redis.call('INCRBY', KEYS[1], '0') end
    if left > call.stock then return_units(call.withdrawn, left - call.stock) end
  end
end
return {OK, digits(left), concat(letters)}
