--[[
  hold: takes units of one activity with a deadline, for one order or for many, one after the other. `settle` confirms or
  releases a hold by its request id; if nobody does, the units return after the deadline.

  KEYS[1]  stock          string  units left
  KEYS[2]  meta           hash    rules, withdrawn; holds: units held open
  KEYS[3]  requests       hash    request id -> digest of the order; <tab>h:<id> -> `state quantity deadline order user`;
                                  <tab>o:<user> -> units held open; <tab>j:hold:<job> -> line, refused, digest;
                                  <tab>begun -> what a call that gives units back is about to do
  KEYS[4]  ledger         stream  one entry a call, and one for what is expired
  KEYS[5]  participants   hash: user -> units (kind hash) | set: users (kinds set and coupon); with what is held open
  KEYS[6]  units          hash    units of a set's members; kind set only
  last key deadlines      sorted set  request id by deadline, Unix ms: KEYS[6], of kind set KEYS[7]

  One order has 8 arguments:
  ARGV[1]  kind           hash, set or coupon: a counter records nobody
  ARGV[2]  by             who runs this, for the ledger; may be empty
  ARGV[3]  user
  ARGV[4]  quantity
  ARGV[5]  request id     names the hold: settle needs it
  ARGV[6]  mode           `first`, `retry` (may have been sent before: a refusal is kept under its request id), `borrow` (as for
                          deduct) or `dry` (nothing is written)
  ARGV[7]  reason         why, for the ledger; may be empty
  ARGV[8]  duration       how long it is held, in ms, 1 to 31,536,000,000 (a year)

  Many orders, at most 1,000, a column each, have 14 or 15, as for deduct:
  ARGV[3]  users, ARGV[4] quantities (or one), ARGV[5..9] job, its digest, epoch, the line before, lines
  ARGV[10] requests, of which none may be empty; ARGV[11] rows, ARGV[12] reason, ARGV[13] reasons: may be empty
  ARGV[14] duration; ARGV[15] mode: may be left out

  An item of an order of activities in several slots has 11: those of one order, and
  ARGV[9]  order          `m:` and the stock key of the order's primary item, which decides it
  ARGV[10] digest         of the whole order, which the request id stores
  ARGV[11] items          stock keys of the other items, with spaces between; empty but for the primary
  Its record is written again if it is there, so that a WAIT that follows covers it.

  Returns for one order {status, stock, bought, deadline}, with stock and bought after it (bought is `?` if it is unknown;
  deadline is that of the hold, false without one):
     1 ok                the units are held
     2 replayed          this request holds them already, or was confirmed
    -2 limit_exceeded    the user would hold more than the limit
    -3 out_of_stock      fewer are left
    -4 not_preheated     KEYS[1] is absent, or KEYS[2] is: an activity of another system is adopted first
    -5 not_started       before the window
    -6 ended             after the window, or archived
    -7 paused            an operator paused it; the stock includes what is withdrawn
    -9 request_conflict  the request id was used for something else
   -11 corrupt           {-11, false, false, n, value}: KEYS[n] holds value (false: it is of the wrong type)
   -12 not_held          this request held them and was released
   -13 expired           this request held them and is past its deadline, or its multi-order was aborted
   -15 sharded           {-15, false, shards}: as for deduct
   -16 reversed          a repair took it back: order anew with a new request id
  For many orders: `letters stock refused deadlines [bought ...]`, as deduct with the deadline of what it holds now before what
  users hold, and with the letters o, r, l, s, q, c, h (not_held), v (expired), b (reversed); without a job also p, n, e. If it says what users
  hold, it has the deadline of the hold of each order, joined by commas, or one if all are equal (0: none).
  If stock or limit are short, up to 16 overdue holds are expired first, as settle does it; what it leaves is not postponed. A call
  that gives units back and was cut is finished first; not by a dry run.
  Only ok, what is expired, a refused retry, and the line of a job write: first deadlines, which are nobody's without a hold; then
  the stock, so that a cut leaves fewer units to sell, never more; then participants, meta's `holds`, requests, ledger.

  Commands it needs (checked before the first write from Redis 7.0 on): GET HMGET HGET TYPE EXISTS TIME DECRBY INCRBY HSET HDEL
  ZADD ZREM ZRANGEBYSCORE XLEN XRANGE XREVRANGE XADD; sets also SMISMEMBER SADD SREM. Plain orders are quicker if ZMSCORE is
  allowed too.
]]
--- @use "codes"

