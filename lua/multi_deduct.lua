--[[
  multi_deduct: takes units of several activities for one user in one step, all or nothing; for one such order
  or for several, one after the other.

  KEYS for each of the activities, in turn (4, 5 or 6 of them, by kind):
    KEYS[at + 1]  stock          string  units left
    KEYS[at + 2]  meta           hash    rules, withdrawn; may be absent
    KEYS[at + 3]  requests       hash    request id -> digest of the order; <tab>j:multi_deduct:<job> -> line, or line and digest
    KEYS[at + 4]  ledger         stream  one entry a call
    KEYS[at + 5]  participants   hash: user -> units (kind hash) | set: users (kinds set and coupon) | none (kind counter)
    KEYS[at + 6]  units          hash    units of a set's members; kind set only

  ARGV[1]  kind      hash, set, coupon or counter
  ARGV[2]  by        who runs this, for the ledger; may be empty
  ARGV[3]  mode      `first`, `retry` (may have been sent before: a refusal is kept under its request id), or `dry`
  ARGV[4]  job       empty, or: name, and then in ARGV[5..6] its digest (empty where the name tells), the last line of this
                     call, and for each activity: its epoch, and the last line that the caller knows to be decided there
  then     orders    user, request, reason, number of items, and for each item: which activity (from 1), quantity

  Returns one string an order, `status item item ...` with an item `status,stock,bought`; stock and bought are
  those after it, empty where there are none (bought is `?` for a member of a set without units). An item that is corrupt is `-11,n,hex`: KEYS[n] holds the value
  whose bytes are given in hexadecimal (`-`: it is of the wrong type).
  With a job one string more: the numbers of the activities that refuse as a whole, and keep no line, joined by
  spaces: an order that names one is not decided, and its refusal is not kept. The others keep the highest line so far. A call writes nothing where one of them does not know what the caller does:
   -20 gap               {-20, n, line}: activity n (from 1) has decided up to that line, and no further
   -21 other epoch       {-21, n, epoch}: activity n was reset since the job began
   -22 other job         {-22, n}: the job's name was used with another digest in activity n
  The order is
     1 ok                all units are taken
     2 replayed          this request was applied before
    -1 refused           nothing is taken; the items say why
  and an item
     1 ok, 2 replayed, -1 refused (alone it would have been fine), -2 limit_exceeded, -3 out_of_stock,
    -4 not_preheated, -5 not_started, -6 ended, -7 paused, -9 request_conflict (the id was used for something
    else, or is known to some of the activities only), -11 corrupt
  Only ok, a refused retry and the line of a job write; all stocks first, so that a cut leaves fewer units to sell, never more.

  Commands it needs (checked before the first write from Redis 7.0 on): GET HGET HMGET TYPE EXISTS TIME DECRBY HSET
  XADD; sets also SMISMEMBER SADD.
]]
--- @include "codes"

-- Includes.
--- @include "values"
--- @include "meta"

