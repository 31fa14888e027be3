-- The reply: a letter an order, the stock, how many the job refused, of holds the deadlines or the quantities, and what each user holds.
local reply = string.rep('o', count)
if next(letters) then
  for i = 1, count do letters[i] = letters[i] or 'o' end
  reply = concat(letters, '', 1, count)
end
reply = reply .. ' ' .. digits(stock) .. ' ' .. digits(refused)
--- @if hold_file
-- The deadline of each, or one if all are equal (0: none).
local deadlines = (count > 0 or not bought) and deadline_text or ''
if bought and next(letters) then
  for i = 1, count do held_until[i] = held_until[i] or letters[i] ~= 'o' and '0' or deadline_text end
  deadlines = held_until[1]
  for i = 2, count do
    if held_until[i] ~= deadlines then deadlines = concat(held_until, ',', 1, count) break end
  end
end
reply = reply .. ' ' .. deadlines
--- @end
--- @if settle_file
reply = reply .. ' ' .. (common or concat(quantities, ','))
--- @end
if bought then reply = reply .. ' ' .. concat(bought, ' ', 1, count) end
--- @if settle_file
if bought then reply = reply .. '\t' .. concat(users, '\t', 1, count) end
--- @end
return reply
