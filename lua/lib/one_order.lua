-- The lean path of deduct: one order of kind hash, tried for the first time, that nothing stands against. It comes
-- before all helpers, which cost more than the order itself to define. It decides ok, limit_exceeded and
-- out_of_stock; whatever else it meets, it has written nothing and leaves the order to the general path below.
-- A text is checked before it is a number, and only then `+ 0` makes it one; numbers here have up to 13 digits, so that
-- every sum of them becomes its digits by `..` again, which Lua does up to 14.
if ARGV[1] == 'hash' and ARGV[4] == '' and ARGV[5] == 'first' and ARGV[6] == '1' and ARGV[7] == '' and #ARGV == 10 and #KEYS == 5 then
  local find, user, quantity_text, request = string.find, ARGV[8], ARGV[9], ARGV[10]
  local plain = ARGV[2] ~= '' and ARGV[3] == '' and #quantity_text < 10 and find(quantity_text, '^[1-9]%d*$')
    and #user <= 256 and #request <= 128
    -- Most ids are letters and digits; what JSON would escape is left to the general path.
    and (find(user, '^%w+$') or find(user, '^[^%s%c"\\\127][^%c"\\\127]*$') and not find(user, '^%s', #user))
    and find(request, '^[#-Z^-~%[%]]+$')
  local stock_text = plain and redis.pcall('GET', KEYS[1])
  if type(stock_text) == 'string' and #stock_text < 14 and (stock_text == '0' or find(stock_text, '^[1-9]%d*$')) then
    local rules = redis.pcall('HGET', KEYS[2], 'rules')
    local epoch, limit_text, total_text, starts, ends = string.match(type(rules) == 'string' and rules or '', '^live 1 ([1-9]%d*) (%S+) ([1-9]%d*) (%S+) (%S+)$')
    if limit_text == '-' then limit_text = false end
    if starts == '-' then starts = false end
    if ends == '-' then ends = false end
    local open = starts == false and ends == false
    if not open and (starts == false or starts and #starts < 14 and find(starts, '^[1-9]%d*$'))
      and (ends == false or ends and #ends < 14 and find(ends, '^[1-9]%d*$')) then
      local clock = redis.call('TIME')
      local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
      open = (not starts or now >= starts + 0) and (not ends or now < ends + 0)
    end
    if open and #total_text < 14
      and (limit_text == false or limit_text and #limit_text < 14 and find(limit_text, '^[1-9]%d*$'))
      and #epoch < 14 then
      local entries = redis.pcall('XLEN', KEYS[4])
      if type(entries) == 'number' and entries > 0 and redis.pcall('HGET', KEYS[3], 'r:' .. request) == false then
        local stock, quantity, had_text, had = stock_text + 0, quantity_text + 0, redis.pcall('HGET', KEYS[5], user), nil
        if had_text == false then
          if total_text + 0 <= stock or redis.pcall('EXISTS', KEYS[5]) == 1 then had = 0 end
        elseif type(had_text) == 'string' and #had_text < 14 and find(had_text, '^[1-9]%d*$') then
          had = had_text + 0
        end
        if had then
          local bought, left = had + quantity, stock - quantity
          if limit_text and bought > limit_text + 0 then return {LIMIT_EXCEEDED, stock, had} end
          if left < 0 then return {OUT_OF_STOCK, stock, had} end
          if not redis.acl_check_cmd or redis.acl_check_cmd('HSET', KEYS[5], user, '1') and redis.acl_check_cmd('XADD', KEYS[4], '*', 'f', 'v') then
            redis.call('DECRBY', KEYS[1], quantity_text)
            redis.call('HSET', KEYS[5], user, had == 0 and quantity_text or bought .. '')
            redis.call('HSET', KEYS[3], 'r:' .. request, 'deduct ' .. quantity_text .. ' ' .. user)
            redis.call('XADD', KEYS[4], '*', 'op', 'deduct', 'stock', left .. '', 'by', ARGV[2], 'orders',
              '[["' .. user .. '","' .. quantity_text .. '","' .. request .. '"]]')
            return {OK, left, bought}
          end
        end
      end
    end
  end
end
