-- What has a deadline and is not held was ended by a call that was cut: the counters may lack that. Reads late, holds that are
-- not open: {id, deadline, record}. If there are such holds, it calls the rare work, and breaks.
local of_deadline = {}
for _, hold in ipairs(late) do
  local id, deadline = hold[1], hold[2]
  if not of_deadline[deadline] then
    of_deadline[deadline] = {}
    for _, its_id in ipairs(redis.call('ZRANGEBYSCORE', KEYS[DEADLINES], deadline, deadline)) do of_deadline[deadline][its_id] = true end
  end
  if of_deadline[deadline][id] then
    if not call then
      --- @include "rare_call"
      call.stale, call.records = {}, {}
    end
    of_deadline[deadline][id] = nil
    call.stale[#call.stale + 1], call.records[#call.records + 1] = id, hold[3]
  end
end
if call then break end
