-- What becomes of an order of several activities. Reads items: of each why it alone cannot be had (status), whether that is so of all
-- orders (is_whole), what its request id says (was), and whether the job decided it (is_decided). Sets status, ok, replayed or refused,
-- was, what the request id says of the whole order, and the status of each item.
local is_decided, known, status, was = true, 0, OK, nil
for _, item in ipairs(items) do
  is_decided = is_decided and item.is_decided
  if item.was == REPLAYED then known = known + 1 end
  -- What it was used for otherwise outweighs what a repair took back, and that a refusal.
  if item.was and item.was ~= REPLAYED and (not was or item.was == REQUEST_CONFLICT or was == REFUSED) then was = item.was end
  if item.status then status = REFUSED end
end
if not was or was == REFUSED then was = known == #items and REPLAYED or known > 0 and REQUEST_CONFLICT or was end
if is_decided and was ~= REVERSED then was = REPLAYED end
if was then status = was == REPLAYED and REPLAYED or REFUSED end
for _, item in ipairs(items) do
  if status ~= REFUSED then
    item.status = status
  elseif was == REVERSED and not item.is_whole then
    item.status = item.was or REFUSED
  elseif was == REQUEST_CONFLICT and not (item.status == NOT_PREHEATED or item.status == SHARDED or item.status == CORRUPT) then
    item.status = REQUEST_CONFLICT
  end
  item.status = item.status or REFUSED
end
