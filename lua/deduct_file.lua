--[[
  deduct_file: takes units of one activity for many orders, with the meaning of one after the other. `seckill` alone calls it.

  KEYS[1]  stock          string  units left
  KEYS[2]  meta           hash    rules, withdrawn; may be absent
  KEYS[3]  requests       hash    request id -> digest of the order; <tab>j:deduct:<job> -> line, refused, digest;
                                  <tab>begun -> what a call that gives units back is about to do
  KEYS[4]  ledger         stream  one entry a call
  KEYS[5]  participants   hash: user -> units (kind hash) | set: users (kinds set and coupon) | none (kind counter)
  KEYS[6]  units          hash    units of a set's members; kind set only

  Columns of 9 to 15 arguments:
  ARGV[1]  kind           hash, set, coupon or counter
  ARGV[2]  by             who runs this, for the ledger; may be empty
  ARGV[3]  users          JSON array of texts, at most 2,000
  ARGV[4]  quantities     JSON array of as many texts; or one quantity, that of all
  ARGV[5]  job            name of the job, or empty: then the next four are of no use
  ARGV[6]  digest of the job, ARGV[7] epoch, ARGV[8] the line before the first of this activity
  ARGV[9]  lines          of the orders: `first-last` if they follow each other, else all in rising order, joined by spaces
  ARGV[10] requests       JSON array of as many request ids, which may be empty; empty or left out: none has one
  ARGV[11] rows           1: with a job, the reply says what each user holds; may be left out
  ARGV[12] reason, ARGV[13] reasons (JSON array of as many texts), ARGV[14] limit: may be empty or left out
  ARGV[15] mode           of deduct, for all; in mode borrow the call ends before the first order that the stock does not cover:
                          the letters are those of the orders before it

  Returns one string `letters stock refused [bought ...]`: a letter an order (o ok, r replayed, l limit_exceeded,
  s out_of_stock, q request_conflict, c corrupt, b reversed; without a job also p paused, n not_started, e ended), the stock before
  the call, how many the job refused so far, and, without a job always, what each user holds after the order. What
  refuses the whole activity is {status, stock, line}, as deduct has it, with the last line the job decided; and with a job also
   -20 gap               {-20, line}: the line before is not the last one decided
   -21 other epoch       {-21, epoch}: the activity was reset since the job began
   -22 other job         {-22}: the job's name was used with another digest
  Only ok, a refused retry, and the line of a job write; the stock first, so that a cut leaves fewer units to sell, never
  more. A refund, release or expiry that was cut is finished first, but for deadlines; not by a dry run.

  Commands it needs (checked before the first write from Redis 7.0 on): GET HMGET HGET TYPE EXISTS TIME XLEN
  XREVRANGE DECRBY HSET XADD; sets also SMISMEMBER SADD SREM. Plain orders are quicker if HDEL is allowed too.
  INCRBY HDEL XRANGE finish what was cut: without them orders of its users are refused.
]]
--- @use "codes"

-- Quick path: the plain orders of a job. It replies, or leaves the call to the reference path before it has written
-- anything; helpers cost more than an order to define, so it comes before them.
--- @use "quick_job"
local quick_reply = quick_job('deduct')
if quick_reply then return quick_reply end

-- Includes.
--- @use "values"
--- @use "meta"
--- @use "finish_begun"
--- @use "orders"
--- @use "columns"
--- @use "call"

-- Reference path.
if #ARGV < 9 then return usage('deduct: at least 9 arguments are wanted, not ' .. #ARGV) end
local call, reply = read_call('deduct')
if not call then return reply end
local wanted, invalid = read_quantities(call)
if not wanted then return usage('deduct: quantity of order ' .. invalid) end

-- Read, and check, everything.
reply = read_activity(call)
if reply then return reply end
local kind, rules = call.kind, call.rules
local limit = rules.limit
if call.extra ~= '' then
  local given = whole(call.extra)
  if not given then return usage('deduct: the limit is not a number') end
  if not rules.total then
    limit = given
  elseif given ~= limit then
    return usage('deduct: the given limit is not the limit of the activity, which is ' .. (limit and digits(limit) or 'none'))
  end
end
reply = read_requests(call)
if reply then return reply end
local stock, decided = call.stock, call.decided or 0
local shut = closed(rules)
if call.job and decided < call.count then
  if shut then return {shut, stock, call.line} end
  if leaves_gap(call) then return {GAP, call.line} end
end
reply = read_held(call)
if reply then return reply end
if records_lost(call) then return unfit('nothing, though units were sold', 5) end

-- Decide, one order after the other.
local users, held, seen = call.users, call.held, call.seen
-- What users hold now; users whose number changed, each once; request ids and what they store; numbers of the orders
-- that are applied, and their quantities.
local now, touched, is_touched, kept, applied, quantities = {}, {}, {}, {}, {}, {}
local letters, bought, refused, left = {}, (call.rows or not call.job) and {}, 0, stock
local most = limit or MOST_UNITS
for i = 1, call.count do
  local user, quantity, request = users[i], wanted[i], call.requests and call.requests[i] or ''
  local digest = digest_of('deduct', call.texts[i], user)
  local had, status = 0, nil
  if held then
    had = now[user] or units_held(held[i])
  end
  if i <= decided then
    status = decided_as(seen[request], digest)
  elseif not had then
    status = CORRUPT
  elseif request ~= '' then
    status = settled(seen[request], digest)
  end
  if not status then
    status = shut
    if not status and kind == 'hash' then
      if had + quantity > most then status = LIMIT_EXCEEDED end
    elseif not status and kind ~= 'counter' then
      if had > 0 or (kind == 'coupon' and quantity > 1) then status = LIMIT_EXCEEDED end
    end
    if not status and quantity > left then
      status = OUT_OF_STOCK
      if call.borrows then
        stop_before(call, i)
        break
      end
    end
    if not status then
      status = OK
      left, had = left - quantity, had + quantity
      applied[#applied + 1], quantities[#quantities + 1] = i, call.texts[i]
      if held and not is_touched[user] then touched[#touched + 1], is_touched[user] = user, true end
    end
    keep(call, request, digest, status, kept)
  end
  if is_refusal(status) then refused = refused + 1 end
  if held then now[user] = had end
  letters[i] = LETTERS[status]
  if bought then bought[i] = shown_packed(held and had) end
end

-- Write: the stock first.
if not call.dry then
  if #applied > 0 then
    if redis.acl_check_cmd then
      local denied = not redis.acl_check_cmd('HSET', KEYS[3], 'f', 'v') and 'HSET'
        or rules.ledger and not redis.acl_check_cmd('XADD', KEYS[4], '*', 'f', 'v') and 'XADD'
        or (kind == 'set' or kind == 'coupon') and not redis.acl_check_cmd('SADD', KEYS[5], 'm') and 'SADD'
      if denied then return forbidden(denied) end
    end
    take_and_record(call, stock - left, touched, now)
  end
  if #kept > 0 or decided < call.count then write_requests(call, kept, refused) end
  if #applied > 0 and rules.ledger then
    redis.call('XADD', KEYS[4], '*', unpack(order_entry(call, left, applied, quantities)))
  end
end
return packed(call, letters, bought, refused)
