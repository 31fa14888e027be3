-- One order. Reads KEYS and ARGV; sets by, user, quantity, request, mode and reason. What is
-- damaged sets key, the number of a key, and value, what it holds.
--- @use "key_count"
--- @let SHOWN = had
--- @let SHOWN_AFTER = units
--- @if hash
--- @let SHOWN_AFTER = had + units
--- @end
--- @let PLAIN = '^%w+$'
--- @if counter
--- @let PLAIN = '^%w*$'
--- @let SHOWN = false
--- @let SHOWN_AFTER = false
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
-- Most user ids need no closer look.
elseif #user > 256 or not find(user, PLAIN) and not find(user, '^%f[^%s%c][^%c]*[^%s%c]$') then
  wrong = 'user id of order 1'
elseif #request > 128 or not find(request, '^[ -~]*$') then wrong = 'request id of order 1' end
if wrong then return redis.error_reply('USAGE SCRIPT: ' .. wrong) end
