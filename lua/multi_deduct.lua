--[[
  multi_deduct: takes units of several activities for one user in one step, all or nothing; for one such order, or for
  the orders of a job, one after the other.

  KEYS for each of the activities, in turn (4, 5 or 6 of them, by kind):
    KEYS[at + 1]  stock          string  units left
    KEYS[at + 2]  meta           hash    rules, withdrawn; may be absent
    KEYS[at + 3]  requests       hash    request id -> digest of the order; <tab>j:multi_deduct:<job> -> line, refused, digest;
                                         <tab>begun -> what a call that gives units back is about to do
    KEYS[at + 4]  ledger         stream  one entry a call
    KEYS[at + 5]  participants   hash: user -> units (kind hash) | set: users (kinds set and coupon) | none (kind counter)
    KEYS[at + 6]  units          hash    units of a set's members; kind set only

  ARGV[1]  kind      hash, set, coupon or counter
  ARGV[2]  by        who runs this, for the ledger; may be empty
  ARGV[3]  mode      `first`, `retry` (one order: it may have been sent before, and a refusal is kept under its request
                     id), or `dry` (nothing is written)
  ARGV[4]  reason    why, for the ledger; may be empty
  ARGV[5]  job       empty, or the name of a job
  One order:
  ARGV[6]  user      may be empty for a counter
  ARGV[7]  request id  may be empty
  ARGV[8..]          the quantity of each activity, in the order of KEYS
  Orders of a job, each all items that have its line:
  ARGV[6]  digest    of the job; empty if its name is the digest
  ARGV[7]  rows      1 if the reply should tell what each user holds
  ARGV[8..]          for each activity seven arguments: its epoch; the line before these, the last one that the job is known to
                     have decided there; the lines of its items in rising order (`first-last` if they follow each other, else
                     all, joined by spaces); quantities, one number if all are equal, else a JSON array of texts; users, a JSON
                     array of texts, and likewise requests and reasons, both of which may be empty

  Returns for one order one string, `status item item ...` with an item `status,stock,bought`; stock and bought are those
  after it, empty if there are none (bought is `?` for a member of a set without units). An item that is corrupt is
  `-11,n,hex`: KEYS[n] holds the value whose bytes are given in hexadecimal (`-`: it is of the wrong type).
  The order is
     1 ok                all units are taken
     2 replayed          this request was applied before
    -1 refused           nothing is taken; the items say why
  and an item one of these, -1 if alone it would have been fine, or
    -2 limit_exceeded    the user would hold more than the limit
    -3 out_of_stock      fewer are left
    -4 not_preheated     its stock key is absent
    -5 not_started       before the window
    -6 ended             after the window, or archived
    -7 paused            an operator paused it; the stock includes what is withdrawn
    -9 request_conflict  the request id was used for something else, or only some of the activities know it
   -11 corrupt           one of its keys holds what it must not
   -15 sharded           its units are in activities of their own
   -16 reversed          a repair took it back: order anew with a new request id
  Returns for a job one string an activity, `letters stock refused whole corrupt [bought ...]`: a letter an item (o ok,
  r replayed, d refused, l limit_exceeded, s out_of_stock, t not_preheated, k sharded, n not_started, e ended, p paused,
  q request_conflict, c corrupt, b reversed), the stock before the call (`-` without one), how many of its items the job has refused so
  far, the status that refuses the whole activity or 0, `n,hex` of one thing that is corrupt or `-`, and what each user holds
  after the item. An order without a request id is decided, and replayed, if the job's lines in all its activities reached
  its line. An activity that refuses as a whole keeps no line, so that its orders are not decided. A call writes nothing if
  an activity does not know what the caller does:
   -20 gap               {-20, n, line}: activity n (from 1) has decided up to that line, and no further
   -21 other epoch       {-21, n, epoch}: activity n was reset since the job began
   -22 other job         {-22, n}: the job's name was used with another digest in activity n
  Only ok, a refused retry and the line of a job write, also that of a refused order; all stocks first, so that a cut leaves
  fewer units to sell, never more. A refund, release or expiry that was cut is finished first, as by deduct.

  Commands it needs (checked before the first write from Redis 7.0 on): GET HGET HMGET TYPE EXISTS TIME XLEN XREVRANGE
  DECRBY HSET XADD; sets also SMISMEMBER SADD SREM.
  INCRBY HDEL XRANGE finish what was cut: without them orders of its users are refused.
]]
--- @use "codes"

