-- What deduct and refund have in common, and repair in part: what is read and checked before any order is decided, how
-- a job's line is kept, and how replies go out.

-- Letters of the statuses in a packed reply, one an order.
local LETTERS = {
  [OK] = 'o', [REPLAYED] = 'r', [LIMIT_EXCEEDED] = 'l', [OUT_OF_STOCK] = 's', [EXCEEDS_BOUGHT] = 'x',
  [REQUEST_CONFLICT] = 'q', [CORRUPT] = 'c', [PAUSED] = 'p', [NOT_STARTED] = 'n', [ENDED] = 'e',
}

-- What a member of a set holds if no units are recorded, as a plain script leaves it: more than any number.
local UNKNOWN = math.huge

-- Numbers as the server must get them, each written once.
local function digits_once()
  return setmetatable({[UNKNOWN] = '?'}, {__index = function(known, number)
    local text = digits(number)
    known[number] = text
    return text
  end})
end

-- Reads stock, meta and the ledger's type. Returns nil, or the reply that refuses the whole activity. Afterwards
-- `call.stock` is the units for sale, with those that are withdrawn; a purchase from a live activity looks for none.
local function read_activity(call)
  local stock_text = redis.pcall('GET', KEYS[1])
  local text = redis.pcall('HGET', KEYS[2], 'rules')
  local rules, odd = rules_of(text, not text and redis.call('TYPE', KEYS[2]).ok ~= 'none')
  if not rules then return unfit(odd, 2) end
  local bad = ledger_unfit(redis.call('TYPE', KEYS[4]).ok, rules)
  if bad then return bad end
  if not stock_text and not call.restores then
    return {rules.state == 'archived' and call.op == 'deduct' and ENDED or NOT_PREHEATED, false, false}
  end
  call.is_lost = not stock_text
  local stock = whole(stock_text or '0')
  if not stock then return unfit(stock_text, 1) end
  if rules.state == 'paused' or call.op ~= 'deduct' then
    local withdrawn, odd = withdrawn_units(redis.call('HGET', KEYS[2], 'withdrawn'))
    if odd and not withdrawn then return unfit(odd, 2) end
    stock, call.withdrawn = stock + (withdrawn or 0), withdrawn
  end
  call.stock, call.rules = stock, rules
end

