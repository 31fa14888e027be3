-- Units that the users hold open, none if nobody does: sets open, false of a user who holds none, and open_fields, where they are.
local open_fields, open = {unpack(users)}, {}
--- @if hold_file
for i = 1, count do open_fields[i] = '\to:' .. users[i] end
--- @end
if holds > 0 then
  --- @if refund_file
  for i = 1, count do open_fields[i] = '\to:' .. users[i] end
  --- @end
  open = redis.pcall('HMGET', KEYS[3], unpack(open_fields))
  if open.err then key, value = 3, open break end
  for i = 1, count do
    local text = open[i]
    if text then
      open[i] = whole(text)
      if not open[i] then key, value = 3, text break end
    end
  end
  if key then break end
end
