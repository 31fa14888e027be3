-- The lean path of deduct: one order of kind hash, tried for the first time, that nothing stands against. It comes
-- before all helpers, which cost more than the order itself to define. It decides ok, limit_exceeded and
-- out_of_stock; whatever else it meets, it has written nothing and leaves the order to the general path below.
if ARGV[1] == 'hash' and ARGV[5] == 'first' and ARGV[6] == '3' and ARGV[7] == '' and #ARGV == 10 and #KEYS == 5 then
  local find, by, user, quantity_text, request = string.find, ARGV[2], ARGV[8], ARGV[9], ARGV[10]
  local quantity = #quantity_text < 10 and find(quantity_text, '^[1-9]%d*$') and tonumber(quantity_text)
  local plain = quantity and by ~= '' and ARGV[3] == '' and #user <= 256 and #request <= 128
    and find(user, '^[^%s%c"\\\127][^%c"\\\127]*$') and not find(user, '%s$') and find(request, '^[%w._:-]+$')
  local stock_text = plain and redis.pcall('GET', KEYS[1])
  -- Up to 15 digits, so that no sum comes near 2^53.
  local stock = type(stock_text) == 'string' and #stock_text < 16 and (stock_text == '0' or find(stock_text, '^[1-9]%d*$'))
    and tonumber(stock_text)
  if stock then
    local meta = redis.pcall('HMGET', KEYS[2], 'total', 'per_user_limit', 'starts_at', 'ends_at', 'state', 'ledger', 'epoch')
    local total_text, limit_text, epoch = meta[1], meta[2], meta[7]
    local total = total_text and #total_text < 16 and find(total_text, '^[1-9]%d*$') and tonumber(total_text)
    local limit = limit_text and #limit_text < 16 and find(limit_text, '^[1-9]%d*$') and tonumber(limit_text)
    if total and (limit or limit_text == false) and meta[3] == false and meta[4] == false and meta[5] == 'live'
      and meta[6] == '1' and epoch and find(epoch, '^[1-9]%d*$') and #epoch < 16
      and redis.pcall('TYPE', KEYS[4]).ok == 'stream' and redis.pcall('HGET', KEYS[3], 'r:' .. request) == false then
      local had_text = redis.pcall('HGET', KEYS[5], user)
      local had = 0
      if had_text then
        had = type(had_text) == 'string' and #had_text < 16 and find(had_text, '^[1-9]%d*$') and tonumber(had_text)
      elseif total > stock and redis.pcall('EXISTS', KEYS[5]) ~= 1 then
        had = false
      end
      if had then
        if limit and had + quantity > limit then return {-2, stock, had} end
        if quantity > stock then return {-3, stock, had} end
        if not redis.acl_check_cmd or (redis.acl_check_cmd('HSET', KEYS[5], user, '1') and redis.acl_check_cmd('XADD', KEYS[4], '*', 'f', 'v')) then
          local left, bought = string.format('%.0f', stock - quantity), had + quantity
          redis.call('DECRBY', KEYS[1], quantity_text)
          redis.call('HSET', KEYS[5], user, had == 0 and quantity_text or string.format('%.0f', bought))
          redis.call('HSET', KEYS[3], 'r:' .. request, 'deduct ' .. quantity_text .. ' ' .. user)
          redis.call('XADD', KEYS[4], '*', 'op', 'deduct', 'stock', left, 'by', by, 'orders',
            '[["' .. user .. '","' .. quantity_text .. '","' .. request .. '"]]')
          return {1, stock - quantity, bought}
        end
      end
    end
  end
end
