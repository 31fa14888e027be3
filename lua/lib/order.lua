-- One order. Reads KEYS and ARGV; sets by, user, quantity, request, mode and reason. What is
-- damaged sets key, the number of a key, and value, what it holds.
--- @let KEY_COUNT = 5
--- @if set
--- @let KEY_COUNT = 6
--- @end
--- @if counter
--- @let KEY_COUNT = 4
--- @end
--- @if hold
--- @let KEY_COUNT = 6
--- @if set
--- @let KEY_COUNT = 7
--- @end
--- @end
local KEYS, ARGV, redis = KEYS, ARGV, redis
local by, user, quantity, request, mode, reason = ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6] or 'first', ARGV[7] or ''
local key, value, wrong
if ARGV[1] ~= KIND then wrong = 'ARGV[1] is not ' .. KIND .. ', the kind of this script'
elseif #KEYS ~= KEY_COUNT then wrong = 'kind ' .. KIND .. ' has KEY_COUNT keys, not ' .. #KEYS
--- @if hold
elseif #ARGV ~= 8 and #ARGV ~= 11 then wrong = '8 or 11 arguments are wanted, not ' .. #ARGV
--- @else
elseif not request or #ARGV > 8 then wrong = '5 to 8 arguments are wanted, not ' .. #ARGV
--- @end
--- @if deduct hold
elseif mode ~= 'first' and mode ~= 'retry' and mode ~= 'borrow' and mode ~= 'dry' then wrong = 'the mode is not first, retry, borrow or dry'
--- @else
elseif mode ~= 'first' and mode ~= 'retry' and mode ~= 'dry' then wrong = 'the mode is not first, retry or dry'
--- @end
elseif #user > 256 then wrong = 'user id of order 1'
elseif #request > 128 then wrong = 'request id of order 1' end
if wrong then return redis.error_reply('USAGE SCRIPT: ' .. wrong) end
-- As the ledger has them: texts of JSON, never numbers. Most ids need no closer look.
local users, requests = '["' .. user .. '"]', '["' .. request .. '"]'
if not find(user, '^%w+$') then
  --- @if counter
  if user ~= '' and not find(user, '^%f[^%s%c][^%c]*[^%s%c]$') then return redis.error_reply('USAGE SCRIPT: user id of order 1') end
  --- @else
  if not find(user, '^%f[^%s%c][^%c]*[^%s%c]$') then return redis.error_reply('USAGE SCRIPT: user id of order 1') end
  --- @end
  if find(user, '["\\]') then users = '[' .. cjson.encode(user) .. ']' end
end
if not find(request, '^[#-Z^-~]*$') then
  if not find(request, '^[ -~]*$') then return redis.error_reply('USAGE SCRIPT: request id of order 1') end
  if find(request, '["\\]') then requests = '[' .. cjson.encode(request) .. ']' end
end
