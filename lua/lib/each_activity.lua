-- Orders of one activity, or of several, one after the other. Reads KEYS and ARGV, and sets them for each; calls `apply`; sets replies.
-- An error ends the call.
--- @if multi_deduct_file
--- @else
if #KEYS <= KEY_COUNT then return apply(KEYS, ARGV) end
--- @end
local keys, given, replies = KEYS, ARGV, {}
local activities = #keys / KEY_COUNT
local width = (#given - 8) / activities
if activities % 1 ~= 0 then return usage('OP: kind ' .. KIND .. ' has KEY_COUNT keys an activity, not ' .. #keys .. ' in all') end
if width ~= 5 and width ~= 6 and width ~= 7 then
  return usage('OP: 8 arguments, and 5 to 7 for each of ' .. digits(activities) .. ' activities are wanted, not ' .. #given)
end
local kind, by, job, digest, rows, reason, limit, distinct = unpack(given, 1, 8)
for which = 1, activities do
  local from = 8 + width * (which - 1)
  local epoch, before, lines, quantities, users, requests, reasons = unpack(given, from + 1, from + width)
  KEYS = {unpack(keys, KEY_COUNT * (which - 1) + 1, KEY_COUNT * which)}
  ARGV = {kind, by, users, quantities, job, digest, epoch, before, lines, requests or '', rows, reason, reasons or '', limit, '', distinct}
  local reply = apply(KEYS, ARGV)
  if type(reply) == 'table' and reply.err then return reply end
  replies[which] = reply
end
