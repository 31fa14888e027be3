--[[
  settle: ends holds of one activity, which `hold` made: by request id, for one or for many, one after the other; or those that
  are overdue.

  KEYS[1]  stock          string  units left
  KEYS[2]  meta           hash    rules, withdrawn; holds: units held open
  KEYS[3]  requests       hash    <tab>h:<id> -> `state quantity deadline order user`; <tab>o:<user> -> units held open;
                                  <tab>j:<step>:<job> -> line, refused, digest; request id -> digest of the order;
                                  <tab>begun -> what a call that gives units back is about to do
  KEYS[4]  ledger         stream  one entry a call, of confirm up to two
  KEYS[5]  participants   hash: user -> units (kind hash) | set: users (kinds set and coupon); with what is held open
  KEYS[6]  units          hash    units of a set's members; kind set only
  last key deadlines      sorted set  request id by deadline, Unix ms: KEYS[6], of kind set KEYS[7]

  One hold has 4 to 8 arguments:
  ARGV[1]  kind           hash, set or coupon
  ARGV[2]  by             who runs this, for the ledger; may be empty
  ARGV[3]  request id     of the hold; of the step expire: how many are expired at most, 1 to 500; of the step recount: nothing is
                          counted if more holds are open, up to 1,000,000
  ARGV[4]  step           confirm: the units are bought; release: they return; expire: all that is overdue returns, whatever it is
                          called; abort: an item of a multi-order returns, and a hold that comes later is refused; recount: the
                          units held open are counted anew by the holds
  ARGV[5]  order          `m:<primary>` of an item of a multi-order, as the hold has it; else empty, `-` or left out. What was decided
                          of an item before is written again, so that a WAIT that follows covers it
  ARGV[6]  mode           `first`, `retry` (the same), `borrow` (confirm: an expired hold that the stock does not cover is
                          out_of_stock, which decides nothing) or `dry` (nothing is written); may be left out
  ARGV[7]  reason         why, for the ledger; may be empty or left out
  ARGV[8]  user           of confirm and release: whose hold it is, or there is none; may be empty (whoever's) or left out

  Many holds, at most 1,000, have 9 to 15, as for deduct:
  ARGV[3]  request ids (a JSON array), ARGV[4] step (confirm, release or abort), ARGV[5..9] job, its digest, epoch, the line
           before, lines
  ARGV[10] users, as ARGV[8], of confirm and release; ARGV[11] rows, ARGV[12] reason, ARGV[13] reasons, ARGV[14] order, ARGV[15] mode: may be empty or left out

  What the steps do, by the state of the hold (`-12`, `-13` and `-14` are refusals; a state alone: ok):
                confirm                                          release     abort
     absent     -12                                              -12         void
     held       confirmed, even if overdue                       released    void
     confirmed  replayed                                         -14         -14
     released   -12                                              replayed    replayed
     expired    confirmed if stock and limit allow, else void, -13   void, -13   void
     void       -13                                              -13         replayed
  So after -13 to a confirm, or ok to a release, the hold is never confirmed: the payment is refunded.

  Returns for one hold {status, stock, bought, quantity, user}, with stock and bought after it (bought is `?` if it is unknown;
  all but the stock are false if there is no such hold):
     1 ok                done
     2 replayed          it was done before
    -3 out_of_stock      in mode borrow only
    -4 not_preheated     KEYS[1] is absent, or KEYS[2] is
    -6 ended             archived
    -9 request_conflict  the hold belongs to another order, or the id was used for something else
   -11 corrupt           {-11, false, false, n, value}: KEYS[n] holds value (false: it is of the wrong type)
   -12 not_held          no open hold has this id, or it is another user's
   -13 expired           its units are gone
   -14 confirmed         it was confirmed: a refund returns the units
   -15 sharded           {-15, false, shards}: as for deduct
  For many holds: `letters stock refused quantities [bought ... users]`: quantities are those of the holds, joined by commas, or one
  if all are equal (0: there is no such hold); users are a JSON array. Letters are o, O (ok: units of an
  expired hold were taken again), r, q, c, h (not_held), v (expired), V (expired: a repair took back what the job had confirmed),
  f (confirmed). In mode borrow they end before the first that is out_of_stock, whose quantity is the last. What refuses the whole
  activity is {status, stock, line}; and with a job also
   -20 gap, -21 other epoch, -22 other job: as for deduct
  Returns for expire {1, stock, holds, units, more, id, order, ...}: how many holds and units returned; more is 1 if the next
  call may find others; then ids that were overdue and are left, with their order (false: their record is not what it should
  be), which are not looked at again for 5 seconds.
  Returns for recount {1, stock, holds, units, user, units, units, ...}: what meta says is held open, and what the holds say
  (false if there are too many); then of each user what is stored as held open, and what the holds say.
  A pause or the window refuses nothing here. While the stock is withdrawn, units move to and from meta's `withdrawn`.
  A confirm is corrupt if the user holds fewer units than are open.
  If units return, the stock comes last, and if they are taken it comes first, so that a cut leaves fewer units to sell,
  never more. A call that returns units writes down first what it will do, as refund does it, and any call but a dry run finishes
  one that was cut. What a cut left of a confirm (`holds`, the user's open units, the deadline, the entry) is finished by the same call
  again, whatever its step, by expire once the deadline is over, and by recount.

  Commands it needs (checked before the first write from Redis 7.0 on): GET HGET HMGET TYPE EXISTS TIME DECRBY INCRBY HSET HDEL
  ZADD ZREM ZRANGEBYSCORE XLEN XRANGE XREVRANGE XADD; sets also SMISMEMBER SADD SREM.
]]
--- @use "codes"

-- Quick path: confirms one hold that is open, or the holds of a job. It replies, or leaves the call to the reference path before
-- it has written anything; helpers cost more than a confirmation to define, so it comes before them.
-- Texts are matched before they are numbers, and have up to 13 digits. `%d` writes a number in less than half of the time of Lua's
-- `..`.
if ARGV[4] == 'confirm' and #ARGV < 9 and ARGV[1] == 'hash' and #KEYS == 6 and (ARGV[5] or '') == '' and (ARGV[6] or 'first') == 'first'
  and (ARGV[7] or '') == '' then
  local find, format = string.find, string.format
  local by, request = ARGV[2], ARGV[3]
  local is_plain = by ~= '' and #request <= 128 and find(request, '^[#-Z^-~%[%]]+$')
  local stock_text = is_plain and redis.pcall('GET', KEYS[1])
  local meta = type(stock_text) == 'string' and #stock_text < 14
    and (stock_text == '0' or find(stock_text, '^[1-9]%d*$')) and redis.pcall('HMGET', KEYS[2], 'rules', 'withdrawn', 'holds')
  local rules, holds_text = meta and meta[2] == false and meta[1], meta and meta[3] or ''
  -- A window ends no hold, so that its times are only looked at.
  local limit_text, total_text, starts, ends =
    string.match(rules or '', '^live 1 [1-9]%d?%d?%d?%d?%d?%d? (%S+) ([1-9]%d*) (%S+) (%S+)$')
  if limit_text and #total_text < 14 and (limit_text == '-' or #limit_text < 14 and find(limit_text, '^[1-9]%d*$'))
    and (starts == '-' or #starts < 14 and find(starts, '^[1-9]%d*$'))
    and (ends == '-' or #ends < 14 and find(ends, '^[1-9]%d*$'))
    and #holds_text < 14 and find(holds_text, '^[1-9]%d*$') then
    local field, entries = '\th:' .. request, redis.pcall('XLEN', KEYS[4])
    local at_last_id = redis.pcall('XREVRANGE', KEYS[4], LAST_ID, LAST_ID, 'COUNT', '1')
    local known = type(entries) == 'number' and entries > 0 and next(at_last_id) == nil and redis.pcall('HMGET', KEYS[3], field, '\tbegun')
    local record = known and known[2] == false and known[1] or ''
    local quantity_text, deadline, user =
      string.match(record, '^held ([1-9]%d*) ([1-9]%d*) %- ([^%c"\\\127]+)$')
    local quantity = user and (ARGV[8] or user) == user and #quantity_text < 14 and #deadline < 14 and quantity_text + 0
    local user_field = quantity and '\to:' .. user
    local open_text = quantity and redis.pcall('HGET', KEYS[3], user_field)
    local held_text = type(open_text) == 'string' and #open_text < 14 and find(open_text, '^[1-9]%d*$') and redis.pcall('HGET', KEYS[5], user)
    local allowed = redis.acl_check_cmd
    if type(held_text) == 'string' and #held_text < 14 and find(held_text, '^[1-9]%d*$') and quantity <= open_text + 0
      and open_text + 0 <= held_text + 0
      and quantity <= holds_text + 0 and redis.pcall('TYPE', KEYS[6]).ok == 'zset'
      and (not allowed or allowed('HDEL', KEYS[3], 'f') and allowed('ZREM', KEYS[6], 'm') and allowed('XADD', KEYS[4], '*', 'f', 'v')) then
      local text = 'confirmed' .. string.sub(record, 5)
      if open_text == quantity_text then
        redis.call('HSET', KEYS[3], field, text)
        redis.call('HDEL', KEYS[3], user_field)
      else
        redis.call('HSET', KEYS[3], field, text, user_field, format('%d', open_text - quantity))
      end
      redis.call('HSET', KEYS[2], 'holds', format('%d', holds_text - quantity))
      redis.call('ZREM', KEYS[6], request)
      redis.call('XADD', KEYS[4], '*', 'op', 'confirm', 'stock', stock_text, 'by', by, 'quantity', quantity_text,
        'users', '["' .. user .. '"]', 'requests', '["' .. request .. '"]')
      return {OK, stock_text + 0, held_text + 0, quantity_text, user}
    end
  end
end
--- @use "quick_confirm"
local quick_reply = quick_confirm()
if quick_reply then return quick_reply end

-- Includes.
--- @use "values"
--- @use "meta"
--- @use "finish_begun"
--- @use "orders"
--- @use "columns"
--- @use "call"
--- @use "holds"
--- @use "deadlines"
--- @use "give_back"
--- @use "overdue"
--- @use "recount"

-- Reference path.
local MOST_HOLDS, MOST_EXPIRED, MOST_COUNTED = 1000, 500, 1000000
local STEPS = {confirm = true, release = true, expire = true, abort = true, recount = true}
local kind, step = ARGV[1], ARGV[4]
if kind == 'counter' then return usage('settle: a counter records nobody who could hold units') end
if not KEYS_OF[kind] then return usage('settle: ARGV[1] is not hash, set or coupon') end
if #KEYS ~= KEYS_OF[kind] then return usage('settle: kind ' .. kind .. ' has ' .. KEYS_OF[kind] .. ' keys, not ' .. #KEYS) end
if #ARGV < 4 or #ARGV > 15 then return usage('settle: 4 to 15 arguments are wanted, not ' .. #ARGV) end
if not STEPS[step] then return usage('settle: ARGV[4] is not confirm, release, expire, abort or recount') end
local call = {op = step, kind = kind, by = ARGV[2], single = #ARGV < 9}
if call.single then
  call.count, call.users, call.mode, call.reason, call.extra = 1, {ARGV[3]}, ARGV[6] or 'first', ARGV[7] or '', ARGV[5] or ''
  if (ARGV[8] or '') ~= '' then call.requests = {ARGV[8]} end
else
  if #ARGV < 9 or step == 'expire' or step == 'recount' then return usage('settle: arguments of many holds') end
  local wrong = read_columns(call)
  if wrong then return wrong end
  if call.count > MOST_HOLDS then return usage('settle: more than ' .. MOST_HOLDS .. ' holds in one call') end
end
call.dry, call.borrows = call.mode == 'dry', call.mode == 'borrow' and step == 'confirm'
if call.mode ~= 'first' and call.mode ~= 'retry' and not call.borrows and not call.dry then
  return usage('settle: the mode is not first, retry, borrow (of confirm) or dry')
end
local order = call.extra == '' and '-' or call.extra
if order ~= '-' and not is_order(order) then return usage('settle: the order is not m:<primary>') end
call.remove_deadlines = function(ids) remove_deadlines(kind, ids) end
local ids, fields, most, owners = call.users, {}, nil, call.requests or {}
if call.requests and step ~= 'confirm' and step ~= 'release' then return usage('settle: users are for confirm and release') end
if step == 'expire' or step == 'recount' then
  local bound = step == 'expire' and MOST_EXPIRED or MOST_COUNTED
  most = whole(ids[1])
  if not most or most < 1 or most > bound then return usage('settle: ARGV[3] is not 1 to ' .. digits(bound)) end
else
  for i = 1, call.count do
    if ids[i] == '' or not is_request(ids[i]) then return usage('settle: request id ' .. i) end
    fields[i] = '\th:' .. ids[i]
  end
end

-- Read, and check, everything.
local reply = read_activity(call)
if reply then return reply end
if not call.rules.total then return {NOT_PREHEATED, call.stock, false} end
if step ~= 'expire' and step ~= 'recount' then call.requests = fields end
reply = deadlines_unfit(kind) or read_requests(call)
if reply then return reply end
call.requests = nil

if step == 'recount' then return recount(call, most) end
if step == 'expire' then
  local now = clock_ms()
  local moves
  moves, reply = find_overdue(call, now, most)
  if not moves then return reply end
  local denied = not call.dry and moves.examined > 0 and may_not_give_back(call)
  if denied then return forbidden(denied) end
  call.expiry_reason = call.reason
  if not call.dry then
    postpone(call, moves, now)
    give_back_overdue(call, moves)
  end
  local left = call.stock + moves.units
  local answer = {OK, digits(left), #moves.ids, digits(moves.units), moves.examined == most and 1 or 0}
  for i = 1, #moves.left do answer[4 + 2 * i], answer[5 + 2 * i] = moves.left[i], moves.orders[i] end
  return answer
end

local decided = call.decided or 0
if decided < call.count and leaves_gap(call) then return {GAP, call.line} end
-- Holds by number; their users, each once, with the number of the first hold.
local holds, users, is_known = {}, {}, {}
local is_late = false
for i = 1, call.count do
  local text = call.seen[fields[i]]
  if text then
    local hold = parse_hold(text)
    if not hold and call.single then return unfit(text, 3) end
    local owner = owners[i] or ''
    local is_wanted = not hold or owner == '' or owner == hold.user
    if is_wanted then holds[i] = hold or CORRUPT end
    if hold and is_wanted then
      is_late = is_late or hold.state == 'expired'
      if not is_known[hold.user] and hold.user ~= '' then users[#users + 1], is_known[hold.user] = hold.user, #users + 1 end
    end
  end
end
reply = not call.dry and finish_cut(call, ids, holds, decided + 1)
if reply then return reply end
local view = {kind = kind, users = users, count = #users, held = {}, rules = call.rules, stock = call.stock, withdrawn = call.withdrawn, was_first = call.was_first, seen = call.seen}
if #users > 0 then
  reply = read_held(view)
  if reply then return reply end
  if step == 'confirm' and is_late and records_lost(view) then return unfit('nothing, though units were sold', 5) end
end
local open
open, reply = read_open(call, users)
if not open then return reply end
-- Ids that an abort finds unused, or used for something else.
local used = {}
if step == 'abort' then
  local found = redis.pcall('HMGET', KEYS[3], unpack(ids))
  if found.err then return unfit(found, 3) end
  for i = 1, call.count do used[ids[i]] = found[i] end
end

-- Decide, one after the other. Moves: what was open and is not any more; what is taken again; what is void without units.
local closed_moves, taken, voided = new_moves(open), new_moves({}), {}
local letters, quantities, bought, shown_users, refused, left, last = {}, {}, {}, {}, 0, call.stock, nil
local now, states = {}, {}
local limit = call.rules.limit or MOST_UNITS
local OPEN_ENDS = {confirm = 'confirmed', release = 'released', abort = 'void'}

-- Units that a user holds now, or nil.
local function had_by(user)
  return now[user] or units_held(view.held[is_known[user]])
end

-- Ends an open hold.
local function close(i, hold)
  local user, quantity = hold.user, hold.quantity
  if call.holds - closed_moves.units < quantity then return CORRUPT, 2, digits(call.holds) .. ' units held' end
  if (open[user] or 0) < quantity then return CORRUPT, 3, 'no open units of the user' end
  -- What is not there was returned, and sold again.
  local had = had_by(user)
  local is_covered = had and had >= (step == 'confirm' and open[user] or quantity) and (step == 'confirm' or had ~= UNKNOWN)
  if not is_covered then return CORRUPT, kind == 'set' and 6 or 5, view.held[is_known[user]] or 'nothing' end
  if step ~= 'confirm' then
    if left + quantity > call.rules.total then return CORRUPT, 1, digits(call.stock) end
    now[user], left = had - quantity, left + quantity
    move_units(closed_moves, user, had, -quantity)
  end
  add_move(closed_moves, i, ids[i], hold, OPEN_ENDS[step])
  move_open(closed_moves, user, -quantity)
  return OK
end

-- Takes the units of an expired hold again, if stock and limit allow.
local function take_again(i, hold)
  local user, quantity = hold.user, hold.quantity
  local had = had_by(user)
  if not had then return CORRUPT, kind == 'set' and 6 or 5, view.held[is_known[user]] end
  local is_allowed = kind == 'hash' and had + quantity <= limit or kind ~= 'hash' and had == 0
  if is_allowed and quantity > left and call.borrows then return OUT_OF_STOCK end
  if not is_allowed or quantity > left then
    voided[#voided + 1] = i
    return EXPIRED, nil, 'void'
  end
  now[user], left = had + quantity, left - quantity
  move_units(taken, user, had, quantity)
  add_move(taken, i, ids[i], hold, 'confirmed')
  return OK, nil, 'confirmed'
end

-- The status of a hold in a state, with what it becomes by that.
local function settle(i, hold, state)
  if hold and hold.order ~= order then return REQUEST_CONFLICT end
  if not hold then
    if step ~= 'abort' then return NOT_HELD end
    if used[ids[i]] then return REQUEST_CONFLICT end
    voided[#voided + 1] = i
    return OK, nil, 'void'
  end
  if state == 'held' then
    local status, key, value = close(i, hold)
    if status == OK then return OK, nil, OPEN_ENDS[step] end
    return status, key, value
  end
  if step == 'confirm' then
    if state == 'confirmed' then return REPLAYED end
    if state == 'released' then return NOT_HELD end
    if state == 'expired' then return take_again(i, hold) end
    return EXPIRED
  end
  if state == 'confirmed' then return CONFIRMED end
  if state == 'released' then return REPLAYED end
  if state == 'expired' then
    voided[#voided + 1] = i
    return step == 'abort' and OK or EXPIRED, nil, 'void'
  end
  return step == 'abort' and REPLAYED or EXPIRED
end

-- Ids of holds that the job confirmed and a repair took back.
local reversed, void = {}, {}
for i = 1, step == 'confirm' and decided or 0 do
  if holds[i] and holds[i] ~= CORRUPT and holds[i].state == 'void' then void[#void + 1] = ids[i] end
end
if #void > 0 then
  local found = redis.pcall('HMGET', KEYS[3], unpack(void))
  if found.err then return unfit(found, 3) end
  for i = 1, #void do reversed[void[i]] = found[i] and find(found[i], '^%-16\t') end
end

local again = {}
for i = 1, call.count do
  local hold, status, key, value, was = holds[i], nil, nil, nil, nil
  if i <= decided then
    status = reversed[ids[i]] and EXPIRED or REPLAYED
  elseif hold == CORRUPT then
    status = CORRUPT
  elseif states[ids[i]] == 'void' and not hold then
    -- The same unknown id, aborted twice in a call.
    status = REPLAYED
  else
    was = states[ids[i]] or hold and hold.state
    status, key, value = settle(i, hold, was)
    -- So that a WAIT that follows covers what was decided before.
    if order ~= '-' and (status == REPLAYED or status == CONFIRMED) then again[#again + 1] = i end
    if status == OUT_OF_STOCK and not call.single then
      quantities[i] = digits(hold.quantity)
      stop_before(call, i)
      break
    end
    if status == CORRUPT and call.single then return unfit(value, key) end
    if status ~= CORRUPT and value then states[ids[i]] = value end
  end
  if hold == CORRUPT then hold = nil end
  if status < 0 and i > decided then refused = refused + 1 end
  letters[i], last = status == OK and step == 'confirm' and was == 'expired' and 'O' or i <= decided and status < 0 and 'V' or LETTERS[status], status
  quantities[i] = hold and digits(hold.quantity) or '0'
  if call.rows or call.single then
    bought[i] = hold and is_known[hold.user] and had_by(hold.user) or 0
    shown_users[i] = hold and hold.user or ''
  end
end

-- Write: what is taken first, what returns last.
if not call.dry then
  local is_changed = #closed_moves.ids + #taken.ids + #voided > 0
  if is_changed and redis.acl_check_cmd then
    local denied = #taken.ids > 0 and not redis.acl_check_cmd('DECRBY', KEYS[1], '1') and 'DECRBY' or may_not_give_back(call)
    if denied then return forbidden(denied) end
  end
  -- The job's line comes with what gives units back, and after a confirm, so that the same call again finishes one that was cut.
  local kept, line = {}, {}
  if decided < call.count then keep_line(call, step == 'confirm' and line or kept, refused) end
  for n = 1, #again do
    kept[#kept + 1] = fields[again[n]]
    kept[#kept + 1] = hold_text(holds[again[n]], states[ids[again[n]]] or holds[again[n]].state)
  end
  for n = 1, #voided do
    local i = voided[n]
    local hold = holds[i]
    if not hold then
      hold = {quantity = 0, deadline = 0, order = order, user = ''}
      kept[#kept + 1] = ids[i]
      kept[#kept + 1] = VOID_DIGEST
    end
    kept[#kept + 1] = fields[i]
    kept[#kept + 1] = hold_text(hold, 'void')
  end
  if step == 'confirm' then
    if #taken.ids > 0 then
      take_and_record(view, taken.units, taken.touched, taken.now)
      hold_fields(taken, kept)
    end
    local cleared
    kept, cleared = hold_fields(closed_moves, kept)
    if #kept > 0 then redis.call('HSET', KEYS[3], unpack(kept)) end
    if #cleared > 0 then redis.call('HDEL', KEYS[3], unpack(cleared)) end
    if #closed_moves.ids > 0 then
      redis.call('HSET', KEYS[2], 'holds', digits(call.holds - closed_moves.units))
      remove_deadlines(kind, closed_moves.ids)
      if call.rules.ledger then redis.call('XADD', KEYS[4], '*', unpack(hold_entry(call, 'confirm', call.stock, closed_moves))) end
    end
    if #taken.ids > 0 and call.rules.ledger then
      redis.call('XADD', KEYS[4], '*', unpack(hold_entry(call, 'deduct', left, taken)))
    end
  elseif #closed_moves.ids > 0 then
    give_back(call, 'release', closed_moves, kept)
  elseif #kept > 0 then
    redis.call('HSET', KEYS[3], unpack(kept))
  end
  if #line > 0 then redis.call('HSET', KEYS[3], unpack(line)) end
end
if call.single then
  local hold = holds[1]
  if not hold then return {last, left, false, false, false} end
  return {last, left, shown(bought[1]), quantities[1], shown_users[1]}
end
local common = quantities[1]
for i = 2, #quantities do
  if quantities[i] ~= common then common = nil end
end
local text = concat(letters) .. ' ' .. digits(call.stock) .. ' ' .. digits((call.refused or 0) + refused) .. ' ' .. (common or concat(quantities, ','))
if not call.rows then return text end
for i = 1, call.count do bought[i] = shown_packed(bought[i]) end
return text .. ' ' .. concat(bought, ' ') .. ' ' .. column(shown_users)
