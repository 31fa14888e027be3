-- What the orders of a file come to, before any is decided: left, the stock then; applied, how many were; letters of the others; bought,
-- for the reply; kept, its size and once, what request ids store; now, what users hold; set and its size, or members, as they are
-- written; numbers and texts, numbers by their texts and texts by their numbers; most, the limit; had, which is 0 of a counter;
-- and text, units, request and known of an order. Lists that are copied have their size at once.
local left, applied, letters, bought = stock, 0, {}, shows and {unpack(users)}
local kept, kept_size, once, size = requests and {unpack(requests)} or {}, 0, {}, 0
--- @if counter
local had = 0
--- @else
local now = {}
--- @end
--- @if hash set hold_file
local numbers, texts = {[true] = math.huge}, {[math.huge] = '?'}
--- @end
--- @if hash set
local set = {unpack(users)}
--- @end
--- @if refund_file
local most = total or MOST_UNITS
--- @else
--- @use "fits"
local most = limit or MOST_UNITS
--- @if set coupon
local members = {unpack(users)}
--- @end
--- @end
local text, units, request, known = common, amounts[common], '', nil
