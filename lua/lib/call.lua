-- The arguments of deduct and refund: one order, or the columns of many.

-- HMGET and HSET take two values an order, and unpack fails near 8,000.
local MOST_ORDERS = 2000

-- The arguments of many orders, from ARGV[3] on. Returns nil, or a usage error.
local function read_columns(call)
  local op = call.op
  call.users = read_column(ARGV[3])
  call.count = call.users and #call.users
  if not call.users or call.count < 1 then return usage(op .. ': ARGV[3] is not an array of users') end
  if call.count > MOST_ORDERS then return usage(op .. ': more than ' .. MOST_ORDERS .. ' orders in one call') end
  call.texts = find(ARGV[4], '[', 1, true) == 1 and read_column(ARGV[4])
  if not call.texts then
    call.common, call.texts = ARGV[4], {}
    for i = 1, call.count do call.texts[i] = ARGV[4] end
  end
  if #call.texts ~= call.count then return usage(op .. ': ARGV[4] is not as many quantities as users') end
  local requests, reasons = ARGV[10] or '', ARGV[13] or ''
  if requests ~= '' then call.requests = read_column(requests) end
  if requests ~= '' and #(call.requests or {}) ~= call.count then return usage(op .. ': ARGV[10] is not an array of as many requests as users') end
  if reasons ~= '' then call.reasons = read_column(reasons) end
  if reasons ~= '' and #(call.reasons or {}) ~= call.count then return usage(op .. ': ARGV[13] is not an array of as many reasons as users') end
  call.rows, call.reason, call.extra, call.mode = ARGV[11] == '1', ARGV[12] or '', ARGV[14] or '', ARGV[15] or 'first'
  if ARGV[5] == '' then return nil end
  call.job, call.digest, call.epoch = ARGV[5], ARGV[6], ARGV[7]
  call.before, call.lines = whole(ARGV[8]), read_lines(ARGV[9], call.count)
  if not (call.before and call.lines) then return usage(op .. ': lines of the job') end
end

-- Reads the arguments of a call. Returns a table of all that is in them, or nil and a usage error.
local function read_call(op)
  local kind = ARGV[1]
  if not KEYS_OF[kind] then return nil, usage(op .. ': ARGV[1] is not hash, set, coupon or counter') end
  if #KEYS ~= KEYS_OF[kind] then return nil, usage(op .. ': kind ' .. kind .. ' has ' .. KEYS_OF[kind] .. ' keys, not ' .. #KEYS) end
  if #ARGV < 5 then return nil, usage(op .. ': at least 5 arguments are wanted, not ' .. #ARGV) end
  if #ARGV > 15 then return nil, usage(op .. ': more than 15 arguments') end
  local call = {op = op, kind = kind, by = ARGV[2], single = #ARGV < 9 or op == 'hold' and #ARGV == 11}
  if call.single then
    call.count, call.users, call.texts, call.common = 1, {ARGV[3]}, {ARGV[4]}, ARGV[4]
    if ARGV[5] ~= '' then call.requests = {ARGV[5]} end
    call.mode, call.reason, call.extra = ARGV[6] or 'first', ARGV[7] or '', ARGV[8] or ''
  else
    local wrong = read_columns(call)
    if wrong then return nil, wrong end
  end
  local mode = call.mode
  local borrows = mode == 'borrow' and op ~= 'refund'
  if mode ~= 'first' and mode ~= 'retry' and mode ~= 'dry' and not borrows then
    return nil, usage(op .. ': the mode is not first, retry' .. (op == 'refund' and '' or ', borrow') .. ' or dry')
  end
  call.dry, call.retry, call.borrows = mode == 'dry', mode == 'retry' or borrows, borrows
  for i = 1, call.count do
    local user, request = call.users[i], call.requests and call.requests[i] or ''
    if not is_user(user) and not (kind == 'counter' and user == '') then return nil, usage(op .. ': user id of order ' .. i) end
    if request ~= '' and not is_request(request) then return nil, usage(op .. ': request id of order ' .. i) end
  end
  return call
end

-- The quantities of a call as numbers, each within the bounds of an order, or nil and the number of the one that is not.
-- `word` is a text that may stand for a quantity.
local function read_quantities(call, word)
  local quantities = {}
  for i = 1, call.count do
    local text = call.texts[i]
    local number = text == word and word or whole(text)
    if not number or (number ~= word and (number < 1 or number > MOST_QUANTITY)) then return nil, i end
    quantities[i] = number
  end
  return quantities
end
