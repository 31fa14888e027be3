-- The one reply to what is damaged: KEYS[key] holds value. An error other than a wrong type (no permission, say) is passed on.
if type(value) == 'table' then
  if not find(value.err, 'WRONGTYPE', 1, true) then return value end
  return {CORRUPT, false, false, key, false}
end
return {CORRUPT, false, false, key, string.sub(value, 1, 64)}
