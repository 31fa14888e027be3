-- Whether nobody is recorded: sets is_first. Reads total, stock and begun, and IS_NEW, without which nobody need be asked.
-- Units were sold, and no record of it is left: limits would start over. A purchase that was cut before it recorded the first user
-- left none either, but wrote down that nobody was; nor does one that is cut while it removes the last, before a dry run.
local is_first = IS_NEW and redis.call('EXISTS', KEYS[5]) == 0
if is_first and total > stock and not begun then key, value = 5, 'nothing, though units were sold' break end
