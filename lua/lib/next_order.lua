-- Order i of a file. Reads the columns, once, what request ids store by the orders before, and found; sets text, units, request, and
-- known, what the request id stores: nil or false if it is new.
if quantities then
  text = quantities[i]
  units = amounts[text]
end
if requests then
  request = requests[i]
  known = request ~= '' and (repeats and once[request] or found[i + 2])
end
