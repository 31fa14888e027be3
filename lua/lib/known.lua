-- Replies what the request id did before. Reads known, digest, stock and what the user holds.
if known then
  local code, rest = string.match(known, '^(%-%d+)\t(.*)$')
  return {known == digest and REPLAYED or rest == digest and tonumber(code) or REQUEST_CONFLICT, stock, SHOWN}
end
