-- Holds that the job decided before. A repair may have taken back since what a confirm did. Reads decided, states and requests.
local void, of_void = {}, {}
for i = 1, decided do
  letters[i] = 'r'
  local place = at[users[i]]
  local had = HELD or 0
  if bought then bought[i] = texts[had] or digits(had) end
  if confirms and states[i] == 'void' then void[#void + 1], of_void[#of_void + 1] = i, requests[i] end
end
if #void > 0 then
  local known = redis.call('HMGET', KEYS[3], unpack(of_void))
  for n, i in ipairs(void) do
    if known[n] and find(known[n], '^%-16\t') then letters[i] = 'V' end
  end
end
