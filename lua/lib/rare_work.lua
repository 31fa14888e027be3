-- What some calls must do before they are decided. Reads call: with `begun`, it finishes a call that was cut. Of hold: with
-- `is_short`, it expires overdue holds and sets has_expired, or, in a dry run, counts the units that would return: returned_units,
-- and returned, those of users; otherwise it sets counted, the units held open by the holds themselves. Of settle: with `stale`, ids
-- that have a deadline and are not held, it finishes the calls that ended them and sets has_finished; with `returns`, it gives those
-- units back and replies; otherwise it replies to the steps expire and recount. All that this takes is defined here, because most
-- calls need none of it.
--- @use "values"
--- @use "finish_begun"
--- @use "deadlines"
call.remove_deadlines = remove_deadlines
--- @if settle
if call.returns then
  local allowed = redis.acl_check_cmd
  local denied = may_not_return(KIND, call.withdrawn, call.returns)
    or allowed and not allowed('ZREM', KEYS[DEADLINES], 'm') and 'ZREM'
  --- @include "forbidden"
  give_units_back(call, call.returns)
  return call.reply
end
--- @end
--- @use "meta"
--- @use "orders"
--- @use "holds"
--- @use "give_back"
--- @if hold hold_file settle
--- @use "overdue"
--- @end
--- @if settle
--- @use "recount"
--- @end
--- @if hold
if call.rules.ledger then
  --- @include "last_id"
end
--- @end
local refusal = deadlines_unfit()
if refusal then return refusal end
if call.begun then
  refusal = finish_begun(call, call.begun)
  if refusal then return refusal end
--- @if settle settle_file
elseif call.stale then
  local denied = may_not_give_back(call)
  --- @include "forbidden"
  for i, record in ipairs(call.records) do call.records[i] = parse_hold(record) end
  finish(call, call.stale, call.records)
  has_finished = true
--- @end
--- @if settle
elseif step == 'recount' then
  return recount(call, most)
else
  local clock = redis.call('TIME')
  local now_ms = clock[1] * 1000 + math.floor(clock[2] / 1000)
  local overdue, why = find_overdue(call, now_ms, most)
  if not overdue then return why end
  local denied = not call.dry and overdue.examined > 0 and may_not_give_back(call)
  --- @include "forbidden"
  if not call.dry then
    postpone(call, overdue, now_ms)
    give_back_overdue(call, overdue)
  end
  local has_more = overdue.examined == most and 1 or 0
  local answer = {OK, digits(call.stock + overdue.units), #overdue.ids, digits(overdue.units), has_more}
  for i = 1, #overdue.left do answer[4 + 2 * i], answer[5 + 2 * i] = overdue.left[i], overdue.orders[i] end
  return answer
--- @end
--- @if hold hold_file
elseif call.is_short then
  local allowed = redis.acl_check_cmd
  local denied = not call.dry and allowed and (not allowed('DECRBY', KEYS[1], '1') and 'DECRBY' or may_not_give_back(call))
  --- @include "forbidden"
  local overdue, why = find_overdue(call, call.now_ms, 16)
  if not overdue then return why end
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
--- @end
end
call = nil
