--[[
  deduct: takes units of one activity, for one order or for many, with the meaning of one after the other.

  KEYS[1]  stock          string  units left
  KEYS[2]  meta           hash    rules, withdrawn; may be absent
  KEYS[3]  requests       hash    request id -> digest of the order; <tab>j:deduct:<job> -> line, refused, digest;
                                  <tab>begun -> what a call that gives units back is about to do
  KEYS[4]  ledger         stream  one entry a call
  KEYS[5]  participants   hash: user -> units (kind hash) | set: users (kinds set and coupon) | none (kind counter)
  KEYS[6]  units          hash    units of a set's members; kind set only

  One order has 5 to 8 arguments:
  ARGV[1]  kind           hash, set, coupon or counter
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

  Many orders, a column each, have 9 to 15:
  ARGV[1..2]              as above
  ARGV[3]  users          JSON array of texts, at most 2,000
  ARGV[4]  quantities     JSON array of as many texts; or one quantity, that of all
  ARGV[5]  job            name of the job, or empty: then the next four are of no use
  ARGV[6]  digest of the job, ARGV[7] epoch, ARGV[8] the line before the first of this activity
  ARGV[9]  lines          of the orders: `first-last` if they follow each other, else all in rising order, joined by spaces
  ARGV[10] requests       JSON array of as many request ids, which may be empty; empty or left out: none has one
  ARGV[11] rows           1: with a job, the reply says what each user holds; may be left out
  ARGV[12] reason, ARGV[13] reasons (JSON array of as many texts), ARGV[14] limit, ARGV[15] mode: may be empty or left out

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
  For many orders one string `letters stock refused [bought ...]`: a letter an order (o ok, r replayed, l limit_exceeded,
  s out_of_stock, q request_conflict, c corrupt, b reversed; without a job also p paused, n not_started, e ended), the stock before
  the call, how many the job refused so far, and, without a job always, what each user holds after the order. What
  refuses the whole activity is {status, stock, line}, with the last line the job decided; and with a job also
   -20 gap               {-20, line}: the line before is not the last one decided
   -21 other epoch       {-21, epoch}: the activity was reset since the job began
   -22 other job         {-22}: the job's name was used with another digest
  In mode borrow many orders end before the first that the stock does not cover: the letters are those of the orders before it.
  Only ok, a refused retry, and the line of a job write; the stock first, so that a cut leaves fewer units to sell, never
  more. A refund, release or expiry that was cut is finished first, but for deadlines; not by a dry run.

  Commands it needs (checked before the first write from Redis 7.0 on): GET HMGET HGET TYPE EXISTS TIME XLEN
  XREVRANGE DECRBY HSET XADD; sets also SMISMEMBER SADD SREM. Plain orders are quicker if HDEL is allowed too.
  INCRBY HDEL XRANGE finish what was cut: without them orders of its users are refused.
]]
--- @include "codes"

