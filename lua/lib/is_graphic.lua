-- Whether a column has neither white space nor control characters but its tabs. Of a long text, a search for
-- each of them takes a fraction of a pattern's time.
local function is_graphic(text)
  if #text < 300 then return find(text, '^[!-~\128-\255\t]*$') ~= nil end
  local blanks = {
    ' ', '\127', '\0', '\1', '\2', '\3', '\4', '\5', '\6', '\7', '\8', '\10', '\11', '\12', '\13', '\14', '\15', '\16', '\17',
    '\18', '\19', '\20', '\21', '\22', '\23', '\24', '\25', '\26', '\27', '\28', '\29', '\30', '\31',
  }
  for i = 1, #blanks do
    if find(text, blanks[i], 1, true) then return false end
  end
  return true
end
