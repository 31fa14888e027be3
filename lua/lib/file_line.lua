-- Adds the job's line to what is kept, unless all was decided before.
if decided < count then
  local last = lines and lines[count] or first + count - 1
  kept[kept_size + 1], kept[kept_size + 2] = field, digits(last) .. ' ' .. digits(refused) .. ' ' .. ARGV[6]
  kept_size = kept_size + 2
end
