-- Before the helpers of the general path are defined.
local lean_reply = many_orders('refund')
if lean_reply then return lean_reply end
