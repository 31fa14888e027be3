-- The state of a sale, as it is shown: ended, paused, upcoming, sold_out or live. The clock is read only if there is a window.
local function shown_state(state, rules, units)
  local now = (rules.starts or rules.ends) and unix_ms()
  local is_early = rules.starts and now < rules.starts
  if rules.ends and now >= rules.ends and not is_early then return 'ended' end
  if state == 'paused' then return 'paused' end
  return is_early and 'upcoming' or units == 0 and 'sold_out' or 'live'
end
