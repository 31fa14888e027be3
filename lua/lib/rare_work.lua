-- What some calls must do before they are decided. Reads call: with `begun`, it finishes a call that was cut. Otherwise hold expires
-- overdue holds and sets has_expired, and in a dry run returned_units, which would return, and returned_to, those of users; settle gives
-- back what call has as `returns`, or replies to the steps expire and recount. All that this takes is defined here, because most calls
-- need none of it.
--- @use "unfinished_call"
--- @if settle
if call.returns then
  local denied = may_not_return(KIND, call.withdrawn, call.returns)
  --- @include "forbidden"
  give_units_back(call, call.returns)
  return call.reply
end
--- @end
--- @if hold
if call.rules.ledger then
  --- @include "last_id"
end
--- @include "deadlines"
--- @end
if call.begun then
  local refusal = finish_begun(call, call.begun)
  if refusal then return refusal end
else
  --- @use "entry_fields"
  --- @use "holds"
  --- @if settle
  if step == 'recount' then
    --- @include "recount"
  end
  local clock = redis.call('TIME')
  local now_ms = clock[1] * 1000 + math.floor(clock[2] / 1000)
  --- @let NOW = now_ms
  --- @let MOST = digits(most)
  --- @include "expire_holds"
  -- Those that only their order or an audit can decide are left alone for 5 seconds, so that they do not hold up the others.
  local later = {}
  for i = 1, #left do later[2 * i - 1], later[2 * i] = digits(now_ms + 5000), left[i][1] end
  if #left > 0 and not call.dry then redis.call('ZADD', KEYS[DEADLINES], unpack(later)) end
  local answer = {OK, digits(call.stock + moved), #holds, digits(moved), #ids == most and 1 or 0}
  for i = 1, #left do answer[4 + 2 * i], answer[5 + 2 * i] = left[i][1], left[i][2] end
  return answer
  --- @else
  --- @let NOW = call.now_ms
  --- @let MOST = '16'
  --- @include "expire_holds"
  -- What is left for others is postponed by the step `expire` alone.
  --- @if hold
  if call.dry then returned_units, returned_to = moved, returned end
  --- @end
  has_expired = true
  --- @end
end
call = nil
