-- Orders of a file, as columns. Reads KEYS and ARGV; sets by, borrows, reason, count; users, requests and reasons (nil: no order has
-- one); quantities (nil: common is that of all) and amounts, units by the text of a quantity; before, lines (nil: they follow each
-- other) and first, the first of them; shows, whether the reply says what users hold; repeats, whether a user or a request id may
-- come twice. Of settle_file there are no users and quantities, but step, owners, whose the holds are (nil: anybody's), and fields,
-- those of the holds. What is damaged sets key, the number of a key, and value, what it holds.
--- @use "key_count"
local by, borrows, reason, key, value = ARGV[2], ARGV[15] == 'borrow', ARGV[12] or '', nil, nil
if #ARGV < 9 then return usage('OP: at least 9 arguments are wanted, not ' .. #ARGV) end
if ARGV[1] ~= KIND then return usage('OP: ARGV[1] is not ' .. KIND .. ', the kind of this script') end
if #KEYS ~= KEY_COUNT then return usage('OP: kind ' .. KIND .. ' has KEY_COUNT keys, not ' .. #KEYS) end
if #ARGV > 16 then return usage('OP: more than 16 arguments') end
--- @if settle_file
-- Ids of holds; whose they are, if that is given, and what is done.
local requests = read_column(ARGV[3])
local count = #requests
if count > 1000 then return usage('OP: more than 1000 holds in one call') end
local owners, step, reasons = nil, ARGV[4], nil
if (ARGV[10] or '') ~= '' then
  owners = read_column(ARGV[10])
  if #owners ~= count then return usage('OP: ARGV[10] has not as many users as request ids') end
end
if step ~= 'confirm' and step ~= 'release' then return usage('OP: ARGV[4] is not confirm or release') end
--- @else
-- Nearly always one look at a column is enough for all its texts.
local users, longest_user, are_graphic = read_column(ARGV[3], '[!-~\128-\255]')
local count = #users
-- HMGET and HSET take two values an order, and unpack fails near 8,000.
if count > 2000 then return usage('OP: more than 2000 orders in one call') end
local quantities, requests, reasons, longest_request, are_plain
if find(ARGV[4], '\t', 1, true) then quantities = read_column(ARGV[4]) end
if quantities and #quantities ~= count then return usage('OP: ARGV[4] has not as many quantities as users') end
if (ARGV[10] or '') ~= '' then
  requests, longest_request, are_plain = read_column(ARGV[10], '[ -~]')
  if #requests ~= count then return usage('OP: ARGV[10] has not as many requests as users') end
end
--- @end
if (ARGV[13] or '') ~= '' then
  reasons = read_column(ARGV[13])
  if #reasons ~= count then return usage('OP: ARGV[13] has not as many reasons as users') end
end
local before, lines, first, last = whole(ARGV[8]), nil, string.match(ARGV[9], '^(%d+)%-(%d+)$')
first, last = whole(first), whole(last)
if not first then lines = read_lines(ARGV[9], count) end
if ARGV[5] == '' then return usage('OP: the job has no name') end
if not before or not lines and not (last and last - first + 1 == count) then return usage('OP: lines of the job') end
if not borrows and (ARGV[15] or '') ~= '' then return usage('OP: ARGV[15] is not borrow') end
local shows, repeats = ARGV[11] == '1', ARGV[16] ~= '1'

--- @if settle_file
-- Nearly always a look at the column is enough for all its texts, but for their length.
local are_plain = find(ARGV[3], '^[!-~\t]*$') and not find('\t' .. ARGV[3] .. '\t', '\t\t', 1, true)
local fields = {unpack(requests)}
for i = 1, count do
  local request = requests[i]
  if (not are_plain or #request > 128) and not is_request(request) then return usage('OP: request id of order ' .. i) end
  fields[i] = '\th:' .. request
end
--- @else
--- @if hash set coupon
are_graphic = are_graphic and not find('\t' .. ARGV[3] .. '\t', '\t\t', 1, true)
--- @end
local are_users, are_requests = are_graphic and longest_user <= 256, not requests or are_plain and longest_request <= 128
if not (are_users and are_requests) then
  for i = 1, count do
    local user, request = users[i], requests and requests[i] or ''
    --- @if counter
    if not are_users and user ~= '' and not is_user(user) then return usage('OP: user id of order ' .. i) end
    --- @else
    if not are_users and not is_user(user) then return usage('OP: user id of order ' .. i) end
    --- @end
    if not are_requests and request ~= '' and not is_request(request) then return usage('OP: request id of order ' .. i) end
  end
end
local common, amounts = ARGV[4], {}
for i = 1, quantities and count or 1 do
  if quantities then common = quantities[i] end
  if not amounts[common] then
    local units = whole(common)
    --- @if refund_file
    if common == 'all' then units = 0 end
    --- @if counter
    if common == 'all' then return usage('OP: all, but no user is recorded') end
    --- @end
    --- @end
    if not units or units < 1 and common ~= 'all' or units > MOST_QUANTITY then return usage('OP: quantity of order ' .. i) end
    amounts[common] = units
  end
end
--- @end
