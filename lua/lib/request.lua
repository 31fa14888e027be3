-- What is known of the request id. Reads request, mode and turn; sets known (false for a new one) and begun. A call that was cut is
-- finished first, unless this is a dry run, and everything is read anew.
local fields = redis.pcall('HMGET', KEYS[3], '\tbegun', request)
if fields.err then key, value = 3, fields break end
local begun, known = fields[1], request ~= '' and fields[2]
if begun and begun ~= 'first' and mode ~= 'dry' and turn == 1 then
  --- @if deduct
  if has_ledger then
    --- @include "last_id"
  end
  --- @end
  --- @use "values"
  --- @use "unfinished_call"
  local refusal = finish_begun({kind = KIND, op = 'SCRIPT', users = {user}}, begun)
  if refusal then return refusal end
  break
end
