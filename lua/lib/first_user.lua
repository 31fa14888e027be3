-- Whether nobody is recorded: sets is_first. Reads total, stock and begun, and IS_NEW, without which nobody need be asked.
-- Units were sold, and no record of it is left: limits would start over. A purchase that was cut before it recorded the first user
-- left none either, but wrote down that nobody was. So did a call that was cut while it gave back what the last one had: a dry run
-- does not finish it.
--- @if hash set coupon
local is_first = IS_NEW and redis.call('EXISTS', KEYS[5]) == 0
if is_first and total > stock and not begun then key, value = 5, 'nothing, though units were sold' break end
--- @end
