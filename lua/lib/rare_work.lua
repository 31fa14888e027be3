-- What some holds must do before they are decided. Reads call: with `begun`, it finishes a call that was cut; with `is_short`, it
-- expires overdue holds and sets has_expired, or, in a dry run, counts the units that would return: returned_units, and returned, those
-- of users; otherwise it sets counted, the units held open by the holds themselves. All that this takes is defined here, because most
-- calls need none of it.
--- @use "values"
--- @use "meta"
--- @use "finish_begun"
--- @use "orders"
--- @use "holds"
--- @use "deadlines"
--- @use "give_back"
--- @use "overdue"
--- @if hold
if call.rules.ledger then
  --- @include "last_id"
end
--- @end
local refusal, allowed, overdue = deadlines_unfit(KIND), redis.acl_check_cmd, nil
if refusal then return refusal end
call.remove_deadlines = function(ids) remove_deadlines(KIND, ids) end
if call.begun then
  refusal = finish_begun(call, call.begun)
  if refusal then return refusal end
elseif call.is_short then
  local denied = not call.dry and allowed and (not allowed('DECRBY', KEYS[1], '1') and 'DECRBY' or may_not_give_back(call))
  --- @include "forbidden"
  overdue, refusal = find_overdue(call, call.now_ms, 16)
  if not overdue then return refusal end
  if call.dry then
    returned_units = overdue.units
    for _, hold in ipairs(overdue.holds) do returned[hold.user] = (returned[hold.user] or 0) + hold.quantity end
  else
    -- What is left for others is postponed by the step `expire` alone.
    give_back_overdue(call, overdue)
  end
  has_expired = true
else
  counted = count_open(call, {}) or call.holds
end
call = nil