-- Quick path: one plain order, or the plain orders of a job. It replies, or leaves the call to the reference path
-- before it has written anything; helpers cost more than an order to define, so it comes before them.
-- Texts are matched before they are numbers, and have up to 13 digits, because Lua's `..` writes sums of them as plain digits.
if #ARGV == 5 and ARGV[1] == 'hash' and #KEYS == 5 then
  local find, call, ask = string.find, redis.call, redis.pcall
  local by, user, quantity_text, request = ARGV[2], ARGV[3], ARGV[4], ARGV[5]
  local is_plain = by ~= '' and (quantity_text == '1' or #quantity_text < 10 and find(quantity_text, '^[1-9]%d*$'))
    and #user <= 256 and #request <= 128
    -- Most ids are letters and digits; what JSON escapes is left to the reference path.
    and (find(user, '^%w+$') or find(user, '^[^%s%c"\\\127][^%c"\\\127]*$') and not find(user, '%s$'))
    and find(request, '^[#-Z^-~%[%]]+$')
  local stock_text = is_plain and ask('GET', KEYS[1])
  local rules = type(stock_text) == 'string' and #stock_text < 14
    and (stock_text == '0' or find(stock_text, '^[1-9]%d*$')) and ask('HGET', KEYS[2], 'rules')
  local limit_text, total_text, starts, ends =
    string.match(type(rules) == 'string' and rules or '', '^live 1 [1-9]%d?%d?%d?%d?%d?%d? (%S+) ([1-9]%d*) (%S+) (%S+)$')
  local is_open = starts == '-' and ends == '-'
  if limit_text and not is_open and (starts == '-' or #starts < 14 and find(starts, '^[1-9]%d*$'))
    and (ends == '-' or #ends < 14 and find(ends, '^[1-9]%d*$')) then
    local clock = call('TIME')
    local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
    is_open = (starts == '-' or now >= starts + 0) and (ends == '-' or now < ends + 0)
  end
  if is_open and #total_text < 14 and (limit_text == '-' or #limit_text < 14 and find(limit_text, '^[1-9]%d*$')) then
    local entries, known = ask('XLEN', KEYS[4]), ask('HMGET', KEYS[3], request, '\tbegun')
    if type(entries) == 'number' and entries > 0 and known[1] == false and known[2] == false then
      local stock, quantity, held_text, held = stock_text + 0, quantity_text + 0, ask('HGET', KEYS[5], user), nil
      if held_text == false then
        if total_text + 0 <= stock or ask('EXISTS', KEYS[5]) == 1 then held = 0 end
      elseif type(held_text) == 'string' and #held_text < 14 and find(held_text, '^[1-9]%d*$') then
        held = held_text + 0
      end
      if held then
        local bought, left, allowed = held + quantity, stock - quantity, redis.acl_check_cmd
        if limit_text ~= '-' and bought > limit_text + 0 then return {LIMIT_EXCEEDED, stock, held} end
        if left < 0 then return {OUT_OF_STOCK, stock, held} end
        if not allowed or allowed('HSET', KEYS[3], 'f', 'v') and allowed('HDEL', KEYS[3], 'f') then
          -- Nothing was sold yet: `take_and_record` says why.
          local marks = held_text == false and total_text + 0 <= stock and (not allowed or allowed('DECRBY', KEYS[1], '1'))
          if marks then call('HSET', KEYS[3], '\tbegun', 'first') end
          call('DECRBY', KEYS[1], quantity_text)
          call('HSET', KEYS[5], user, held == 0 and quantity_text or bought .. '')
          if marks then call('HDEL', KEYS[3], '\tbegun') end
          call('HSET', KEYS[3], request, quantity_text == '1' and user or quantity_text .. '\t' .. user)
          local added = ask('XADD', KEYS[4], '*', 'op', 'deduct', 'stock', left .. '', 'by', by, 'quantity', quantity_text,
            'users', '["' .. user .. '"]', 'requests', '["' .. request .. '"]')
          if type(added) == 'string' then return {OK, left, bought} end
          -- A ledger at its last id, which is too dear to look for: all is as it was, and the reference path says why.
          call('HDEL', KEYS[3], request)
          if held == 0 then call('HDEL', KEYS[5], user) else call('HSET', KEYS[5], user, held_text) end
          call('DECRBY', KEYS[1], '-' .. quantity_text)
        end
      end
    end
  end
end
--- @include "quick_job"
local quick_reply = quick_job('deduct')
if quick_reply then return quick_reply end

-- Includes.
--- @include "values"
--- @include "meta"
--- @include "finish_begun"
--- @include "orders"
--- @include "columns"
--- @include "call"

-- Reference path.
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
local letters, bought, refused, left, last = {}, (call.rows or not call.job) and {}, 0, stock, nil
local most = limit or MOST_UNITS
for i = 1, call.count do
  local user, quantity, request = users[i], wanted[i], call.requests and call.requests[i] or ''
  local digest = digest_of('deduct', call.texts[i], user)
  local had, status = 0, nil
  if held then
    had = now[user] or units_held(held[i])
    if not had and call.single then return unfit(held[i], kind == 'set' and 6 or 5) end
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
      if call.borrows and not call.single then
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
  letters[i], last = LETTERS[status], status
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
if call.single then return {last, left, held and shown(now[users[1]])} end
return packed(call, letters, bought, refused)
