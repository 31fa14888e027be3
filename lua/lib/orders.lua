-- What deduct and refund have in common: how orders come in, what is read and checked before any is decided,
-- how a job's line is kept, and how replies go out.

-- Letters of the statuses in a packed reply, one an order.
local LETTERS = {
  [OK] = 'o', [REPLAYED] = 'r', [LIMIT_EXCEEDED] = 'l', [OUT_OF_STOCK] = 's', [EXCEEDS_BOUGHT] = 'x',
  [REQUEST_CONFLICT] = 'q', [CORRUPT] = 'c', [PAUSED] = 'p', [NOT_STARTED] = 'n', [ENDED] = 'e',
}
local GAP, OTHER_EPOCH, OTHER_JOB = -20, -21, -22

-- HMGET and HSET take two values an order, and unpack fails near 8,000.
local MOST_ORDERS = 2000

-- Reads the arguments of a call. Returns a table of all that is in them, or nil and a usage error.
local function read_call(op)
  local kind, mode, width, job = ARGV[1], ARGV[5], tonumber(ARGV[6] or ''), ARGV[7]
  if not KEYS_OF[kind] then return nil, usage(op .. ': ARGV[1] is not hash, set, coupon or counter') end
  if #KEYS ~= KEYS_OF[kind] then return nil, usage(op .. ': kind ' .. kind .. ' has ' .. KEYS_OF[kind] .. ' keys, not ' .. #KEYS) end
  if mode ~= 'first' and mode ~= 'retry' and mode ~= 'dry' then return nil, usage(op .. ': ARGV[5] is not first, retry or dry') end
  if width ~= 2 and width ~= 3 and width ~= 4 then return nil, usage(op .. ': ARGV[6] is not 2, 3 or 4') end
  local call = {op = op, kind = kind, by = ARGV[2], reason = ARGV[3], dry = mode == 'dry', retry = mode == 'retry'}
  local at = 8
  if job and job ~= '' then
    call.job, call.digest, call.epoch, call.lines, call.rows = job, ARGV[8], ARGV[9], ARGV[11], ARGV[12] == '1'
    call.before = whole(ARGV[10])
    if not (call.before and call.lines and find(call.lines, '^%d[%d ]*$')) then return nil, usage(op .. ': lines of the job') end
    at = 13
  end
  local count = (#ARGV - at + 1) / width
  if count < 1 or count ~= math.floor(count) then return nil, usage(op .. ': the orders are not complete') end
  if count > MOST_ORDERS then return nil, usage(op .. ': more than ' .. MOST_ORDERS .. ' orders in one call') end
  -- A table that is made of values has its size at once; one that grows is copied again and again. So here, and below,
  -- lists begin as a copy of one that is as long, and are then overwritten.
  local arguments, requests, reasons = ARGV, nil, nil
  local users = {unpack(ARGV, at, at + count - 1)}
  local texts = {unpack(users)}
  local from = at
  for i = 1, count do
    users[i], texts[i] = arguments[from], arguments[from + 1]
    from = from + width
  end
  -- One look at all ids of a call at once: nearly none holds anything that needs a closer one.
  call.plain = find(concat(users), '^[^%c%s"\\\127]*$')
  local plain, userless = call.plain, kind == 'counter'
  for i = 1, count do
    local user = users[i]
    if not (plain and user ~= '' and #user <= 256) and not is_user(user) and not (userless and user == '') then
      return nil, usage(op .. ': user id of order ' .. i)
    end
  end
  if width > 2 then
    requests, reasons = {}, {}
    for i = 1, count do
      local request = arguments[at + (i - 1) * width + 2]
      if request ~= '' and not is_request(request) then return nil, usage(op .. ': request id of order ' .. i) end
      requests[i], reasons[i] = request, width > 3 and arguments[at + (i - 1) * width + 3] or ''
    end
  end
  call.count, call.users, call.texts, call.requests, call.reasons = count, users, texts, requests, reasons
  call.single = count == 1 and not call.job
  return call
end

-- The quantities of a call as numbers, each within the bounds of an order, or nil and the number of the one that is not.
-- Nearly all texts are alike, and a table is quicker than a pattern. `word` is a text that may stand for a quantity.
local function read_quantities(call, word)
  local texts = call.texts
  local wanted, known = {unpack(texts)}, {}
  for i = 1, call.count do
    local text = texts[i]
    local number = known[text]
    if not number then
      number = text == word and word or whole(text)
      if not number or (number ~= word and (number < 1 or number > MOST_QUANTITY)) then return nil, i end
      known[text] = number
    end
    wanted[i] = number
  end
  return wanted
end

-- Numbers as the server must get them, each written once.
local function digits_once()
  return setmetatable({}, {__index = function(known, number)
    local text = digits(number)
    known[number] = text
    return text
  end})
end

-- Reads stock, meta and the ledger's type. Returns nil, or the reply that refuses the whole activity.
local function read_activity(call)
  local stock_text = redis.pcall('GET', KEYS[1])
  local rules, odd = rules_of(redis.pcall('HMGET', KEYS[2], 'total', 'per_user_limit', 'starts_at', 'ends_at', 'state', 'ledger', 'epoch'))
  if not rules then return unfit(odd, 2) end
  local bad = ledger_unfit(redis.call('TYPE', KEYS[4]).ok, rules)
  if bad then return bad end
  if not stock_text then return {NOT_PREHEATED, false, false} end
  local stock = whole(stock_text)
  if not stock then return unfit(stock_text, 1) end
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
  local first, last = whole(string.match(call.lines, '^%d+')), whole(string.match(string.sub(call.lines, -17), '%d+$'))
  if not (first and last) then return usage(call.op .. ': lines of the job') end
  call.last = last
  -- How many of the orders the job decided before.
  call.decided = 0
  if call.line >= last then
    call.decided = call.count
  elseif call.line >= first then
    for line in string.gmatch(call.lines, '%d+') do
      if tonumber(line) > call.line then break end
      call.decided = call.decided + 1
    end
  end
end

-- Whether orders before those of this call were not decided yet: they must not be overtaken.
local function leaves_gap(call)
  return call.job and call.before > call.line
end

-- Reads what the users hold, as text: false for nothing. Returns nil, or the reply that refuses the call.
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
    for i = 1, count do held[i] = held[i] == 1 and (units[i] or '1') end
  end
  call.held = held
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

-- Writes what the users hold now, each in the text of `written`. Sets are told who joined, who left and whose units are
-- not 1.
local function write_held(call, touched, now, written)
  local kind = call.kind
  written = written or digits_once()
  local set, cleared, joined, left = {}, {}, {}, {}
  for i = 1, #touched do
    local user = touched[i]
    local units = now[user]
    if kind ~= 'hash' then
      if units > 0 then joined[#joined + 1] = user else left[#left + 1] = user end
    end
    if units > (kind == 'hash' and 0 or 1) then
      set[#set + 1] = user
      set[#set + 1] = written[units]
    else
      cleared[#cleared + 1] = user
    end
  end
  if kind == 'hash' then
    if #set > 0 then redis.call('HSET', KEYS[5], unpack(set)) end
    if #cleared > 0 then redis.call('HDEL', KEYS[5], unpack(cleared)) end
    return
  end
  -- Units first: a member without them would hold 1.
  if kind == 'set' then
    if #set > 0 then redis.call('HSET', KEYS[6], unpack(set)) end
    if #cleared > 0 then redis.call('HDEL', KEYS[6], unpack(cleared)) end
  end
  if #joined > 0 then redis.call('SADD', KEYS[5], unpack(joined)) end
  if #left > 0 then redis.call('SREM', KEYS[5], unpack(left)) end
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

-- The packed reply of many orders.
local function packed(call, letters, bought, refused)
  local reply = concat(letters, '', 1, call.count) .. ' ' .. digits(call.stock) .. ' ' .. digits((call.refused or 0) + refused)
  if not bought then return reply end
  return reply .. ' ' .. concat(bought, ' ', 1, call.count)
end
