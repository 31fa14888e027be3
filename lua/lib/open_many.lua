-- Units that users hold open: sets holds, those of all; open, of each user of ASKED, the first COUNT; and open_fields, where they are.
local holds_text = redis.call('HGET', KEYS[3], '\tholds')
local holds = whole(holds_text or '0')
if not holds then key, value = 3, holds_text break end
local open_fields, open = {unpack(ASKED)}, {}
--- @if refund_file
if holds > 0 then
--- @end
  for i = 1, COUNT do open_fields[i] = '\to:' .. ASKED[i] end
--- @if refund_file
end
--- @end
-- Nobody has units open if nobody holds any.
if holds > 0 and COUNT > 0 then open = redis.call('HMGET', KEYS[3], unpack(open_fields, 1, COUNT)) end
for i = 1, #open do
  local units = open[i] == '1' and 1 or whole(open[i] or '0')
  if not units then key, value = 3, open[i] break end
  open[i] = units
end
if key then break end