-- Quick path: orders of a job, of kind hash, that all succeed. It replies, or leaves the call to the reference path before
-- it has written anything; helpers cost more than an order to define, so it comes before them.
--- @use "quick_multi"
redis.setresp(3)
local quick_reply = quick_multi()
redis.setresp(2)
if quick_reply then return quick_reply end

-- Includes.
--- @use "values"
--- @use "meta"
--- @use "columns"

-- Finishes a call that was cut in one of the activities, whose keys `own` has then.
local own = {}
local finish_begun_of
do
  local KEYS = own
--- @use "finish_begun"
  finish_begun_of = finish_begun
end

-- Reference path.
local MOST_ACTIVITIES, MOST_ITEMS, WIDTH = 512, 2000, 7
local kind, by, mode, reason, job = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local stride = KEYS_OF[kind]
if not stride then return usage('multi_deduct: ARGV[1] is not hash, set, coupon or counter') end
local activities = #KEYS / stride
if activities < 1 or activities ~= math.floor(activities) then
  return usage('multi_deduct: kind ' .. kind .. ' has ' .. stride .. ' keys an activity, not ' .. #KEYS .. ' in all')
end
if activities > MOST_ACTIVITIES then return usage('multi_deduct: more than ' .. MOST_ACTIVITIES .. ' activities in one call') end
if mode ~= 'first' and mode ~= 'retry' and mode ~= 'dry' then return usage('multi_deduct: ARGV[3] is not first, retry or dry') end
if not reason or not job then return usage('multi_deduct: ARGV[4] and ARGV[5] are missing') end
local is_job = job ~= ''
local wanted = 7 + activities * (is_job and WIDTH or 1)
if #ARGV ~= wanted then return usage('multi_deduct: ' .. wanted .. ' arguments are wanted, not ' .. #ARGV) end
-- Each would be checked alone against a stock that both take from.
local given = {}
for which = 1, activities do
  local stock_key = KEYS[(which - 1) * stride + 1]
  if given[stock_key] then return usage('multi_deduct: activity ' .. which .. ' is given twice, first as ' .. given[stock_key]) end
  given[stock_key] = which
end

-- What a member of a set holds if no units are recorded, as a plain script leaves it: more than any number.
local UNKNOWN = math.huge
local function units_text(units)
  return units == UNKNOWN and '?' or digits(units)
end

-- The activities, each with its items; and the orders, by their lines. An item is {which, quantity, text, letter, bought}.
local sales, orders, by_line = {}, {}, {}
local function add(sale, line, user, request, why, text)
  local number, quantity = #sale.items + 1, whole(text)
  local place = is_job and 'item ' .. number .. ' of activity ' .. sale.which or 'item ' .. sale.which
  if not is_user(user) and not (kind == 'counter' and user == '') then return 'user id of ' .. place end
  if request ~= '' and not is_request(request) then return 'request id of ' .. place end
  if not quantity or quantity < 1 or quantity > MOST_QUANTITY then return 'quantity of ' .. place end
  local order = by_line[line]
  if not order then
    order = {line = line, user = user, request = request, reason = why, items = {}}
    by_line[line], orders[#orders + 1] = order, order
  elseif order.user ~= user or order.request ~= request or order.reason ~= why then
    return 'user, request or reason of ' .. place .. ' is not that of its order'
  end
  local item = {sale = sale, order = order, quantity = quantity, text = text}
  sale.items[number], order.items[#order.items + 1] = item, item
end
local count = 0
for which = 1, activities do
  local sale = {at = (which - 1) * stride, which = which, items = {}, users = {}, now = {}, names = {}, seen = {}, kept = {}, sold = {}, line = 0, refused = 0}
  sales[which] = sale
  local wrong
  if not is_job then
    wrong = add(sale, 1, ARGV[6], ARGV[7], '', ARGV[7 + which])
  else
    local epoch, before, lines, quantities, users, requests, reasons = unpack(ARGV, 8 + (which - 1) * WIDTH, 7 + which * WIDTH)
    users = read_column(users)
    local size = users and #users or 0
    if size < 1 then return usage('multi_deduct: users of activity ' .. which) end
    count = count + size
    if count > MOST_ITEMS then return usage('multi_deduct: more than ' .. MOST_ITEMS .. ' items in one call') end
    sale.epoch, sale.before, sale.lines = epoch, whole(before), read_lines(lines, size)
    if not sale.before or not sale.lines then return usage('multi_deduct: lines of the job in activity ' .. which) end
    sale.quantity = find(quantities, '[', 1, true) ~= 1 and quantities
    local columns = {quantities = not sale.quantity and quantities, requests = requests ~= '' and requests, reasons = reasons ~= '' and reasons}
    for name, text in pairs(columns) do
      columns[name] = text and read_column(text)
      if text and #(columns[name] or {}) ~= size then
        return usage('multi_deduct: activity ' .. which .. ' has not as many ' .. name .. ' as users')
      end
    end
    for i = 1, size do
      local quantity = sale.quantity or columns.quantities[i]
      local request, why = columns.requests and columns.requests[i] or '', columns.reasons and columns.reasons[i] or ''
      wrong = wrong or add(sale, sale.lines[i], users[i], request, why, quantity)
    end
  end
  if wrong then return usage('multi_deduct: ' .. wrong) end
end
table.sort(orders, function(one, other) return one.line < other.line end)
for _, order in ipairs(orders) do
  if order.request ~= '' then
    local asked = {}
    for i, item in ipairs(order.items) do asked[i] = KEYS[item.sale.at + 1] .. ' ' .. item.text end
    table.sort(asked)
    order.digest = 'multi_deduct ' .. redis.sha1hex(concat(asked, '\n')) .. '\t' .. order.user
  end
end

-- Read, and check, every activity. One that refuses as a whole has a status; `key` and `value` are what is corrupt.
local function broken(sale, value, key)
  if type(value) == 'table' and value.err and not find(value.err, 'WRONGTYPE', 1, true) then return value end
  sale.status, sale.key, sale.value = CORRUPT, sale.at + key, type(value) ~= 'table' and tostring(value)
end

-- Reads stock and rules, and whether the ledger takes an entry. Returns a fault of the call itself.
local function read_activity(sale)
  local at = sale.at
  local stock_text, packed = redis.pcall('GET', KEYS[at + 1]), redis.pcall('HGET', KEYS[at + 2], 'rules')
  local rules, invalid = rules_of(packed, redis.call('TYPE', KEYS[at + 2]).ok ~= 'none')
  if not rules then return broken(sale, invalid, 2) end
  sale.rules = rules
  local entries, at_last_id = redis.pcall('XLEN', KEYS[at + 4]), redis.pcall('XREVRANGE', KEYS[at + 4], LAST_ID, LAST_ID, 'COUNT', 1)
  local unfit_ledger = ledger_closed(stock_text, rules, entries, at_last_id)
  if unfit_ledger then return broken(sale, unfit_ledger.err and unfit_ledger or unfit_ledger[5] or {}, unfit_ledger[4] or 4) end
  if not stock_text then
    local is_sharded = rules.total and redis.call('HGET', KEYS[at + 2], 'shards')
    sale.status = rules.state == 'archived' and ENDED or is_sharded and SHARDED or NOT_PREHEATED
    return nil
  end
  sale.stock = whole(stock_text)
  if not sale.stock then return broken(sale, stock_text, 1) end
  -- Nothing is sold of it now, but its stock is reported, and compared with the total.
  if rules.state == 'paused' then
    local withdrawn, text = withdrawn_units(redis.call('HGET', KEYS[at + 2], 'withdrawn'))
    if text and not withdrawn then return broken(sale, text, 2) end
    sale.stock = sale.stock + (withdrawn or 0)
  end
  sale.left, sale.shut = sale.stock, closed(rules)
end

-- Reads what is known of the requests and the job of an activity. Returns a fault of the call itself, or what refuses it. A call
-- that was cut there is finished first, and the activity read anew.
local function read_requests(sale)
  local fields = {'\tbegun'}
  for i, name in ipairs(sale.names) do fields[i + 1] = name end
  if is_job then fields[#fields + 1] = '\tj:multi_deduct:' .. job end
  local found = redis.pcall('HMGET', KEYS[sale.at + 3], unpack(fields))
  if found.err then return broken(sale, found, 3) end
  sale.begun, sale.was_first = found[1], found[1] == 'first'
  if found[1] and not sale.was_first and mode ~= 'dry' and not sale.has_finished then
    sale.has_finished = true
    for n = 1, stride do own[n] = KEYS[sale.at + n] end
    local bad = finish_begun_of({kind = kind, op = 'deduct', users = sale.users}, found[1])
    if bad and not bad.err then return broken(sale, found[1], 3) end
    bad = bad or read_activity(sale)
    if bad or sale.status then return bad end
    return read_requests(sale)
  end
  for i, name in ipairs(sale.names) do sale.seen[name] = found[i + 1] end
  if not is_job then return nil end
  local record = found[#fields]
  if record then
    local line, refused, digest = string.match(record, '^(%d+) (%d+) (.*)$')
    line, refused = whole(line), whole(refused)
    if not line or not refused then return broken(sale, record, 3) end
    if digest ~= ARGV[6] then return {OTHER_JOB, sale.which} end
    sale.line, sale.refused = line, refused
  end
  local epoch = sale.rules.epoch and digits(sale.rules.epoch) or ''
  if sale.epoch ~= epoch then return {OTHER_EPOCH, sale.which, epoch} end
  if sale.before > sale.line and not sale.shut then return {GAP, sale.which, sale.line} end
end

-- Reads what the users of an activity hold. Returns a fault of the call itself.
local function read_held(sale)
  if kind == 'counter' then return nil end
  local at, users = sale.at, sale.users
  local held = redis.pcall(kind == 'hash' and 'HMGET' or 'SMISMEMBER', KEYS[at + 5], unpack(users))
  if held.err then return broken(sale, held, 5) end
  if kind ~= 'hash' then
    local units = {}
    if kind == 'set' then
      -- Also of users who are no members: a wrong type must not be met after the first write.
      units = redis.pcall('HMGET', KEYS[at + 6], unpack(users))
      if units.err then return broken(sale, units, 6) end
    end
    local alone = kind == 'set' and UNKNOWN or '1'
    for i in ipairs(users) do held[i] = held[i] == 1 and (units[i] or alone) end
  end
  local is_anybody_new = false
  for i, user in ipairs(users) do
    local text = held[i]
    if text then sale.now[user] = text == UNKNOWN and UNKNOWN or whole(text) or text else is_anybody_new = true end
  end
  sale.is_first = is_anybody_new and sale.rules.total and redis.call('EXISTS', KEYS[at + 5]) == 0
  if sale.is_first and sale.rules.total > sale.stock and not sale.was_first then
    return broken(sale, 'nothing, though units were sold', 5)
  end
end

for _, sale in ipairs(sales) do
  for _, item in ipairs(sale.items) do
    local user, request = item.order.user, item.order.request
    if request ~= '' and sale.seen[request] == nil then
      sale.seen[request], sale.names[#sale.names + 1] = false, request
    end
    if kind ~= 'counter' and sale.now[user] == nil then
      sale.now[user], sale.users[#sale.users + 1] = 0, user
    end
  end
  local fault = read_activity(sale)
  if not fault and not sale.status then fault = read_requests(sale) end
  if not fault and not sale.status then fault = read_held(sale) end
  if fault then return fault end
end

-- Why an item cannot be had, or nil.
local function refusal(item)
  local sale = item.sale
  if sale.status then return sale.status end
  local had = sale.now[item.order.user] or 0
  if type(had) == 'string' then return CORRUPT end
  if sale.shut then return sale.shut end
  if kind == 'hash' then
    if had + item.quantity > (sale.rules.limit or MOST_UNITS) then return LIMIT_EXCEEDED end
  elseif kind ~= 'counter' and (had > 0 or (kind == 'coupon' and item.quantity > 1)) then
    return LIMIT_EXCEEDED
  end
  if item.quantity > sale.left then return OUT_OF_STOCK end
end

-- What the request id of an order says: a status, or nil if it is new.
local function past(order)
  if order.request == '' then return nil end
  local known, refused, reversed = 0, false, false
  for _, item in ipairs(order.items) do
    local found = item.sale.seen[order.request]
    local status = found and settled(found, order.digest)
    if status == REQUEST_CONFLICT then return REQUEST_CONFLICT end
    if status == REPLAYED then known = known + 1 end
    refused = refused or status == REFUSED
    item.is_reversed = status == REVERSED
    reversed = reversed or item.is_reversed
  end
  if reversed then return REVERSED end
  if known == #order.items then return REPLAYED end
  if known > 0 then return REQUEST_CONFLICT end
  return refused and REFUSED or nil
end

-- Keeps under the request id of an order what became of it, if an activity is there.
local function keep(order, record)
  for _, item in ipairs(order.items) do
    local sale = item.sale
    if not sale.status then
      sale.kept[#sale.kept + 1], sale.kept[#sale.kept + 2] = order.request, record
      sale.seen[order.request] = record
    end
  end
end

-- Decides an order. Each of its items gets a status, and what is left then.
local function decide(order)
  local is_decided, is_open, is_refused = is_job, true, false
  for _, item in ipairs(order.items) do
    local sale = item.sale
    is_decided = is_decided and sale.line >= order.line
    is_open = is_open and not sale.status and not sale.shut
    item.status = refusal(item)
    is_refused = is_refused or item.status ~= nil
  end
  local before = past(order)
  if is_decided and before ~= REVERSED then before = REPLAYED end
  local status = before == REPLAYED and REPLAYED or (before or is_refused) and REFUSED or OK
  for _, item in ipairs(order.items) do
    local sale = item.sale
    if status ~= REFUSED then
      item.status = status
    elseif before == REVERSED and not sale.status then
      item.status = item.is_reversed and REVERSED or REFUSED
    elseif before == REQUEST_CONFLICT and item.status ~= NOT_PREHEATED and item.status ~= SHARDED and item.status ~= CORRUPT then
      item.status = REQUEST_CONFLICT
    else
      item.status = item.status or REFUSED
    end
    if status == OK then
      sale.left = sale.left - item.quantity
      if kind ~= 'counter' then sale.now[order.user] = sale.now[order.user] + item.quantity end
      sale.sold[#sale.sold + 1] = item
    elseif status == REFUSED and is_open and before ~= REVERSED then
      sale.refused = sale.refused + 1
    end
    item.left, item.bought = sale.left, sale.now[order.user]
  end
  -- A refusal of a retry is kept, because the first try, arriving late, could still do what was reported refused. A
  -- job's line settles its own retries.
  if order.request ~= '' and status == OK then
    keep(order, order.digest)
  elseif order.request ~= '' and status == REFUSED and mode == 'retry' and not is_job and not before then
    keep(order, digits(REFUSED) .. '\t' .. order.digest)
  end
  return status
end

local last
for _, order in ipairs(orders) do last = decide(order) end

-- The reply.
local LETTERS = {
  [OK] = 'o', [REPLAYED] = 'r', [REFUSED] = 'd', [LIMIT_EXCEEDED] = 'l', [OUT_OF_STOCK] = 's', [NOT_PREHEATED] = 't',
  [SHARDED] = 'k', [NOT_STARTED] = 'n', [ENDED] = 'e', [PAUSED] = 'p', [REQUEST_CONFLICT] = 'q', [CORRUPT] = 'c', [REVERSED] = 'b',
}
local function hex(text)
  if not text then return '-' end
  return (string.gsub(string.sub(text, 1, 64), '.', function(byte) return format('%02x', string.byte(byte)) end))
end
local function held_text(item)
  return not item.sale.status and type(item.bought) == 'number' and units_text(item.bought) or ''
end
-- What is corrupt of an item, `n,hex`.
local function corrupt_text(item)
  local sale = item.sale
  if sale.status then return sale.key .. ',' .. hex(sale.value) end
  return (sale.at + (kind == 'set' and 6 or 5)) .. ',' .. hex(item.bought)
end
local reply
if is_job then
  reply = {}
  for which, sale in ipairs(sales) do
    local letters, bought, corrupt = {}, {}, '-'
    for i, item in ipairs(sale.items) do
      letters[i], bought[i] = LETTERS[item.status], held_text(item)
      if bought[i] == '' then bought[i] = '0' end
      if item.status == CORRUPT and corrupt == '-' then corrupt = corrupt_text(item) end
    end
    local parts = {concat(letters), sale.stock and digits(sale.stock) or '-', digits(sale.refused), sale.status or sale.shut or 0, corrupt}
    if ARGV[7] == '1' then parts[6] = concat(bought, ' ') end
    reply[which] = concat(parts, ' ')
  end
else
  local parts = {last}
  for i, item in ipairs(orders[1].items) do
    if item.status == CORRUPT then
      parts[i + 1] = CORRUPT .. ',' .. corrupt_text(item)
    else
      parts[i + 1] = item.status .. ',' .. (item.left and digits(item.left) or '') .. ',' .. held_text(item)
    end
  end
  reply = concat(parts, ' ')
end
if mode == 'dry' then return reply end

-- The line of the job moves past all its items here, unless the activity refuses as a whole.
for _, sale in ipairs(sales) do
  local line = is_job and sale.lines[#sale.lines]
  if line and line > sale.line and not sale.status and not sale.shut then
    sale.kept[#sale.kept + 1] = '\tj:multi_deduct:' .. job
    sale.kept[#sale.kept + 1] = digits(line) .. ' ' .. digits(sale.refused) .. ' ' .. ARGV[6]
  end
end

-- The ledger's entry of what an activity sold: the columns of its items.
local function sold_entry(sale)
  local lines, quantities, users, requests, reasons, has_requests, has_reasons = {}, {}, {}, {}, {}, false, false
  for i, item in ipairs(sale.sold) do
    local order = item.order
    lines[i], quantities[i], users[i], requests[i], reasons[i] = digits(order.line), item.text, order.user, order.request, order.reason
    has_requests, has_reasons = has_requests or order.request ~= '', has_reasons or order.reason ~= ''
  end
  local row = entry('deduct', by, reason, digits(sale.left))
  local function put(name, text)
    row[#row + 1], row[#row + 2] = name, text
  end
  if is_job then
    put('job', job)
    put('lines', #sale.sold == #sale.items and ARGV[3 + sale.which * WIDTH] or concat(lines, ' '))
  end
  put('quantity', (not is_job or sale.quantity) and quantities[1] or column(quantities))
  put('users', column(users))
  if has_requests then put('requests', column(requests)) end
  if has_reasons then put('reasons', column(reasons)) end
  return row
end

-- Write: permissions, then all stocks, then the rest.
for _, sale in ipairs(sales) do
  local at = sale.at
  local writes = #sale.sold > 0 or #sale.kept > 0
  if writes and redis.acl_check_cmd and not redis.acl_check_cmd('HSET', KEYS[at + 3], 'f', 'v') then return forbidden('HSET') end
  if #sale.sold > 0 and redis.acl_check_cmd then
    local denied = not redis.acl_check_cmd('DECRBY', KEYS[at + 1], '1') and 'DECRBY'
      or sale.rules.ledger and not redis.acl_check_cmd('XADD', KEYS[at + 4], '*', 'f', 'v') and 'XADD'
      or kind == 'hash' and not redis.acl_check_cmd('HSET', KEYS[at + 5], 'f', 'v') and 'HSET'
      or (kind == 'set' or kind == 'coupon') and not redis.acl_check_cmd('SADD', KEYS[at + 5], 'm') and 'SADD'
      or kind == 'set' and not redis.acl_check_cmd('HSET', KEYS[at + 6], 'f', 'v') and 'HSET'
    if denied then return forbidden(denied) end
  end
end
for _, sale in ipairs(sales) do
  -- The first user is recorded behind a mark, if the caller may remove it.
  sale.marks = #sale.sold > 0 and (sale.was_first or sale.is_first and not sale.begun)
    and (not redis.acl_check_cmd or redis.acl_check_cmd('HDEL', KEYS[sale.at + 3], 'f'))
  if sale.marks then redis.call('HSET', KEYS[sale.at + 3], '\tbegun', 'first') end
end
for _, sale in ipairs(sales) do
  if #sale.sold > 0 then redis.call('DECRBY', KEYS[sale.at + 1], digits(sale.stock - sale.left)) end
end
for _, sale in ipairs(sales) do
  local at = sale.at
  if #sale.sold > 0 and kind ~= 'counter' then
    local units, users, is_listed = {}, {}, {}
    for _, item in ipairs(sale.sold) do
      local user = item.order.user
      if not is_listed[user] then
        is_listed[user], users[#users + 1] = true, user
        units[#units + 1], units[#units + 2] = user, digits(sale.now[user])
      end
    end
    if kind == 'hash' then redis.call('HSET', KEYS[at + 5], unpack(units)) end
    -- Units first: a member without them would be unknown.
    if kind == 'set' then redis.call('HSET', KEYS[at + 6], unpack(units)) end
    if kind ~= 'hash' then redis.call('SADD', KEYS[at + 5], unpack(users)) end
  end
  if sale.marks then redis.call('HDEL', KEYS[at + 3], '\tbegun') end
  if #sale.kept > 0 then redis.call('HSET', KEYS[at + 3], unpack(sale.kept)) end
  if #sale.sold > 0 and sale.rules.ledger then
    redis.call('XADD', KEYS[at + 4], '*', unpack(sold_entry(sale)))
  end
end
return reply
