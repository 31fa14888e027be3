-- Whether one id of an entry comes before another. Their parts may pass what Lua counts exactly, so texts are compared.
local function earlier(one, other)
  local ms, n = string.match(one, '^(%d+)%-(%d+)$')
  local other_ms, other_n = string.match(other, '^(%d+)%-(%d+)$')
  if ms == other_ms then ms, other_ms = n, other_n end
  return #ms < #other_ms or (#ms == #other_ms and ms < other_ms)
end
