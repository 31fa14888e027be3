-- Before the helpers of the general path are defined.
local lean_reply = many_orders('deduct')
if lean_reply then return lean_reply end
