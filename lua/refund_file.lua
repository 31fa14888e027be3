--[[
  refund_file: gives units of one activity back, for many orders, one after the other. `seckill` alone calls it.

  KEYS[1]  stock          string  units left
  KEYS[2]  meta           hash    rules, withdrawn, holds; may be absent
  KEYS[3]  requests       hash    request id -> digest of the order; <tab>j:refund:<job> -> line, refused, digest;
                                  <tab>o:<user> -> units held open;
                                  <tab>begun -> what a call that gives units back is about to do, as of refund
  KEYS[4]  ledger         stream  one entry a call
  KEYS[5]  participants   hash: user -> units (kind hash) | set: users (kinds set and coupon) | none (kind counter)
  KEYS[6]  units          hash    units of a set's members; kind set only

  Columns of 9 to 15 arguments, as for deduct_file:
  ARGV[1]  kind, ARGV[2] by
  ARGV[3]  users, ARGV[4] quantities (or one, or `all`), ARGV[5..9] job, its digest, epoch, the line before, lines
  ARGV[10..15] requests, rows, reason, reasons, unsaid (as for refund), mode: may be left out

  Returns as deduct_file, with the letters o, r, x (exceeds_bought), q, c.
  While the stock is withdrawn, units go to meta's `withdrawn` instead; every stock above includes that.
  Only ok, a refused retry, and the line of a job write; the stock comes last, as in refund, and what was cut is finished as there.

  Commands it needs (checked before the first write from Redis 7.0 on): GET HGET HMGET TYPE EXISTS XLEN XRANGE XREVRANGE
  INCRBY HSET HDEL XADD; sets also SMISMEMBER SREM.
]]
--- @use "codes"
--- @use "return_batch"

-- Quick path: the plain orders of a job. It replies, or leaves the call to the reference path before it has written
-- anything; helpers cost more than an order to define, so it comes before them.
--- @use "quick_job"
local quick_reply = quick_job('refund', return_batch)
if quick_reply then return quick_reply end

-- Includes.
--- @use "values"
--- @use "meta"
--- @use "finish_begun"
--- @use "orders"
--- @use "columns"
--- @use "call"
--- @use "holds"

-- Reference path.
if #ARGV < 9 then return usage('refund: at least 9 arguments are wanted, not ' .. #ARGV) end
local call, reply = read_call('refund')
if not call then return reply end
local wanted, invalid = read_quantities(call, 'all')
if not wanted then return usage('refund: quantity of order ' .. invalid) end
if call.kind == 'counter' then
  for i = 1, call.count do
    if wanted[i] == 'all' then return usage('refund: all, but no user is recorded') end
  end
end

-- Read, and check, everything.
reply = read_activity(call)
if reply then return reply end
reply = read_requests(call)
if reply then return reply end
local kind, rules, stock = call.kind, call.rules, call.stock
local decided = call.decided or 0
if decided < call.count and leaves_gap(call) then return {GAP, call.line} end
reply = read_held(call)
if reply then return reply end
local open
open, reply = read_open(call, call.users)
if not open then return reply end

-- Decide, one order after the other. What is held open is not the user's to return.
local users, held, seen = call.users, call.held, call.seen
-- What users hold now; users whose number changed, each once; request ids and what they store; numbers of the orders
-- that are applied, and their quantities.
local now, touched, is_touched, kept, applied, quantities = {}, {}, {}, {}, {}, {}
local letters, bought, refused, left = {}, (call.rows or not call.job) and {}, 0, stock
local most = rules.total or MOST_UNITS
for i = 1, call.count do
  local user, quantity, request = users[i], wanted[i], call.requests and call.requests[i] or ''
  local digest = digest_of('refund', call.texts[i], user)
  local had, status = 0, nil
  if held then
    had = now[user] or units_held(held[i])
  end
  if i <= decided then
    status = REPLAYED
  elseif not had then
    status = CORRUPT
  elseif request ~= '' then
    status = settled(seen[request], digest)
  end
  local free = had and had - (open[user] or 0)
  if quantity == 'all' then quantity = math.max(free or 0, 0) end
  if not status then
    if (held and quantity > free) or quantity == 0 or left + quantity > most or had == UNKNOWN and call.extra == '1' then
      status = EXCEEDS_BOUGHT
    else
      status = OK
      left = left + quantity
      if held then
        had = had == UNKNOWN and 0 or had - quantity
        if not is_touched[user] then touched[#touched + 1], is_touched[user] = user, true end
      end
      applied[#applied + 1], quantities[#quantities + 1] = i, digits(quantity)
    end
    keep(call, request, digest, status, kept)
  end
  if status < 0 then refused = refused + 1 end
  if held then now[user] = had end
  letters[i] = LETTERS[status]
  if bought then bought[i] = shown_packed(held and had) end
end

-- Write: the stock last.
if not call.dry then
  keep_line(call, kept, refused)
  if #applied > 0 then
    local it = {units = digits(left - stock), set = kept, cleared = {}, ids = {}}
    it.users, it.gone = part_users(touched, now)
    if rules.ledger then it.entry = order_entry(call, left, applied, quantities) end
    local denied = may_not_return(kind, call.withdrawn, it)
    if denied then return forbidden(denied) end
    give_units_back(call, it)
  elseif #kept > 0 and (decided < call.count or not call.job) then
    redis.call('HSET', KEYS[3], unpack(kept))
  end
end
return packed(call, letters, bought, refused)
