-- Takes the units of expired holds again, the stock first. Reads begun, is_first, stock, withdrawn, taken, how many units, and whose they are:
-- takers, and takers_units, users with what they hold then.
--- @include "stock"
local allowed = redis.acl_check_cmd
--- @let SELLS = true
--- @include "rights_of_orders"
--- @include "forbidden"
--- @include "mark_nobody"
take_units(stock, withdrawn, taken)
--- @let HOLDERS_UNITS = unpack(takers_units)
--- @let HOLDERS = unpack(takers)
--- @include "file_users"
