--[[
  deduct: takes units of one activity, for one order or for many, with the meaning of one after the other.

  KEYS[1]  stock          string  units left
  KEYS[2]  meta           hash    rules, withdrawn; may be absent
  KEYS[3]  requests       hash    r:<request> -> what it did; j:deduct:<job> -> line, refused, digest
  KEYS[4]  ledger         stream  one entry a call
  KEYS[5]  participants   hash: user -> units (kind hash) | set: users (kinds set and coupon) | none (kind counter)
  KEYS[6]  units          hash    units of a set's members; kind set only

  ARGV[1]  kind           hash, set, coupon or counter
  ARGV[2]  by             who runs this, for the ledger; may be empty
  ARGV[3]  reason         why, for the ledger; may be empty
  ARGV[4]  limit          the caller's limit a user, for an activity without KEYS[2]; any other limit than that of
                          KEYS[2] is an error, `USAGE`; empty: none
  ARGV[5]  mode           `first`, `retry` (may have been sent before: a refusal is kept under its request id),
                          or `dry` (nothing is written)
  ARGV[6]  count          how many orders
  ARGV[7]  job            empty, or: name, and then in ARGV[8..13] its digest, the epoch, the line before the
                          first of this activity, the lines of the orders (`first-last` where they follow each
                          other, else all, joined by spaces), 1 where the reply should tell what each user
                          holds, and the quantity of every order, or empty
  then     orders         all users, then all quantities (unless ARGV[13] tells), then all requests, then all
                          reasons; both may be empty, or left out

  Returns for one order without a job {status, stock, bought}, with stock and bought after it (bought is `?` for a member
  of a set that another script recorded, without units):
     1 ok                the units are taken
     2 replayed          this request was applied before
    -2 limit_exceeded    the user would hold more than the limit
    -3 out_of_stock      fewer are left
    -4 not_preheated     KEYS[1] is absent
    -5 not_started, -6 ended, -7 paused (then the stock includes what is withdrawn)
    -9 request_conflict  the request id was used for something else
   -11 corrupt           {-11, false, false, n, value}: KEYS[n] holds value (false: it is of the wrong type)
  For many orders, or with a job: one string `letters stock refused [bought ...]`: a letter an order (o ok,
  r replayed, l limit_exceeded, s out_of_stock, q request_conflict, c corrupt; without a job also p paused,
  n not_started, e ended), the stock before the call, how
  many the job refused so far, and what each user holds after the order. What refuses the whole activity is {status,
  stock, line}, with the last line the job decided; and with a job also
   -20 gap               {-20, line}: the line before is not the last one decided
   -21 other epoch       {-21, epoch}: the activity was reset since the job began
   -22 other job         {-22}: the job's name was used with another digest
  Only ok, and a refused retry, write; the stock first, so that a cut leaves fewer units to sell, never more.

  Commands it needs (checked before the first write from Redis 7.0 on): GET HMGET HGET TYPE EXISTS TIME DECRBY
  HSET XADD; sets also SMISMEMBER SADD. Plain orders are quicker where XLEN is allowed too.
]]
--- @include "codes"

-- Quick path: one plain order, or the plain orders of a job. It replies, or leaves the call to the reference path
-- before it has written anything; helpers cost more than an order to define, so it comes before them.
--- @include "one_order"
--- @include "many_orders"
local quick_reply = many_orders('deduct')
if quick_reply then return quick_reply end

-- Includes.
--- @include "values"
--- @include "meta"
--- @include "orders"
--- @include "call"

-- Reference path.
local call, reply = read_call('deduct')
if not call then return reply end
local wanted, odd = read_quantities(call)
if not wanted then return usage('deduct: quantity of order ' .. odd) end

-- Read, and check, everything.
reply = read_activity(call)
if reply then return reply end
local kind, rules, stock = call.kind, call.rules, call.stock
local limit = rules.limit
if ARGV[4] ~= '' then
  local given = whole(ARGV[4])
  if not given then return usage('deduct: ARGV[4] is not a limit') end
  if not rules.total then
    limit = given
  elseif given ~= limit then
    return usage('deduct: ARGV[4] is not the limit of the activity, which is ' .. (limit and digits(limit) or 'none'))
  end
