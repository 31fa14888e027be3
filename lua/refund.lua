--[[
  refund: gives units of one activity back, for one order; never more than the user holds, never past the
  total, and it creates no key of the sale.

  KEYS[1]  stock          string  units left
  KEYS[2]  meta           hash    rules, withdrawn; may be absent
  KEYS[3]  requests       hash    request id -> digest of the order; <tab>o:<user> -> units held open;
                                  <tab>begun -> what a call that gives units back is about to do, see below
  KEYS[4]  ledger         stream  one entry a call
  KEYS[5]  participants   hash: user -> units (kind hash) | set: users (kinds set and coupon) | none (kind counter)
  KEYS[6]  units          hash    units of a set's members; kind set only

  ARGV[1]  kind           hash, set, coupon or counter: the one that this script is of
  ARGV[2]  by             who runs this, for the ledger; may be empty
  ARGV[3]  user           may be empty for a counter
  ARGV[4]  quantity       or `all`, which leaves what is held open
  ARGV[5]  request id     may be empty
  ARGV[6]  mode           may be left out: `first`, `retry` or `dry`
  ARGV[7]  reason         may be empty or left out
  ARGV[8]  unsaid         may be left out, see below

  unsaid is 1 if the quantity is a default that nobody gave. A member of a set that another script recorded, without units,
  holds an unknown number: of it any given quantity up to the total less the stock is refunded, neither `all` nor one that
  is unsaid, nor anything while the user holds units open; and then the user is no member any more.

  Returns for one order {status, stock, bought, quantity}, with stock and bought after it (bought is `?` if it is unknown;
  quantity is false if `all` gave nothing back now):
     1 ok                the units are back
     2 replayed          this request was applied before
    -4 not_preheated     KEYS[1] is absent
    -8 exceeds_bought    the user holds fewer, or nothing, without what is held open; or the stock would pass the total
    -9 request_conflict  the request id was used for something else
   -11 corrupt           {-11, false, false, n, value}: KEYS[n] holds value (false: it is of the wrong type)
   -15 sharded           {-15, false, shards}: as by deduct
  While the stock is withdrawn, units go to meta's `withdrawn` instead; every stock above includes that.
  Only ok and a refused retry write; the stock comes last, so that a cut leaves fewer units to sell,
  never more. What it is about to do is written down first, in KEYS[3], and removed before the call ends: if it was cut, the
  same call again, or any other that changes what users hold, finishes it before it decides its own orders. A dry run does not.

  Commands it needs (checked before the first write from Redis 7.0 on): GET HGET HMGET TYPE EXISTS XLEN XRANGE XREVRANGE
  INCRBY HSET HDEL XADD; sets also SMISMEMBER SADD SREM.
]]
--- @kinds hash set coupon counter
--- @use "codes"
--- @use "values"
--- @use "unfinished_call"
--- @include "order"
--- @let SHOWN = had, not all and units
--- @if counter
--- @let SHOWN = false, units
--- @end
local all, units = quantity == 'all', whole(quantity) or 0
if not all and (units < 1 or units > MOST_QUANTITY) then return usage('refund: quantity of order 1') end
--- @if counter
if all then return usage('refund: all, but no user is recorded') end
--- @end

for turn = 1, 2 do
  repeat
    --- @include "activity"
    --- @include "request"
    --- @if hash set coupon
    --- @include "held"
    -- What is held open is not the user's to return.
    local open = redis.call('HGET', KEYS[3], '\to:' .. user) or '0'
    local open_units = whole(open)
    if not open_units then key, value = 3, open break end
    --- @end

    -- Decide. How much a member of a set without units holds is unknown.
    local digest = 'refund ' .. quantity .. '\t' .. user
    --- @include "known"
    --- @let IS_NEW = not found and total
    --- @include "first_user"
    local taken, rest, status = units, false, nil
    --- @if hash set coupon
    local free = (had == '?' and MOST_UNITS or had) - open_units
    if all then taken = math.max(free, 0) end
    if taken > free or taken == 0 or had == '?' and (all or ARGV[8] == '1' or open_units > 0) then status = EXCEEDS_BOUGHT end
    rest = had == '?' and 0 or had - taken
    --- @end
    if stock + taken > (total or MOST_UNITS) then status = EXCEEDS_BOUGHT end
    --- @include "refused"
    local left, quantity = stock + taken, digits(taken)
    if mode == 'dry' then return {OK, left, rest, taken} end

    -- Write: the stock last.
    local it = {units = quantity, users = {}, gone = {}, set = {}, cleared = {}, ids = {}}
    --- @if hash set coupon
    if rest > 0 then it.users = {user, digits(rest)} else it.gone = {user} end
    --- @end
    if request ~= '' then it.set = {request, digest} end
    if has_ledger then
      --- @include "entry"
      it.entry = entry
    end
    local denied = may_not_return(KIND, withdrawn, it)
    --- @include "forbidden"
    give_units_back({kind = KIND, rules = {total = total}, stock = stock, withdrawn = withdrawn}, it)
    return {OK, left, rest, taken}
  until true
  if key then break end
end
--- @include "damaged"
