-- How the orders of a call come in, for deduct and refund.

-- HMGET and HSET take two values an order, and unpack fails near 8,000.
local MOST_ORDERS = 2000

-- The lines of so many orders, in rising order, or nil: `first-last` where they follow each other, else each of them.
local function read_lines(text, count)
  local lines = {}
  local first, last = string.match(text or '', '^(%d+)%-(%d+)$')
  if first then
    first, last = whole(first), whole(last)
    if not (first and last) or last - first + 1 ~= count then return nil end
    for i = 1, count do lines[i] = first + i - 1 end
    return lines
  end
  for line in string.gmatch(text or '', '[^ ]+') do
    line = whole(line)
    if not line or line <= (lines[#lines] or 0) then return nil end
    lines[#lines + 1] = line
  end
  return #lines == count and lines or nil
end

-- Reads the arguments of a call. Returns a table of all that is in them, or nil and a usage error.
local function read_call(op)
  local kind, mode, count, job = ARGV[1], ARGV[5], whole(ARGV[6]), ARGV[7]
  if not KEYS_OF[kind] then return nil, usage(op .. ': ARGV[1] is not hash, set, coupon or counter') end
  if #KEYS ~= KEYS_OF[kind] then return nil, usage(op .. ': kind ' .. kind .. ' has ' .. KEYS_OF[kind] .. ' keys, not ' .. #KEYS) end
  if mode ~= 'first' and mode ~= 'retry' and mode ~= 'dry' then return nil, usage(op .. ': ARGV[5] is not first, retry or dry') end
  if not count or count < 1 then return nil, usage(op .. ': ARGV[6] is not a number of orders') end
  if count > MOST_ORDERS then return nil, usage(op .. ': more than ' .. MOST_ORDERS .. ' orders in one call') end
  local call = {op = op, kind = kind, by = ARGV[2], reason = ARGV[3], dry = mode == 'dry', retry = mode == 'retry', count = count}
  local at, common = 8, ''
  if job and job ~= '' then
    call.job, call.digest, call.epoch, call.rows = job, ARGV[8], ARGV[9], ARGV[12] == '1'
    call.before, call.lines, common, at = whole(ARGV[10]), read_lines(ARGV[11], count), ARGV[13], 14
    if not (call.before and call.lines) then return nil, usage(op .. ': lines of the job') end
  end
  -- What the orders have, a column after the other.
  local columns = (#ARGV - at + 1) / count + (common == '' and 0 or 1)
  if columns ~= 2 and columns ~= 3 and columns ~= 4 then return nil, usage(op .. ': the orders are not complete') end
  local function column()
    at = at + count
    return {unpack(ARGV, at - count, at - 1)}
  end
  local users = column()
  local texts = common == '' and column() or {unpack(users)}
  if common ~= '' then
    for i = 1, count do texts[i] = common end
  end
  local requests, reasons = columns > 2 and column() or nil, columns > 3 and column() or nil
  -- One look at all ids of a call at once: nearly none holds anything that needs a closer one.
  call.plain = find(concat(users), '^[^%c%s"\\\127]*$')
  local plain, userless = call.plain, kind == 'counter'
  for i = 1, count do
    local user = users[i]
    if not (plain and user ~= '' and #user <= 256) and not is_user(user) and not (userless and user == '') then
      return nil, usage(op .. ': user id of order ' .. i)
    end
  end
  if requests then
    call.plain_requests = find(concat(requests), '^[ !#-Z%[%]^-~]*$')
    for i = 1, count do
      local request = requests[i]
      if request ~= '' and not (call.plain_requests and #request <= 128) and not is_request(request) then
        return nil, usage(op .. ': request id of order ' .. i)
      end
    end
  end
  call.users, call.texts, call.requests, call.reasons = users, texts, requests, reasons
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