-- Reference path.
local MOST_ACTIVITIES, MOST_ORDERS = 512, 512
local kind, by, mode, job = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local stride = KEYS_OF[kind]
if not stride then return usage('multi_deduct: ARGV[1] is not hash, set, coupon or counter') end
local activities = #KEYS / stride
if activities < 1 or activities ~= math.floor(activities) then
  return usage('multi_deduct: kind ' .. kind .. ' has ' .. stride .. ' keys an activity, not ' .. #KEYS .. ' in all')
end
if activities > MOST_ACTIVITIES then return usage('multi_deduct: more than ' .. MOST_ACTIVITIES .. ' activities in one call') end
if mode ~= 'first' and mode ~= 'retry' and mode ~= 'dry' then return usage('multi_deduct: ARGV[3] is not first, retry or dry') end
-- Each would be checked alone against a stock that both take from.
local given = {}
for which = 1, activities do
  local stock_key = KEYS[(which - 1) * stride + 1]
  if given[stock_key] then return usage('multi_deduct: activity ' .. which .. ' is given twice, first as ' .. given[stock_key]) end
  given[stock_key] = which
end

-- Nearly all numbers come again and again, and a table is quicker than a pattern.
local numbers = setmetatable({}, {__index = function(known, text)
  local number = whole(text) or false
  known[text] = number
  return number
end})
local function number_of(text)
  return numbers[text] or nil
end
-- What a member of a set holds if no units are recorded, as a plain script leaves it: more than any number.
local UNKNOWN = math.huge
local texts = setmetatable({[UNKNOWN] = '?'}, {__index = function(known, number)
  local text = digits(number)
  known[number] = text
  return text
end})

-- The job: its field, its last line, and what it keeps.
local field, last, digest, record, at = nil, nil, nil, nil, 5
if job and job ~= '' then
  field, last, digest, at = '\tj:multi_deduct:' .. job, numbers[ARGV[6] or ''], ARGV[5], 7 + 2 * activities
  if not last or last < 1 or at > #ARGV then return usage('multi_deduct: lines of the job') end
  digest = digest == '' and '' or ' ' .. digest
  record = ARGV[6] .. digest
end

-- The orders: each with a digest of all it asks for.
local orders = {}
while at <= #ARGV do
  local number = #orders + 1
  local user, request, reason, size = ARGV[at], ARGV[at + 1], ARGV[at + 2], numbers[ARGV[at + 3] or '']
  if not size or size < 1 or at + 3 + 2 * size > #ARGV then return usage('multi_deduct: order ' .. number .. ' is not complete') end
  if not (is_user(user) or (kind == 'counter' and user == '')) then return usage('multi_deduct: user id of order ' .. number) end
  if request ~= '' and not is_request(request) then return usage('multi_deduct: request id of order ' .. number) end
  local items, asked, twice = {}, {}, {}
  for i = 1, size do
    local which, text = numbers[ARGV[at + 2 + 2 * i]], ARGV[at + 3 + 2 * i]
    local quantity = numbers[text]
    if not which or which < 1 or which > activities or twice[which] then return usage('multi_deduct: activity of item ' .. i .. ' of order ' .. number) end
    if not quantity or quantity < 1 or quantity > MOST_QUANTITY then return usage('multi_deduct: quantity of item ' .. i .. ' of order ' .. number) end
    twice[which] = true
    items[i] = {which = which, quantity = quantity, text = text}
    asked[i] = KEYS[(which - 1) * stride + 1] .. ' ' .. text
  end
  if size > 1 then table.sort(asked) end
  orders[number] = {
    user = user, request = request, reason = reason, items = items,
    digest = 'multi_deduct ' .. redis.sha1hex(concat(asked, '\n')) .. '\t' .. user,
  }
  at = at + 4 + 2 * size
end
if #orders < 1 then return usage('multi_deduct: no orders') end
if #orders > MOST_ORDERS then return usage('multi_deduct: more than ' .. MOST_ORDERS .. ' orders in one call') end

-- Read, and check, every activity. One that refuses on its own has a status (and, where corrupt, what it holds).
local sales = {}
local function broken(sale, value, key)
  if type(value) == 'table' and value.err and not find(value.err, 'WRONGTYPE', 1, true) then return value end
  sale.status, sale.key, sale.value = CORRUPT, key, type(value) ~= 'table' and tostring(value)
end
for which = 1, activities do
  local at = (which - 1) * stride
  local sale = {at = at, which = which, users = {}, now = {}, touched = {}, is_touched = {}, names = {}, fields = {}, seen = {}, kept = {}, noted = {}}
  sales[which] = sale
  local fault
  local stock_text = redis.pcall('GET', KEYS[at + 1])
  local rules_found = redis.pcall('HGET', KEYS[at + 2], 'rules')
  local rules, odd = rules_of(rules_found, not rules_found and redis.call('TYPE', KEYS[at + 2]).ok ~= 'none')
  if not rules then
    fault = broken(sale, odd, at + 2)
  else
    local unfit_ledger = ledger_unfit(redis.call('TYPE', KEYS[at + 4]).ok, rules)
    sale.rules = rules
    if unfit_ledger then
      sale.status, sale.key, sale.value = CORRUPT, at + unfit_ledger[4], unfit_ledger[5]
    elseif not stock_text then
      sale.status = rules.state == 'archived' and ENDED or NOT_PREHEATED
    else
      sale.stock = whole(stock_text)
      if not sale.stock then fault = broken(sale, stock_text, at + 1) else sale.shut = closed(rules) end
      -- Nothing is sold of it now, but its stock is reported, and compared with the total.
      if sale.stock and rules.state == 'paused' then
        local withdrawn, text = withdrawn_units(redis.call('HGET', KEYS[at + 2], 'withdrawn'))
        if text and not withdrawn then fault = broken(sale, text, at + 2) end
        sale.stock = sale.stock + (withdrawn or 0)
      end
      sale.left = sale.stock
    end
  end
  if fault then return fault end
end

-- What is to be looked up in each activity: the requests and the users of its orders, each once.
for _, order in ipairs(orders) do
  local user, request = order.user, order.request
  for _, item in ipairs(order.items) do
    local sale = sales[item.which]
    if not sale.status and request ~= '' and sale.seen[request] == nil then
      sale.seen[request] = false
      sale.names[#sale.names + 1], sale.fields[#sale.fields + 1] = request, request
    end
    if not sale.status and kind ~= 'counter' and sale.now[user] == nil then
      sale.now[user] = 0
      sale.users[#sale.users + 1] = user
    end
  end
end

-- What an activity knows of the job: `kept`, or false. Returns a fault of the call itself, or what refuses it.
local function read_job(sale, kept)
  local which = sale.which
  local epoch, text = ARGV[5 + 2 * which], ARGV[6 + 2 * which]
  local before = numbers[text]
  if not before then return usage('multi_deduct: lines of the job in activity ' .. which) end
  sale.line = before
  kept = kept or '0' .. digest
  -- Nearly always it knows what the caller does, and no more.
  if kept ~= text .. digest then
    local line, rest = string.match(kept, '^(%d+)(.*)$')
    sale.line = whole(line)
    if not sale.line then return broken(sale, kept, sale.at + 3) end
    if rest ~= digest then return {OTHER_JOB, which} end
  end
  local now = sale.rules.epoch and texts[sale.rules.epoch] or ''
  if epoch ~= now then return {OTHER_EPOCH, which, now} end
  if before > sale.line then return {GAP, which, sale.line} end
end

-- What is known of the requests and the job of an activity. Returns a fault of the call itself, or what refuses it.
local function read_requests(sale)
  if field then sale.fields[#sale.fields + 1] = field end
  if #sale.fields == 0 then return nil end
  local at = sale.at
  local found = redis.pcall('HMGET', KEYS[at + 3], unpack(sale.fields))
  if found.err then return broken(sale, found, at + 3) end
  for i, request in ipairs(sale.names) do sale.seen[request] = found[i] end
  if field then return read_job(sale, found[#sale.fields]) end
end

-- What the users of an activity hold. Returns a fault of the call itself.
local function read_held(sale)
  if #sale.users == 0 then return nil end
  local at, held = sale.at, nil
  if kind == 'hash' then
    held = redis.pcall('HMGET', KEYS[at + 5], unpack(sale.users))
    if held.err then return broken(sale, held, at + 5) end
  else
    held = redis.pcall('SMISMEMBER', KEYS[at + 5], unpack(sale.users))
    if held.err then return broken(sale, held, at + 5) end
    local units = {}
    if kind == 'set' then
      -- Also of users who are no members: a wrong type must not be met after the first write.
      units = redis.pcall('HMGET', KEYS[at + 6], unpack(sale.users))
      if units.err then return broken(sale, units, at + 6) end
    end
    local alone = kind == 'set' and UNKNOWN or '1'
    for i in ipairs(sale.users) do held[i] = held[i] == 1 and (units[i] or alone) end
  end
  local is_anybody_new = false
  for i, user in ipairs(sale.users) do
    local text = held[i]
    if text then sale.now[user] = text == UNKNOWN and UNKNOWN or whole(text) or text else is_anybody_new = true end
  end
  if is_anybody_new and sale.rules.total and sale.rules.total > sale.stock and redis.call('EXISTS', KEYS[at + 5]) == 0 then
    broken(sale, 'nothing, though units were sold', at + 5)
  end
end

for _, sale in ipairs(sales) do
  local fault
  if not sale.status then fault = read_requests(sale) end
  if not fault and not sale.status then fault = read_held(sale) end
  if fault then return fault end
end

-- Why an item cannot be had, or nil.
local function refusal(sale, order, item)
  if sale.status then return sale.status end
  local had = sale.now[order.user] or 0
  if type(had) == 'string' then return CORRUPT end
  if sale.shut then return sale.shut end
  if kind == 'hash' then
    if had + item.quantity > (sale.rules.limit or MOST_UNITS) then return LIMIT_EXCEEDED end
  elseif kind ~= 'counter' and (had > 0 or (kind == 'coupon' and item.quantity > 1)) then
    return LIMIT_EXCEEDED
  end
  if item.quantity > sale.left then return OUT_OF_STOCK end
end

local function hex(text)
  if not text then return '-' end
  return (string.gsub(string.sub(text, 1, 64), '.', function(byte) return format('%02x', string.byte(byte)) end))
end

-- One item of the reply.
local function shown(sale, order, status)
  local had = sale.now[order.user]
  if status == CORRUPT then
    if sale.status then return CORRUPT .. ',' .. sale.key .. ',' .. hex(sale.value) end
    return CORRUPT .. ',' .. (sale.at + (kind == 'set' and 6 or 5)) .. ',' .. hex(had)
  end
  return status .. ',' .. (sale.left and texts[sale.left] or '') .. ',' .. (type(had) == 'number' and texts[had] or '')
end

-- Decide, one order after the other.
local replies = {}
for number, order in ipairs(orders) do
  local whys, known, conflicts, any, undecided = {}, 0, false, false, false
  for i, item in ipairs(order.items) do
    local sale = sales[item.which]
    local found = sale.seen[order.request]
    local past = found and settled(found, order.digest)
    if past == REPLAYED then known = known + 1 end
    if past == REQUEST_CONFLICT then conflicts = true end
    whys[i] = refusal(sale, order, item)
    if field and (sale.status or sale.shut) then undecided = true end
    if whys[i] or past == REFUSED then any = true end
  end
  local status = OK
  if known == #order.items then
    status = REPLAYED
  elseif conflicts or known > 0 then
    status = REFUSED
    for i in ipairs(order.items) do
      if whys[i] ~= NOT_PREHEATED and whys[i] ~= CORRUPT then whys[i] = REQUEST_CONFLICT end
    end
  elseif any then
    status = REFUSED
  end
  if status == OK then
    for _, item in ipairs(order.items) do
      local sale = sales[item.which]
      sale.left = sale.left - item.quantity
      if kind ~= 'counter' then
        sale.now[order.user] = sale.now[order.user] + item.quantity
        if not sale.is_touched[order.user] then
          sale.touched[#sale.touched + 1], sale.is_touched[order.user] = order.user, true
        end
      end
      sale.noted[#sale.noted + 1] = {order.user, item.text, order.request, order.reason}
    end
  end
  if order.request ~= '' and (status == OK or (status == REFUSED and mode == 'retry' and not undecided and not conflicts and known == 0)) then
    local record = status == OK and order.digest or REFUSED .. '\t' .. order.digest
    for _, item in ipairs(order.items) do
      local sale = sales[item.which]
      -- A refusal creates no key of an activity that is not there.
      if not sale.status then
        sale.kept[#sale.kept + 1] = order.request
        sale.kept[#sale.kept + 1] = record
        sale.seen[order.request] = record
      end
    end
  end
  local parts = {tostring(status)}
  for i, item in ipairs(order.items) do
    parts[i + 1] = shown(sales[item.which], order, status == REFUSED and (whys[i] or REFUSED) or status)
  end
  replies[number] = concat(parts, ' ')
end
if field then
  local unfit = {}
  for which, sale in ipairs(sales) do
    if sale.status or sale.shut then
      unfit[#unfit + 1] = which
    elseif last > sale.line then
      sale.kept[#sale.kept + 1], sale.kept[#sale.kept + 2] = field, record
    end
  end
  replies[#replies + 1] = concat(unfit, ' ')
end
if mode == 'dry' then return replies end

-- Write: permissions, then all stocks, then the rest.
for _, sale in ipairs(sales) do
  local at = sale.at
  local writes = #sale.noted > 0 or #sale.kept > 0
  if writes and redis.acl_check_cmd and not redis.acl_check_cmd('HSET', KEYS[at + 3], 'f', 'v') then return forbidden('HSET') end
  if #sale.noted > 0 and redis.acl_check_cmd then
    local denied = not redis.acl_check_cmd('DECRBY', KEYS[at + 1], '1') and 'DECRBY'
      or sale.rules.ledger and not redis.acl_check_cmd('XADD', KEYS[at + 4], '*', 'f', 'v') and 'XADD'
      or (kind == 'set' or kind == 'coupon') and not redis.acl_check_cmd('SADD', KEYS[at + 5], 'm') and 'SADD'
      or kind == 'set' and not redis.acl_check_cmd('HSET', KEYS[at + 6], 'f', 'v') and 'HSET'
    if denied then return forbidden(denied) end
  end
end
for _, sale in ipairs(sales) do
  if #sale.noted > 0 then redis.call('DECRBY', KEYS[sale.at + 1], texts[sale.stock - sale.left]) end
end
for _, sale in ipairs(sales) do
  local at = sale.at
  if #sale.touched > 0 then
    local units = {}
    if kind ~= 'coupon' then
      for _, user in ipairs(sale.touched) do
        units[#units + 1], units[#units + 2] = user, texts[sale.now[user]]
      end
    end
    if kind == 'hash' then
      redis.call('HSET', KEYS[at + 5], unpack(units))
    else
      -- Units first: a member without them would be unknown.
      if kind == 'set' then redis.call('HSET', KEYS[at + 6], unpack(units)) end
      redis.call('SADD', KEYS[at + 5], unpack(sale.touched))
    end
  end
  if #sale.kept > 0 then redis.call('HSET', KEYS[at + 3], unpack(sale.kept)) end
  if #sale.noted > 0 and sale.rules.ledger then
    local columns, is_given = {{}, {}, {}, {}}, {}
    for i, order in ipairs(sale.noted) do
      for at, text in ipairs(order) do
        columns[at][i] = text
        is_given[at] = is_given[at] or text ~= ''
      end
    end
    local row = entry('deduct', by, '', texts[sale.left], 'quantity', #sale.noted == 1 and columns[2][1] or column(columns[2]))
    row[#row + 1], row[#row + 2] = 'users', column(columns[1])
    if is_given[3] then row[#row + 1], row[#row + 2] = 'requests', column(columns[3]) end
    if is_given[4] then row[#row + 1], row[#row + 2] = 'reasons', column(columns[4]) end
    redis.call('XADD', KEYS[at + 4], '*', unpack(row))
  end
end
return replies
