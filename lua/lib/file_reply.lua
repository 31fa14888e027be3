-- The reply: a letter an order, the stock, how many the job refused, and what each user holds.
local reply = string.rep('o', count)
if next(letters) then
  for i = 1, count do letters[i] = letters[i] or 'o' end
  reply = concat(letters, '', 1, count)
end
reply = reply .. ' ' .. digits(stock) .. ' ' .. digits(refused)
if bought then reply = reply .. ' ' .. concat(bought, ' ', 1, count) end
return reply
