-- The activity. Reads KEYS[1], KEYS[2] and KEYS[4]; sets state, has_ledger, limit, starts and ends (false for none), total (nil
-- without KEYS[2]), withdrawn (nil if no units are), and stock, withdrawn units included. A purchase looks for units that are
-- withdrawn only while it is paused.
local stock_text, rules = redis.pcall('GET', KEYS[1]), redis.pcall('HGET', KEYS[2], 'rules')
local state, has_ledger, limit, total, starts, ends, withdrawn = nil, false, false, nil, false, false
if not rules then
  if redis.call('TYPE', KEYS[2]).ok ~= 'none' then key, value = 2, 'no rules' break end
elseif rules.err then
  key, value = 2, rules break
else
  -- Of almost all that sell, the rules begin so.
  local limit_text, total_text, starts_text, ends_text =
    string.match(rules, '^live 1 [1-9]%d?%d?%d? ([1-9%-]%d*) ([1-9]%d*) ([1-9%-]%d*) ([1-9%-]%d*)$')
  state, has_ledger = 'live', true
  if not limit_text then
    local ledger, epoch
    state, ledger, epoch, limit_text, total_text, starts_text, ends_text =
      string.match(rules, '^(%l+) ([01]) (%d+) (%S+) (%d+) (%S+) (%S+)$')
    has_ledger = ledger == '1'
    if state ~= 'live' and state ~= 'paused' and state ~= 'archived' or not (whole(epoch) and whole(total_text))
      or limit_text ~= '-' and not whole(limit_text) or starts_text ~= '-' and not whole(starts_text)
      or ends_text ~= '-' and not whole(ends_text) then key, value = 2, rules break end
  end
  total, limit = total_text + 0, limit_text ~= '-' and limit_text + 0
  starts, ends = starts_text ~= '-' and starts_text + 0, ends_text ~= '-' and ends_text + 0
  if total > MOST_UNITS or limit and (limit < 1 and limit_text ~= '0' or limit > MOST_UNITS)
    or starts and (starts < 1 and starts_text ~= '0' or starts > MOST_UNITS)
    or ends and (ends < 1 and ends_text ~= '0' or ends > MOST_UNITS) then key, value = 2, rules break end
  -- What a reset leaves of a shard is nothing, but for its epoch.
  if state == 'archived' and total == 0 and not (has_ledger or limit or starts or ends) then state, total = nil, nil end
end
-- A ledger beside no rules means that the limit was lost; none beside them, that its entries were: the next would begin another.
local entries = redis.pcall('XLEN', KEYS[4])
if type(entries) == 'table' then key, value = 4, entries break end
if not total and entries > 0 then key, value = 2, 'nothing, beside a ledger' break end
--- @if refund refund_file repair
if state == 'archived' then return {NOT_PREHEATED, false, false} end
--- @else
-- Whatever a plain script may have made of its keys since.
if state == 'archived' then return {ENDED, false, false} end
--- @end
--- @if repair
is_lost = not stock_text
if is_lost and restores then stock_text = '0' end
--- @end
if stock_text and has_ledger and entries == 0 then key, value = 4, 'nothing, though meta has a ledger' break end
--- @if deduct hold
--- @else
if stock_text and has_ledger then
  --- @include "last_id"
end
--- @end
if not stock_text then
  -- The units of a sharded activity are in activities of their own.
  local shards = total and redis.call('HGET', KEYS[2], 'shards')
  if shards then return {SHARDED, false, shards} end
  return {NOT_PREHEATED, false, false}
end
if stock_text.err or stock_text ~= '0' and not find(stock_text, '^[1-9]%d*$') then key, value = 1, stock_text break end
local stock = stock_text + 0
if stock > MOST_UNITS then key, value = 1, stock_text break end
--- @if hold hold_file settle settle_file
if not total then return {NOT_PREHEATED, stock, false} end
--- @end
--- @if refund refund_file repair settle settle_file
--- @let MAY_BE_WITHDRAWN = true
--- @else
--- @let MAY_BE_WITHDRAWN = state == 'paused'
--- @end
local withdrawn_text = MAY_BE_WITHDRAWN and redis.call('HGET', KEYS[2], 'withdrawn')
if withdrawn_text then
  withdrawn = whole(withdrawn_text)
  if not withdrawn then key, value = 2, withdrawn_text break end
  stock = stock + withdrawn
end