-- Reads what is known of the request ids and the job. Returns nil, or the reply that refuses the call.
local function read_requests(call)
  local fields, names = {}, {}
  for i = 1, call.requests and call.count or 0 do
    local request = call.requests[i]
    if request ~= '' then
      fields[#fields + 1], names[#names + 1] = 'r:' .. request, request
    end
  end
  if call.job then fields[#fields + 1] = 'j:' .. call.op .. ':' .. call.job end
  call.seen = {}
  if #fields == 0 then
    -- Nothing to look up now, but a wrong type must not be met later, and no request id is written either.
    return nil
  end
  local found = redis.pcall('HMGET', KEYS[3], unpack(fields))
  if found.err then return unfit(found, 3) end
  for i = 1, #names do call.seen[names[i]] = found[i] end
  if not call.job then return nil end

  call.line, call.refused = 0, 0
  local record = found[#fields]
  if record then
    local line, refused, digest = string.match(record, '^(%d+) (%d+) (.*)$')
    call.line, call.refused = whole(line), whole(refused)
    if not (call.line and call.refused) then return unfit(record, 3) end
    if digest ~= call.digest then return {OTHER_JOB} end
  end
  local epoch = call.rules.epoch and digits(call.rules.epoch) or ''
  if epoch ~= call.epoch then return {OTHER_EPOCH, epoch} end
  -- How many of the orders the job decided before.
  call.decided, call.last = 0, call.lines[call.count]
  while call.decided < call.count and call.lines[call.decided + 1] <= call.line do call.decided = call.decided + 1 end
end

-- Whether orders before those of this call were not decided yet: they must not be overtaken.
local function leaves_gap(call)
  return call.job and call.before > call.line
end

-- Reads what the users hold: a text, false for nothing, true for a member of a set whose units are unknown. Returns nil,
-- or the reply that refuses the call.
local function read_held(call)
  local kind, users, count = call.kind, call.users, call.count
  if kind == 'counter' then return nil end
  local held
  if kind == 'hash' then
    if count == 1 then
      held = {(redis.pcall('HGET', KEYS[5], users[1]))}
      if type(held[1]) == 'table' then return unfit(held[1], 5) end
    else
      held = redis.pcall('HMGET', KEYS[5], unpack(users))
      if held.err then return unfit(held, 5) end
    end
  else
    held = redis.pcall('SMISMEMBER', KEYS[5], unpack(users))
    if held.err then return unfit(held, 5) end
    local units = {}
    if kind == 'set' then
      units = redis.pcall('HMGET', KEYS[6], unpack(users))
      if units.err then return unfit(units, 6) end
    end
    local alone = kind == 'set' or '1'
    for i = 1, count do held[i] = held[i] == 1 and (units[i] or alone) end
  end
  call.held = held
end

-- The units in what read_held found: nil if it is no number.
local function units_held(found)
  if not found then return 0 end
  if found == true then return UNKNOWN end
  return whole(found)
end

-- Units held as one order replies them.
local function told(units)
  return units == UNKNOWN and '?' or units
end

-- Whether units were sold and no record of it is left: limits would start over.
local function records_lost(call)
  local total = call.rules.total
  if not total or total <= call.stock or call.kind == 'counter' then return false end
  for i = 1, call.count do
    if call.held[i] then return false end
  end
  return redis.call('EXISTS', KEYS[5]) == 0
end

-- Notes what a request id did: what was applied, and a refusal only of a retry, because the first try, arriving
-- late, could still do what was reported refused. A job's line settles its own retries.
local function keep(call, request, digest, status, kept)
  if request == '' or (status ~= OK and (call.job or not call.retry)) then return end
  local record = status == OK and digest or digits(status) .. ' ' .. digest
  call.seen[request] = record
  kept[#kept + 1] = 'r:' .. request
  kept[#kept + 1] = record
end

-- Writes what the users hold now, each in the text of `written`. Who holds nothing is no participant.
local function write_held(call, touched, now, written)
  local kind = call.kind
  written = written or digits_once()
  local set, joined, left = {}, {}, {}
  for i = 1, #touched do
    local user = touched[i]
    local units = now[user]
    if units > 0 then
      joined[#joined + 1] = user
      set[#set + 1] = user
      set[#set + 1] = written[units]
    else
      left[#left + 1] = user
    end
  end
  if kind == 'hash' then
    if #set > 0 then redis.call('HSET', KEYS[5], unpack(set)) end
    if #left > 0 then redis.call('HDEL', KEYS[5], unpack(left)) end
    return
  end
  -- Units are written before their member and removed after it: a member without them would be unknown.
  if kind == 'set' and #set > 0 then redis.call('HSET', KEYS[6], unpack(set)) end
  if #joined > 0 then redis.call('SADD', KEYS[5], unpack(joined)) end
  if #left > 0 then redis.call('SREM', KEYS[5], unpack(left)) end
  if kind == 'set' and #left > 0 then redis.call('HDEL', KEYS[6], unpack(left)) end
end

-- Keeps request ids and the job's line. `kept` is a flat list of fields and values.
local function write_requests(call, kept, refused)
  if call.job then
    kept[#kept + 1] = 'j:' .. call.op .. ':' .. call.job
    kept[#kept + 1] = digits(call.last) .. ' ' .. digits(call.refused + refused) .. ' ' .. call.digest
  end
  if #kept > 0 then redis.call('HSET', KEYS[3], unpack(kept)) end
end

-- The orders of a call as the ledger keeps them: the first `count` whose numbers are in `noted`, with their quantities.
local function ledger_orders(call, noted, quantities, count)
  local users, requests, reasons = call.users, call.requests, call.reasons
  local parts = {unpack(users, 1, count)}
  if call.plain and not requests then
    -- What follows the user is alike in nearly all of them, up to the user of the next: one joint serves all.
    local first, alike = quantities[1], true
    for n = 1, count do
      parts[n] = users[noted[n]]
      alike = alike and quantities[n] == first
    end
    if alike then return '[["' .. concat(parts, '","' .. first .. '",""],["') .. '","' .. first .. '",""]]' end
    for n = 1, count do parts[n] = '["' .. parts[n] .. '","' .. quantities[n] .. '",""]' end
  elseif call.plain and call.plain_requests and not reasons then
    -- No string for each order: Lua would hash it by every other byte, and numbers in a row then fall together.
    local joints = {}
    for n = 1, count do
      local i, quantity = noted[n], quantities[n]
      local joint = joints[quantity]
      if not joint then
        joint = '","' .. quantity .. '","'
        joints[quantity] = joint
      end
      local at = 4 * n - 3
      parts[at], parts[at + 1], parts[at + 2], parts[at + 3] = users[i], joint, requests[i], '"],["'
    end
    parts[4 * count] = '"]]'
    return '[["' .. concat(parts, '', 1, 4 * count)
  else
    for n = 1, count do
      local i = noted[n]
      local order = '[' .. json(users[i]) .. ',"' .. quantities[n] .. '",' .. json(requests and requests[i] or '')
      if reasons and reasons[i] ~= '' then order = order .. ',' .. json(reasons[i]) end
      parts[n] = order .. ']'
    end
  end
  return '[' .. concat(parts, ',') .. ']'
end

-- The ledger entry of a call: its orders, and of a job what names those that have no request id of their own: the job
-- and their lines, as they came if all were applied.
local function order_entry(call, left, noted, quantities, count)
  local row = entry(call.op, call.by, call.reason, digits(left))
  local unnamed = call.job and not call.requests
  for n = 1, call.job and call.requests and count or 0 do
    unnamed = unnamed or call.requests[noted[n]] == ''
  end
  if unnamed then
    local lines = ARGV[11]
    if count < call.count then
      local applied = {}
      for n = 1, count do applied[n] = digits(call.lines[noted[n]]) end
      lines = concat(applied, ' ')
    end
    for _, text in ipairs({'job', call.job, 'lines', lines}) do row[#row + 1] = text end
  end
  row[#row + 1] = 'orders'
  row[#row + 1] = ledger_orders(call, noted, quantities, count)
  return row
end

-- The packed reply of many orders.
local function packed(call, letters, bought, refused)
  local reply = concat(letters, '', 1, call.count) .. ' ' .. digits(call.stock) .. ' ' .. digits((call.refused or 0) + refused)
  if not bought then return reply end
  return reply .. ' ' .. concat(bought, ' ', 1, call.count)
end
