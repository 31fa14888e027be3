-- What some calls must do before they are decided. Reads call: with `begun`, it finishes a call that was cut; with `is_stale`, one that
-- ended or began holds, and sets has_finished. Of hold: with `is_short`, it expires overdue holds and sets has_expired, and in a dry run
-- returned_units, which would return, and returned_to, those of users. Of settle: with `returns`, it gives those units back and replies;
-- otherwise it replies to the steps expire and recount. All that this takes is defined here, because most calls need none of it.
--- @use "values"
--- @use "begun"
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
  --- @use "holds"
  --- @use "recount"
  --- @if settle
  if step == 'recount' then
    local answer = {OK, digits(call.stock), digits(call.holds), false}
    if #redis.call('ZRANGEBYSCORE', KEYS[DEADLINES], '-inf', '+inf', 'LIMIT', digits(most), '1') > 0 then return answer end
    local units, counted = recount(call)
    if not units then return units == nil and unfit(counted, 3) or counted end
    answer[4] = digits(units)
    for i = 1, #counted do answer[4 + i] = counted[i] end
    return answer
  elseif most then
    local clock = redis.call('TIME')
    local now_ms = clock[1] * 1000 + math.floor(clock[2] / 1000)
    --- @let NOW = now_ms
    --- @let MOST = digits(most)
    --- @include "overdue"
    if not call.dry and #ids > 0 then
      local denied = may_not_end(call)
      --- @include "forbidden"
      -- Those that only somebody else can decide are left alone for 5 seconds, so that they do not hold up the others.
      local later = {}
      for i = 1, #left do later[2 * i - 1], later[2 * i] = digits(now_ms + 5000), left[i][1] end
      if #left > 0 then redis.call('ZADD', KEYS[DEADLINES], unpack(later)) end
      if #holds > 0 then give_units_back(call, it) end
    end
    local answer = {OK, digits(call.stock + moved), #holds, digits(moved), #ids == most and 1 or 0}
    for i = 1, #left do answer[4 + 2 * i], answer[5 + 2 * i] = left[i][1], left[i][2] end
    return answer
  end
  --- @end
  --- @if hold hold_file
  if call.is_short then
    local allowed = redis.acl_check_cmd
    local denied = not call.dry and (may_not_end(call) or allowed and not allowed('DECRBY', KEYS[1], '1') and 'DECRBY')
    --- @include "forbidden"
    --- @let NOW = call.now_ms
    --- @let MOST = '16'
    --- @include "overdue"
    -- What is left for others is postponed by the step `expire` alone.
    if call.dry then
      returned_units, returned_to = moved, returned
    elseif #holds > 0 then
      give_units_back(call, it)
    end
    has_expired = true
  end
  --- @end
  if call.is_stale then
    local units, refusal = recount(call)
    if units == false then return refusal end
    has_finished = true
  end
end
call = nil