-- Quick path: one plain hold, or those of a job. It replies, or leaves the call to the reference path before it has written
-- anything; helpers cost more than a hold to define, so it comes before them.
-- Texts are matched before they are numbers, and have up to 13 digits. `%d` writes a number in less than half of the time of Lua's
-- `..`.
-- The deadline is written first, because that shows whether KEYS[6] can take it: one without a hold is nobody's, and is removed
-- once it is over.
if #ARGV == 8 and ARGV[1] == 'hash' and #KEYS == 6 and ARGV[6] == 'first' and ARGV[7] == '' then
  local find, format = string.find, string.format
  local by, user, quantity_text, request, duration = ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[8]
  local is_plain = by ~= '' and #quantity_text < 10 and find(quantity_text, '^[1-9]%d*$') and #user <= 256 and #request <= 128
    and #duration < 11 and find(duration, '^[1-9]%d*$')
    -- Most ids are letters and digits; what JSON escapes is left to the reference path.
    and (find(user, '^%w+$') or find(user, '^[^%s%c"\\\127][^%c"\\\127]*$') and not find(user, '%s$'))
    and find(request, '^[#-Z^-~%[%]]+$')
  local stock_text = is_plain and redis.pcall('GET', KEYS[1])
  local meta = type(stock_text) == 'string' and #stock_text < 14
    and (stock_text == '0' or find(stock_text, '^[1-9]%d*$')) and redis.pcall('HMGET', KEYS[2], 'rules', 'holds')
  local rules, holds_text = meta and meta[1], meta and meta[2] or '0'
  local limit_text, total_text, starts, ends =
    string.match(rules or '', '^live 1 [1-9]%d?%d?%d?%d?%d?%d? (%S+) ([1-9]%d*) (%S+) (%S+)$')
  if limit_text and #total_text < 14 and (limit_text == '-' or #limit_text < 14 and find(limit_text, '^[1-9]%d*$'))
    and (starts == '-' or #starts < 14 and find(starts, '^[1-9]%d*$'))
    and (ends == '-' or #ends < 14 and find(ends, '^[1-9]%d*$'))
    and #holds_text < 14 and (holds_text == '0' or find(holds_text, '^[1-9]%d*$')) then
    local clock = redis.call('TIME')
    local micros = clock[2] + 0
    local now = clock[1] * 1000 + (micros - micros % 1000) / 1000
    local is_open = (starts == '-' or now >= starts + 0) and (ends == '-' or now < ends + 0)
    local entries = is_open and redis.pcall('XLEN', KEYS[4])
    local at_last_id = is_open and redis.pcall('XREVRANGE', KEYS[4], LAST_ID, LAST_ID, 'COUNT', '1')
    local user_field = '\to:' .. user
    local known = type(entries) == 'number' and entries > 0 and next(at_last_id) == nil
      and redis.pcall('HMGET', KEYS[3], request, user_field, '\tbegun')
    if known and known[1] == false and known[3] == false then
      local stock, quantity, held_text, held = stock_text + 0, quantity_text + 0, redis.pcall('HGET', KEYS[5], user), nil
      if held_text == false then
        if total_text + 0 <= stock or redis.pcall('EXISTS', KEYS[5]) == 1 then held = 0 end
      elseif type(held_text) == 'string' and #held_text < 14 and find(held_text, '^[1-9]%d*$') then
        held = held_text + 0
      end
      -- Units that the user holds open: none if nobody does.
      local open_text = holds_text ~= '0' and known[2] or '0'
      if held and #open_text < 14 and (open_text == '0' or find(open_text, '^[1-9]%d*$')) then
        local bought, left = held + quantity, stock - quantity
        local refusal = limit_text ~= '-' and bought > limit_text + 0 and LIMIT_EXCEEDED or left < 0 and OUT_OF_STOCK
        if refusal then
          -- Nothing is overdue that would be expired first.
          local overdue = redis.pcall('ZRANGEBYSCORE', KEYS[6], '-inf', format('%d', now), 'LIMIT', '0', '1')
          if not overdue.err and #overdue == 0 then return {refusal, stock, held, false} end
        else
          local allowed = redis.acl_check_cmd
          local deadline = now + duration
          local deadline_text = format('%d', deadline)
          if (not allowed or allowed('HSET', KEYS[3], 'f', 'v') and allowed('XADD', KEYS[4], '*', 'f', 'v'))
            and redis.pcall('ZADD', KEYS[6], 'NX', deadline_text, request) == 1 then
            -- Nothing was sold yet: `take_and_record` says why.
            local marks = held_text == false and total_text + 0 <= stock
              and (not allowed or allowed('HDEL', KEYS[3], 'f') and allowed('DECRBY', KEYS[1], '1'))
            if marks then redis.call('HSET', KEYS[3], '\tbegun', 'first') end
            if type(redis.pcall('DECRBY', KEYS[1], quantity_text)) == 'number' then
              redis.call('HSET', KEYS[5], user, held == 0 and quantity_text or format('%d', bought))
              if marks then redis.call('HDEL', KEYS[3], '\tbegun') end
              redis.call('HSET', KEYS[2], 'holds', format('%d', holds_text + quantity))
              redis.call('HSET', KEYS[3], request, 'hold ' .. quantity_text .. '\t' .. user,
                '\th:' .. request, 'held ' .. quantity_text .. ' ' .. deadline_text .. ' - ' .. user,
                user_field, open_text == '0' and quantity_text or format('%d', open_text + quantity))
              redis.call('XADD', KEYS[4], '*', 'op', 'hold', 'stock', format('%d', left), 'by', by, 'quantity', quantity_text,
                'users', '["' .. user .. '"]', 'requests', '["' .. request .. '"]')
              return {OK, left, bought, deadline}
            end
            redis.call('ZREM', KEYS[6], request)
          end
        end
      end
    end
  end
end
--- @use "quick_hold"
local quick_reply = quick_hold()
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

-- Reference path.
local MOST_HOLDS, MOST_EXPIRED, MOST_MS = 1000, 16, 31536000000
if ARGV[1] == 'counter' then return usage('hold: a counter records nobody who could hold units') end
local call, reply = read_call('hold')
if not call then return reply end
if call.count > MOST_HOLDS then return usage('hold: more than ' .. MOST_HOLDS .. ' orders in one call') end
local wanted, invalid = read_quantities(call)
if not wanted then return usage('hold: quantity of order ' .. invalid) end
for i = 1, call.count do
  if not call.requests or call.requests[i] == '' then return usage('hold: order ' .. i .. ' has no request id') end
end
local duration = whole(call.extra)
if not duration or duration < 1 or duration > MOST_MS then return usage('hold: the duration is not 1 to ' .. digits(MOST_MS) .. ' ms') end
local kind, users = call.kind, call.users
call.remove_deadlines = function(ids) remove_deadlines(kind, ids) end
local order, order_digest, items = '-', nil, nil
if #ARGV == 11 then
  order, order_digest, items = ARGV[9], ARGV[10], ARGV[11]
  if not is_order(order) then return usage('hold: ARGV[9] is not m:<primary>') end
  if not find(order_digest, '^multi_deduct %x+$') then return usage('hold: ARGV[10] is not the digest of an order') end
  if items ~= '' and not (#items <= 524800 and find(items, '^%S[%S ]*%S$')) then return usage('hold: ARGV[11] is not a list of stock keys') end
end

-- Reads, and checks, everything. Returns the reply that refuses the call.
local function read()
  local bad = read_activity(call)
  if bad then return bad end
  if not call.rules.total then return {NOT_PREHEATED, call.stock, false} end
  bad = deadlines_unfit(kind) or read_requests(call)
  if bad then return bad end
  local shut = closed(call.rules)
  if call.job and call.decided < call.count then
    if shut then return {shut, call.stock, call.line} end
    if leaves_gap(call) then return {GAP, call.line} end
  end
  call.shut = shut
  bad = read_held(call)
  if bad then return bad end
  if records_lost(call) then return unfit('nothing, though units were sold', 5) end
  -- Holds of this request id that are known.
  local known, fields = {}, {}
  call.states = {}
  for i = 1, call.count do
    local request = call.requests[i]
    if call.seen[request] then known[#known + 1], fields[#fields + 1] = request, '\th:' .. request end
  end
  if #known > 0 then
    local found = redis.pcall('HMGET', KEYS[3], unpack(fields))
    if found.err then return unfit(found, 3) end
    for i = 1, #known do
      call.states[known[i]] = found[i] and parse_hold(found[i])
      if found[i] and not call.states[known[i]] then return unfit(found[i], 3) end
    end
  end
  call.open, bad = read_open(call, users)
  return bad
end

-- What a request id says of a hold with this digest: a status, or nil if it is new.
local function known_as(request, digest)
  local found = call.seen[request]
  if not found then return nil end
  local hold = call.states[request]
  if hold and hold.state == 'void' and found == VOID_DIGEST then return EXPIRED end
  if found ~= digest or not hold then return settled(found, digest) end
  if hold.state == 'held' or hold.state == 'confirmed' then return REPLAYED end
  return hold.state == 'released' and NOT_HELD or EXPIRED
end

reply = read()
if reply then return reply end
local now_ms = clock_ms()
local deadline = now_ms + duration

-- The deadline of the hold that an order made, now or before; 0 without one. `first` are the digests of those made now.
local function deadline_of(status, request, digest, first)
  if status == OK or status == REPLAYED and first[request] then return deadline end
  local hold = status == REPLAYED and call.seen[request] == digest and call.states[request]
  return hold and (hold.state == 'held' or hold.state == 'confirmed') and hold.deadline or 0
end

-- Decides one order after the other. `returned`: units by user that a dry run would have expired.
local function decide(returned)
  local rules, most = call.rules, call.rules.limit or MOST_UNITS
  local it = {now = {}, touched = {}, kept = {}, applied = {}, quantities = {}, letters = {}, bought = {}, deadlines = {}, refused = 0, left = call.stock, moves = new_moves({})}
  local is_touched, first = {}, {}
  for i = 1, call.count do
    local user, quantity, request = users[i], wanted[i], call.requests[i]
    local digest = order_digest and order_digest .. '\t' .. user or digest_of('hold', call.texts[i], user)
    local had, status = it.now[user], nil
    if not had then
      had = units_held(call.held[i])
      if not had and call.single then return nil, unfit(call.held[i], kind == 'set' and 6 or 5) end
      if had and had ~= UNKNOWN then had = had - (returned[user] or 0) end
    end
    if i <= (call.decided or 0) then
      status = decided_as(call.seen[request], digest)
    elseif not had then
      status = CORRUPT
    elseif first[request] then
      status = first[request] == digest and REPLAYED or REQUEST_CONFLICT
    else
      status = known_as(request, digest)
    end
    if not status then
      status = call.shut
      if not status and kind == 'hash' then
        if had + quantity > most then status = LIMIT_EXCEEDED end
      elseif not status and (had > 0 or kind == 'coupon' and quantity > 1) then
        status = LIMIT_EXCEEDED
      end
      if not status and quantity > it.left then status = OUT_OF_STOCK end
      if status == LIMIT_EXCEEDED or status == OUT_OF_STOCK then it.is_short = true end
      if status == OUT_OF_STOCK and call.borrows and not call.single then
        it.ends_before = i
        break
      end
      if not status then
        status = OK
        it.left, had = it.left - quantity, had + quantity
        it.applied[#it.applied + 1], it.quantities[#it.quantities + 1] = i, call.texts[i]
        if not is_touched[user] then it.touched[#it.touched + 1], is_touched[user] = user, true end
        local hold = {quantity = quantity, deadline = deadline, order = order, user = user}
        add_move(it.moves, i, request, hold, 'held')
        it.moves.open[user] = it.moves.open[user] or call.open[user] or 0
        move_open(it.moves, user, quantity)
        first[request] = digest
      end
      if status == OK or call.retry and not call.job and not (call.borrows and status == OUT_OF_STOCK) then
        it.kept[#it.kept + 1] = request
        it.kept[#it.kept + 1] = status == OK and digest or digits(status) .. '\t' .. digest
      end
    end
    if is_refusal(status) then it.refused = it.refused + 1 end
    it.now[user] = had
    it.letters[i], it.last = LETTERS[status], status
    it.bought[i], it.deadlines[i] = shown_packed(had), digits(deadline_of(status, request, digest, first))
  end
  return it
end

local it
it, reply = decide({})
if not it then return reply end
local denied = not call.dry and (#it.applied > 0 or it.is_short) and redis.acl_check_cmd
  and (not redis.acl_check_cmd('DECRBY', KEYS[1], '1') and 'DECRBY' or may_not_give_back(call))
if denied then return forbidden(denied) end
if it.is_short and call.holds > 0 then
  local overdue
  overdue, reply = find_overdue(call, now_ms, MOST_EXPIRED)
  if not overdue then return reply end
  local returned = {}
  if call.dry then
    for _, hold in ipairs(overdue.holds) do returned[hold.user] = (returned[hold.user] or 0) + hold.quantity end
    call.stock = call.stock + overdue.units
  elseif #overdue.ids > 0 or overdue.is_finished then
    -- What is left for others is postponed by the step `expire` alone.
    give_back_overdue(call, overdue)
    reply = read()
    if reply then return reply end
  end
  if #overdue.ids > 0 or overdue.is_finished then
    it, reply = decide(returned)
    if not it then return reply end
  end
end

if it.ends_before then stop_before(call, it.ends_before) end

-- Write: deadlines, which are nobody's without a hold, then the stock.
if not call.dry then
  if #it.applied > 0 then
    local due = {}
    for i = 1, #it.applied do due[2 * i - 1], due[2 * i] = digits(deadline), call.requests[it.applied[i]] end
    -- One that was there is of a call that was cut, which may have counted its units.
    local holds = set_deadlines(kind, due) < #it.applied and count_open(call, {}) or call.holds
    take_and_record(call, call.stock - it.left, it.touched, it.now)
    redis.call('HSET', KEYS[2], 'holds', digits(holds + it.moves.units))
    hold_fields(it.moves, it.kept)
  end
  local known = call.single and call.states[call.requests[1]]
  if order ~= '-' and it.last == REPLAYED then
    it.kept = {'\th:' .. call.requests[1], hold_text(known, known.state)}
  end
  if #it.kept > 0 or (call.decided or 0) < call.count then write_requests(call, it.kept, it.refused) end
  if #it.applied > 0 and call.rules.ledger then
    local row = order_entry(call, it.left, it.applied, it.quantities)
    for _, text in ipairs(order_fields(order, items)) do row[#row + 1] = text end
    redis.call('XADD', KEYS[4], '*', unpack(row))
  end
end
if call.single then
  local hold = call.states[call.requests[1]]
  local shown_deadline = it.last == OK and deadline or it.last == REPLAYED and hold and hold.deadline
  return {it.last, it.left, shown(it.now[users[1]]), shown_deadline}
end
local packed_reply = packed(call, it.letters, nil, it.refused)
if call.job and not call.rows then return packed_reply .. ' ' .. digits(deadline) end
local common = it.deadlines[1]
for i = 2, #it.deadlines do
  if it.deadlines[i] ~= common then common = nil end
end
return packed_reply .. ' ' .. (common or concat(it.deadlines, ',')) .. ' ' .. concat(it.bought, ' ')
