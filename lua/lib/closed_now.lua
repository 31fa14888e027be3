-- Why nobody may buy now, or nil: sets shut. Reads the activity. The clock is the server's, read only if there is a window.
local shut = state == 'paused' and PAUSED or nil
if not shut and (starts or ends) then
  local clock = redis.call('TIME')
  local clock_ms = clock[1] * 1000 + math.floor(clock[2] / 1000)
  shut = starts and clock_ms < starts and NOT_STARTED or ends and clock_ms >= ends and ENDED or nil
end
