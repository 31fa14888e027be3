-- What has a deadline and is not held was ended by a call that was cut: the counters may lack that. Its deadline may be later than
-- that of its record, if the step expire left it for others. Reads late, holds that are not open: {id, record}. If there are such
-- holds, it calls the rare work, and breaks.
local late_ids = {}
for i, hold in ipairs(late) do late_ids[i] = hold[1] end
local scores, is_seen = redis.call('ZMSCORE', KEYS[DEADLINES], unpack(late_ids)), {}
for i, hold in ipairs(late) do
  if scores[i] and not is_seen[hold[1]] then
    if not call then
      --- @include "rare_call"
      call.stale, call.records = {}, {}
    end
    is_seen[hold[1]] = true
    call.stale[#call.stale + 1], call.records[#call.records + 1] = hold[1], hold[2]
  end
end
if call then break end
