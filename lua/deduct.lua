--[[
  deduct: takes units of one activity, for one order.

  KEYS[1]  stock          string  units left
  KEYS[2]  meta           hash    rules, withdrawn; may be absent
  KEYS[3]  requests       hash    request id -> digest of the order;
                                  <tab>begun -> what a call that gives units back is about to do
  KEYS[4]  ledger         stream  one entry a call
  KEYS[5]  participants   hash: user -> units (kind hash) | set: users (kinds set and coupon) | none (kind counter)
  KEYS[6]  units          hash    units of a set's members; kind set only

  ARGV[1]  kind           hash, set, coupon or counter: the one that this script is of
  ARGV[2]  by             who runs this, for the ledger; may be empty
  ARGV[3]  user           may be empty for a counter
  ARGV[4]  quantity
  ARGV[5]  request id     may be empty
  ARGV[6]  mode           may be left out: `first`; or `retry` (may have been sent before: a refusal is kept under its
                          request id), `borrow` (the same, but out_of_stock decides nothing: the caller borrows units of
                          another shard and calls again), or `dry` (nothing is written)
  ARGV[7]  reason         why, for the ledger; may be empty or left out
  ARGV[8]  limit          the caller's limit a user, for an activity without KEYS[2]; any other limit than that of
                          KEYS[2] is an error, `USAGE`; empty or left out: none

  Returns for one order {status, stock, bought}, with stock and bought after it (bought is `?` for a member of a set that
  another script recorded, without units):
     1 ok                the units are taken
     2 replayed          this request was applied before
    -2 limit_exceeded    the user would hold more than the limit
    -3 out_of_stock      fewer are left
    -4 not_preheated     KEYS[1] is absent
    -5 not_started       before the window
    -6 ended             after the window, or archived
    -7 paused            an operator paused it; the stock includes what is withdrawn
    -9 request_conflict  the request id was used for something else
   -11 corrupt           {-11, false, false, n, value}: KEYS[n] holds value (false: it is of the wrong type)
   -15 sharded           {-15, false, shards}: the units are in activities of their own, of which these are the numbers
   -16 reversed          a repair took it back: order anew with a new request id
  Only ok and a refused retry write; the stock first, so that a cut leaves fewer units to sell, never
  more. A refund, release or expiry that was cut is finished first, but for deadlines; not by a dry run.

  Commands it needs (checked before the first write from Redis 7.0 on): GET HMGET HGET TYPE EXISTS TIME XLEN
  XREVRANGE DECRBY HSET XADD; sets also SMISMEMBER SADD SREM. Plain orders are quicker if HDEL is allowed too;
  Redis 6.2 needs it. INCRBY HDEL XRANGE finish what was cut: without them orders of its users are refused.
]]
--- @kinds hash set coupon counter
--- @use "codes"
--- @use "numbers"
--- @include "order"
local units = quantity == '1' and 1 or whole(quantity)
if not units or units < 1 or units > MOST_QUANTITY then return redis.error_reply('USAGE deduct: quantity of order 1') end

for turn = 1, 2 do
  repeat
    --- @include "activity"
    --- @include "request"
    --- @include "held"
    --- @let IS_NEW = not found and total
    --- @include "first_user"

    -- Decide.
    local digest = quantity == '1' and user or quantity .. '\t' .. user
    --- @include "known"
    --- @let GIVEN = ARGV[8]
    --- @include "given_limit"
    --- @include "closed_now"
    local status = shut
    --- @include "exceeds_limit_or_stock"
    --- @include "refused"
    local left, bought = stock - units, SHOWN_AFTER
    if mode == 'dry' then return {OK, left, bought} end

    -- Write: the stock first.
    --- @include "rights_to_take"
    --- @let MAY_UNMARK = undoes and (not allowed or allowed('DECRBY', KEYS[1], '1'))
    --- @include "mark_nobody"
    redis.call('DECRBY', KEYS[1], quantity)
    --- @let HELD_AFTER = had == 0 and quantity or format('%.0f', bought)
    --- @include "record_user"
    if request ~= '' then redis.call('HSET', KEYS[3], request, digest) end
    --- @include "add_entry"
    return {OK, left, bought}
  until true
  if key then break end
end
--- @include "damaged"
