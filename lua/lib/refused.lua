-- Refuses the order if there is a status. A refusal is kept only of a retry, because the first try, arriving late, could still do
-- what was reported refused; none of a stock that another shard may fill.
if status then
  if request ~= '' and (mode == 'retry' or mode == 'borrow' and status ~= OUT_OF_STOCK) then
    redis.call('HSET', KEYS[3], request, status .. '\t' .. digest)
  end
  return {status, stock, SHOWN}
end