end
reply = read_requests(call)
if reply then return reply end
local decided = call.decided or 0
local shut = closed(rules)
if call.job and decided < call.count then
  if shut then return {shut, stock, call.line} end
  if leaves_gap(call) then return {GAP, call.line} end
end
reply = read_held(call)
if reply then return reply end
if records_lost(call) then return unfit('nothing, though units were sold', 5) end

-- Decide, one order after the other.
local users, texts, requests, held, seen = call.users, call.texts, call.requests, call.held, call.seen
local now, kept, touched = {}, {}, {}
local letters, noted, quantities, bought = {unpack(users)}, {unpack(users)}, {unpack(users)}, nil
if not call.single and (call.rows or not call.job) then bought = {unpack(users)} end
local written = digits_once()
-- What HSET of a hash takes, with the last value of a user last; `touched` are the users of a set, each of them once.
local set = {unpack(ARGV, #ARGV - 2 * call.count + 1)}
local left, refused, taken, last = stock, 0, 0, nil
local most = limit or MOST_UNITS
for i = 1, call.count do
  local user, quantity, request = users[i], wanted[i], requests and requests[i] or ''
  local had, status, digest = 0, nil, nil
  if held then
    had = now[user]
    if not had then
      had = units_held(held[i])
      if not had and call.single then return unfit(held[i], kind == 'set' and 6 or 5) end
    end
  end
  if i <= decided then
    status = REPLAYED
  elseif not had then
    status = CORRUPT
  elseif request ~= '' then
    digest = 'deduct ' .. texts[i] .. ' ' .. user
    status = settled(seen[request], digest)
  end
  if not status then
    status = shut
    if not status and kind == 'hash' then
      if had + quantity > most then status = LIMIT_EXCEEDED end
    elseif not status and kind ~= 'counter' then
      if had > 0 or (kind == 'coupon' and quantity > 1) then status = LIMIT_EXCEEDED end
    end
    if not status and quantity > left then status = OUT_OF_STOCK end
    if not status then
      status = OK
      left, had = left - quantity, had + quantity
      taken = taken + 1
      noted[taken], quantities[taken] = i, texts[i]
      if kind == 'hash' then
        set[2 * taken - 1], set[2 * taken] = user, written[had]
      else
        touched[taken] = user
      end
    end
    if request ~= '' then keep(call, request, digest, status, kept) end
  end
  if status < 0 then refused = refused + 1 end
  if held then now[user] = had end
  letters[i], last = LETTERS[status], status
  if bought then bought[i] = held and had and written[had] or '0' end
end

-- Write: the stock first.
if not call.dry then
  if taken > 0 then
    if redis.acl_check_cmd then
      local denied = not redis.acl_check_cmd('HSET', KEYS[3], 'f', 'v') and 'HSET'
        or rules.ledger and not redis.acl_check_cmd('XADD', KEYS[4], '*', 'f', 'v') and 'XADD'
        or (kind == 'set' or kind == 'coupon') and not redis.acl_check_cmd('SADD', KEYS[5], 'm') and 'SADD'
        or kind == 'set' and not redis.acl_check_cmd('HSET', KEYS[6], 'f', 'v') and 'HSET'
      if denied then return forbidden(denied) end
    end
    redis.call('DECRBY', KEYS[1], digits(stock - left))
    if kind == 'hash' then
      redis.call('HSET', KEYS[5], unpack(set, 1, 2 * taken))
    elseif held then
      write_held(call, touched, now, written)
    end
  end
  if #kept > 0 or decided < call.count then write_requests(call, kept, refused) end
  if taken > 0 and rules.ledger then
    redis.call('XADD', KEYS[4], '*', unpack(order_entry(call, left, noted, quantities, taken)))
  end
end
if call.single then return {last, left, held and told(now[users[1]])} end
return packed(call, letters, bought, refused)
