--[[
  hold: takes units of one activity with a deadline, for one order. `settle` confirms or releases a hold by its request id; if
  nobody does, the units return after the deadline.

  KEYS[1]  stock          string  units left
  KEYS[2]  meta           hash    rules, withdrawn
  KEYS[3]  requests       hash    request id -> digest of the order; <tab>h:<id> -> `state quantity deadline order user`;
                                  <tab>o:<user> -> units held open, <tab>holds of all users;
                                  <tab>begun -> what a call that gives units back is about to do
  KEYS[4]  ledger         stream  one entry a call, and one for what is expired
  KEYS[5]  participants   hash: user -> units (kind hash) | set: users (kinds set and coupon); with what is held open
  KEYS[6]  units          hash    units of a set's members; kind set only
  last key deadlines      sorted set  request id by deadline, Unix ms: KEYS[6], of kind set KEYS[7]

  ARGV[1]  kind           hash, set or coupon: the one that this script is of; a counter records nobody
  ARGV[2]  by             who runs this, for the ledger; may be empty
  ARGV[3]  user
  ARGV[4]  quantity
  ARGV[5]  request id     names the hold: settle needs it
  ARGV[6]  mode           `first`, `retry` (may have been sent before: a refusal is kept under its request id), `borrow` (as for
                          deduct) or `dry` (nothing is written)
  ARGV[7]  reason         why, for the ledger; may be empty
  ARGV[8]  duration       how long it is held, in ms, 1 to 31,536,000,000 (a year)

  An item of an order of activities in several slots has 11: those above, and
  ARGV[9]  order          `m:` and the stock key of the order's primary item, which decides it
  ARGV[10] digest         of the whole order, which the request id stores
  ARGV[11] items          stock keys of the other items, with spaces between; empty but for the primary
  Its record is written again if it is there, so that a WAIT that follows covers it.

  Returns for one order {status, stock, bought, deadline}, with stock and bought after it (bought is `?` if it is unknown;
  deadline is that of the hold, false without one):
     1 ok                the units are held
     2 replayed          this request holds them already, or was confirmed
    -2 limit_exceeded    the user would hold more than the limit
    -3 out_of_stock      fewer are left
    -4 not_preheated     KEYS[1] is absent, or KEYS[2] is: an activity of another system is adopted first
    -5 not_started       before the window
    -6 ended             after the window, or archived
    -7 paused            an operator paused it; the stock includes what is withdrawn
    -9 request_conflict  the request id was used for something else
   -11 corrupt           {-11, false, false, n, value}: KEYS[n] holds value (false: it is of the wrong type)
   -12 not_held          this request held them and was released
   -13 expired           this request held them and is past its deadline, or its multi-order was aborted
   -15 sharded           {-15, false, shards}: as for deduct
   -16 reversed          a repair took it back: order anew with a new request id
  If stock or limit are short, up to 16 overdue holds are expired first, as settle does it; what it leaves is not postponed. A call
  that gives units back and was cut is finished first; not by a dry run.
  Only ok, what is expired, and a refused retry write: first the deadline, which is nobody's without a hold; then the stock, so
  that a cut leaves fewer units to sell, never more; then participants, requests with the units held open, ledger.

  Commands it needs (checked before the first write from Redis 7.0 on): GET HMGET HGET TYPE EXISTS TIME DECRBY INCRBY HSET HDEL
  ZADD ZREM ZRANGEBYSCORE XLEN XRANGE XREVRANGE XADD; sets also SMISMEMBER SADD SREM.
]]
--- @kinds hash set coupon
--- @use "codes"
--- @use "numbers"
--- @include "order"
--- @let SHOWN = had, false
local units, duration = quantity == '1' and 1 or whole(quantity), whole(ARGV[8])
if not units or units < 1 or units > MOST_QUANTITY then wrong = 'quantity of order 1'
elseif request == '' then wrong = 'order 1 has no request id'
elseif not duration or duration < 1 or duration > 31536000000 then wrong = 'the duration is not 1 to 31536000000 ms' end
local digest, order, items = 'hold ' .. quantity .. '\t' .. user, ARGV[9] or '-', ARGV[11]
if items then
  digest = ARGV[10] .. '\t' .. user
  if #order > 1024 or not find(order, '^m:%S+$') then wrong = 'ARGV[9] is not m:<primary>'
  elseif not find(ARGV[10], '^multi_deduct %x+$') then wrong = 'ARGV[10] is not the digest of an order'
  elseif items ~= '' and (#items > 524800 or not find(items, '^%S[%S ]*%S$')) then wrong = 'ARGV[11] is not a list of stock keys' end
end
if wrong then return redis.error_reply('USAGE hold: ' .. wrong) end

-- Each turn reads everything anew: one after a call that was cut was finished, one after holds were expired.
local call, has_expired, returned_units, returned_to = nil, false, 0, {}
for turn = 1, 3 do
  if call then
    --- @include "rare_work"
  end
  repeat
    --- @include "activity"
    local clock = redis.call('TIME')
    local now_ms = clock[1] * 1000 + math.floor(clock[2] / 1000)
    local open_field = '\to:' .. user
    local fields = redis.pcall('HMGET', KEYS[3], '\tbegun', request, open_field, '\tholds')
    if fields.err then key, value = 3, fields break end
    local begun, known, open, holds = fields[1], fields[2], whole(fields[3] or '0'), whole(fields[4] or '0')
    if not (open and holds) then key, value = 3, not open and fields[3] or fields[4] break end
    if begun and begun ~= 'first' and mode ~= 'dry' and turn == 1 then
      --- @include "rare_call"
      call.begun = begun
      break
    end
    --- @include "held"
    --- @let IS_NEW = not found
    --- @include "first_user"
    stock = stock + returned_units
    if returned_to[user] then had = had - returned_to[user] end

    -- Decide.
    local status, its_deadline, record = nil, false, false
    if known then
      record = redis.call('HGET', KEYS[3], '\th:' .. request)
      --- @include "known_hold"
    elseif state == 'paused' then
      status = PAUSED
    else
      status = starts and now_ms < starts and NOT_STARTED or ends and now_ms >= ends and ENDED or nil
      --- @include "exceeds_limit_or_stock"
    end
    if status or mode == 'dry' then
      local overdue = redis.pcall('ZRANGEBYSCORE', KEYS[DEADLINES], '-inf', format('%d', now_ms), 'LIMIT', '0', '1')
      if overdue.err then key, value = DEADLINES, overdue break end
      local is_short = not known and (status == LIMIT_EXCEEDED or status == OUT_OF_STOCK)
      if is_short and holds > 0 and #overdue > 0 and not has_expired then
        --- @include "rare_call"
        call.holds = holds
        break
      end
    end
    if known then
      if items and record and status == REPLAYED and mode ~= 'dry' then redis.call('HSET', KEYS[3], '\th:' .. request, record) end
      return {status, stock, had, its_deadline and its_deadline + 0}
    end
    --- @include "refused"
    local left, bought, deadline = stock - units, SHOWN_AFTER, now_ms + duration
    if mode == 'dry' then return {OK, left, bought, deadline} end

    -- Write: the deadline, which shows whether its key takes one, then the stock.
    --- @include "rights_to_take"
    local deadline_text = format('%d', deadline)
    local set = redis.pcall('ZADD', KEYS[DEADLINES], deadline_text, request)
    if type(set) == 'table' then key, value = DEADLINES, set break end
    --- @let MAY_UNMARK = undoes
    --- @include "mark_nobody"
    redis.call('DECRBY', KEYS[1], quantity)
    --- @let HELD_AFTER = had == 0 and quantity or format('%d', bought)
    --- @include "record_user"
    record = 'held ' .. quantity .. ' ' .. deadline_text .. ' ' .. order .. ' ' .. user
    redis.call('HSET', KEYS[3], request, digest, '\th:' .. request, record, open_field, format('%d', open + units),
      '\tholds', format('%d', holds + units))
    --- @include "add_entry"
    return {OK, left, bought, deadline}
  until true
  if key then break end
end
--- @include "damaged"
