-- What a request id that is known says of a hold. Reads known, digest and record, that of the hold (false: there is none); sets
-- status, and its_deadline, as text, if the units are held or were confirmed.
local hold_state, hold_units, hold_deadline = string.match(record or '', '^(%l+) (%d+) (%d+) %S+ .*$')
if hold_state == 'held' or hold_state == 'confirmed' then status = REPLAYED
elseif hold_state == 'released' then status = NOT_HELD
elseif hold_state == 'expired' or hold_state == 'void' then status = EXPIRED end
if record and not (status and whole(hold_units) and whole(hold_deadline)) then key, value = 3, record break end
if known ~= digest or not record then
  -- An `abort` of an unknown order used the id up, so that a late hold of it is refused.
  if hold_state ~= 'void' or known ~= 'void\t' then
    local code, rest = string.match(known, '^(%-%d+)\t(.*)$')
    status = known == digest and REPLAYED or rest == digest and tonumber(code) or REQUEST_CONFLICT
  end
elseif status == REPLAYED then
  its_deadline = hold_deadline
end
