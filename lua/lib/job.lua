-- What is known of the request ids and of the job. Reads requests (of settle_file fields, those of holds), turn and the activity; sets
-- begun, found (what the request of order i is known by is found[i + 2]), line, the last one that the job decided, refused, how many it
-- refused so far, and decided, how many of these orders it decided before. A call that was cut is finished first, and everything is
-- read anew.
--- @let USERS = users
--- @if settle_file
--- @let USERS = nil
local field = '\tj:' .. step .. ':' .. ARGV[5]
local found = redis.pcall('HMGET', KEYS[3], '\tbegun', field, unpack(fields))
--- @else
local field, found = '\tj:OP:' .. ARGV[5], nil
if requests then
  found = redis.pcall('HMGET', KEYS[3], '\tbegun', field, unpack(requests))
else
  found = redis.pcall('HMGET', KEYS[3], '\tbegun', field)
end
--- @end
if found.err then key, value = 3, found break end
local begun, record = found[1], found[2]
if begun and begun ~= 'first' and turn == 1 then
  --- @if hold_file
  --- @include "rare_call"
  call.begun = begun
  --- @else
  --- @use "unfinished_call"
  local refusal = finish_begun({kind = KIND, op = 'OP', users = USERS}, begun)
  if refusal then return refusal end
  --- @end
  break
end
local line, refused, decided = 0, 0, 0
if record then
  local line_text, refused_text, digest = string.match(record, '^(%d+) (%d+) (.*)$')
  line, refused = whole(line_text), whole(refused_text)
  if not (line and refused) then key, value = 3, record break end
  if digest ~= ARGV[6] then return {OTHER_JOB} end
end
local epoch = total and string.match(rules, '^%l+ %d (%d+)') or ''
if epoch ~= ARGV[7] then return {OTHER_EPOCH, epoch} end
while decided < count and (lines and lines[decided + 1] or first + decided) <= line do decided = decided + 1 end
