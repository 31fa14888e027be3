--[[
  multi_deduct_file: takes units of several activities for the orders of a job, one after the other, each of them all or nothing.
  `seckill` alone calls it.

  KEYS for each of the activities, in turn (4, 5 or 6 of them, by kind):
    KEYS[at + 1]  stock          string  units left
    KEYS[at + 2]  meta           hash    rules, withdrawn; may be absent
    KEYS[at + 3]  requests       hash    request id -> digest of the order; <tab>j:multi_deduct:<job> -> line, refused, digest;
                                         <tab>begun -> what a call that gives units back is about to do
    KEYS[at + 4]  ledger         stream  one entry a call
    KEYS[at + 5]  participants   hash: user -> units (kind hash) | set: users (kinds set and coupon) | none (kind counter)
    KEYS[at + 6]  units          hash    units of a set's members; kind set only

  ARGV is as deduct_file has it of several activities, but for a limit. Items of the same line are one order:
  ARGV[1]  kind           hash, set, coupon or counter: the one that this script is of
  ARGV[2]  by             who runs this, for the ledger; may be empty
  ARGV[3]  job            its name
  ARGV[4]  digest         of the job
  ARGV[5]  rows           1 if the reply should tell what each user holds
  ARGV[6]  reason         why, for the ledger; may be empty
  ARGV[7]                 empty
  ARGV[8]  distinct       1: no user and no request id comes twice, so that no order depends on one before it
  and then for each activity five arguments: its epoch; the line before these, the last one that the job is known to have decided
  there; the lines of its items (`first-last` if they follow each other, else all in rising order, joined by spaces); quantities (one
  number if all are equal, else a column); and users, a column: texts with tabs between them; or six, with requests; or seven, with reasons,
  columns of as many texts, which may be empty, or an empty text. At most 2,000 items in all.

  Returns one reply an activity: a string `letters stock refused [bought ...]`: a letter an item (o ok, r replayed, d refused,
  l limit_exceeded, s out_of_stock, t not_preheated, k sharded, n not_started, e ended, p paused, q request_conflict, c corrupt,
  b reversed), the stock before the call (`-` without one), how many of its items the job has refused so far, and what each user
  holds after the item; or {string, status, n, value}, if status refuses the whole activity (else 0), or if something is corrupt: its
  KEYS[n] holds value (false: it is of the wrong type). An order without a request id is decided, and replayed, if the job's lines
  in all its activities reached its line. An activity that refuses as a whole keeps no line, so that its orders are not decided. A
  call takes nothing if an activity does not know what the caller does:
   -20 gap               {-20, n, line}: activity n (from 1) has decided up to that line, and no further
   -21 other epoch       {-21, n, epoch}: activity n was reset since the job began
   -22 other job         {-22, n}: the job's name was used with another digest in activity n
  Only ok and the line of a job write, also that of a refused order; all stocks first, so that a cut leaves fewer units to sell,
  never more. A refund, release or expiry that was cut is finished first, as by deduct.

  Commands it needs (checked before the first write from Redis 7.0 on): GET HGET HMGET TYPE EXISTS TIME XLEN XREVRANGE
  DECRBY HSET XADD; sets also SMISMEMBER SADD SREM. With HDEL, which Redis 6.2 needs, the first user is recorded
  behind a mark. INCRBY HDEL XRANGE finish what was cut: without them orders of its users are refused.
]]
--- @kinds hash set coupon counter
--- @let OP = multi_deduct
--- @use "codes"
local KEYS, ARGV, redis = KEYS, ARGV, redis
--- @use "values"
--- @use "columns"
--- @use "status_letters"

-- Mostly, orders of a file name the same activities, which then have the same columns: each is read once.
local function once_a_text(read)
  local known = {}
  return function(text, class)
    if #text < 300 then return read(text, class) end
    local of_class = known[class or ''] or {}
    known[class or ''] = of_class
    if not of_class[text] then of_class[text] = {read(text, class)} end
    return unpack(of_class[text])
  end
end
local read_column = once_a_text(read_column)

-- One activity, a coroutine that waits for the others at each `yield`. It gives the columns of its items, and gets their digests;
-- whether all of them can be had, and gets whether that is so of all activities; if not, each item, and gets the status of its order
-- and whether it counts as refused; what the caller may not run; and nothing, once its stock is taken. Returns the reply, the
-- refusal of the whole activity, or an error.
local yield = coroutine.yield
local function sell(KEYS, ARGV)
  --- @include "file"
  local digests = yield({
    stock_key = KEYS[1], users = users, quantities = quantities, common = common, requests = requests, reasons = reasons,
    lines = lines, first = first, lines_text = ARGV[9],
  })
  for turn = 1, 2 do
    repeat
      --- @include "activity"
      --- @include "job"
      --- @include "closed_now"
      if before > line and not shut then return {GAP, line} end
      --- @include "held_many"
      --- @let IS_NEW = total
      --- @include "first_user"

      -- Decide: all items at once, if all can be had; else one after the other, each with the rest of its order.
      --- @include "tally"
      local takes_all = decided == 0 and not shut
      for attempt = 1, 2 do
        for i = 1, (takes_all or attempt == 2) and count or 0 do
          local user, digest = users[i], digests[i]
          --- @include "next_order"
          --- @include "units_before"
          local takes = FITS and units <= left and not known
          if attempt == 2 then
            local item = {status = shut or not (FITS) and LIMIT_EXCEEDED or units > left and OUT_OF_STOCK or nil, shut = shut}
            --- @if hash
            if not had then item.status, item.key, item.value = CORRUPT, 5, held[i] end
            --- @end
            --- @if set
            if not had then item.status, item.key, item.value = CORRUPT, 6, units_of[i] end
            --- @end
            item.was, item.is_decided = known and settled(known, digest), i <= decided
            local status, is_refused = yield(item)
            takes = status == OK
            if not takes then letters[i] = LETTERS[status] end
            if is_refused then refused = refused + 1 end
          elseif not takes then
            takes_all = false
            break
          end
          if takes then
            --- @include "take_order"
            if digest then
              kept[kept_size + 1], kept[kept_size + 2], kept_size = request, digest, kept_size + 2
              if repeats then once[request] = digest end
            end
          end
          --- @include "units_after"
        end
        if attempt == 1 and yield(takes_all) then break end
        if attempt == 1 then
          left, applied, kept_size, once, size = stock, 0, 0, {}, 0
          --- @if hash set coupon
          now = {}
          --- @end
        end
      end

      -- Write: the stock of each activity first.
      local has_mark = false
      --- @let SELLS = applied > 0
      --- @include "rights_of_orders"
      yield(denied)
      if applied > 0 then
        --- @include "mark_nobody"
        has_mark = marks
        redis.call('DECRBY', KEYS[1], digits(stock - left))
      end
      yield()
      if applied > 0 then
        local marks = has_mark
        --- @include "file_users"
      end
      if not shut then
        --- @include "file_line"
      end
      --- @let OP = deduct
      --- @include "file_end"
    until true
    if key then break end
  end
  --- @include "damaged"
end
--- @let OP = multi_deduct
local runs = {}
local function apply(KEYS, ARGV)
  runs[#runs + 1] = coroutine.wrap(sell)
  return runs[#runs](KEYS, ARGV)
end
--- @include "each_activity"
local sales = replies

-- Each would be checked alone against a stock that both take from.
local item_count, given_as, differ, has_requests = 0, {}, false, false
for which, sale in ipairs(sales) do
  local first, key = sales[1], sale.stock_key
  if given_as[key] then return usage(format('multi_deduct: activity %d is given twice, first as %d', which, given_as[key])) end
  given_as[key], item_count = which, item_count + #sale.users
  if item_count > 2000 then return usage('multi_deduct: more than 2000 items in one call') end
  has_requests = has_requests or sale.requests
  differ = differ or sale.users ~= first.users or sale.lines_text ~= first.lines_text or sale.requests ~= first.requests
    or sale.reasons ~= first.reasons
end

-- The orders, by their lines: the activities that each names, and the places of its items there, in turn.
local orders, numbers = {}, {}
local function at(column, i) return column and column[i] or '' end
local function join_items()
  local is_sorted, last = true, 0
  for which, sale in ipairs(sales) do
    local users, lines, first = sale.users, sale.lines, sale.first
    for i = 1, #users do
      local line = lines and lines[i] or first + i - 1
      local order = orders[line]
      if not order then
        orders[line], numbers[#numbers + 1], is_sorted, last = {which, i}, line, is_sorted and line > last, line
      else
        local other, n = sales[order[1]], order[2]
        if users[i] ~= other.users[n] or at(sale.requests, i) ~= at(other.requests, n)
          or at(sale.reasons, i) ~= at(other.reasons, n) then
          return usage(format('multi_deduct: user, request or reason of item %d of activity %d is not that of its order', i, which))
        end
        order[#order + 1], order[#order + 2] = which, i
      end
    end
  end
  if not is_sorted then table.sort(numbers) end
end
if differ or has_requests then
  local fault = join_items()
  if fault then return fault end
end
for _, sale in ipairs(sales) do sale.digests = {} end
for n = 1, has_requests and #numbers or 0 do
  local order, asked = orders[numbers[n]], {}
  local first, i = sales[order[1]], order[2]
  if at(first.requests, i) ~= '' then
    for k = 1, #order, 2 do
      local sale = sales[order[k]]
      asked[#asked + 1] = sale.stock_key .. ' ' .. (sale.quantities and sale.quantities[order[k + 1]] or sale.common)
    end
    table.sort(asked)
    local digest = 'multi_deduct ' .. redis.sha1hex(concat(asked, '\n')) .. '\t' .. first.users[i]
    for k = 1, #order, 2 do sales[order[k]].digests[order[k + 1]] = digest end
  end
end

-- Read.
local takes_all, found = true, {}
for which, run in ipairs(runs) do
  found[which] = run(sales[which].digests)
  takes_all = takes_all and found[which] == true
end
for which, refusal in ipairs(found) do
  if type(refusal) == 'table' then
    if refusal.err then return refusal end
    if refusal[1] <= GAP then return {refusal[1], which, refusal[2]} end
    sales[which].refusal, sales[which].letters = refusal, {}
  end
end

-- Decide. At last each activity says what the caller may not run.
for which, run in ipairs(runs) do
  if not sales[which].refusal then found[which] = run(takes_all) end
end
if not takes_all and #numbers == 0 then join_items() end
for n = 1, takes_all and 0 or #numbers do
  local order, items, is_open = orders[numbers[n]], {}, true
  for k = 1, #order, 2 do
    local refusal = sales[order[k]].refusal
    local item = refusal and {status = refusal[1], is_whole = true} or found[order[k]]
    items[#items + 1], is_open = item, is_open and not refusal and not item.shut
  end
  --- @include "multi_order"
  for k, item in ipairs(items) do
    local which = order[2 * k - 1]
    local sale = sales[which]
    sale.shut = item.shut
    if item.status == CORRUPT and not sale.key then sale.key, sale.value = item.key, item.value end
    if sale.refusal then
      sale.letters[#sale.letters + 1] = LETTERS[item.status]
    else
      found[which] = runs[which](item.status, is_open and status == REFUSED and was ~= REVERSED)
    end
  end
end

-- Write.
for which, sale in ipairs(sales) do
  local denied = not sale.refusal and found[which]
  --- @include "forbidden"
end
for which, run in ipairs(runs) do
  if not sales[which].refusal then run() end
end
for which, sale in ipairs(sales) do
  local refusal = sale.refusal
  if refusal then
    local text = concat(sale.letters) .. ' - 0' .. (rows == '1' and string.rep(' 0', #sale.letters) or '')
    replies[which] = {text, refusal[1], refusal[4] or false, refusal[5] or false}
  else
    local text = runs[which]()
    replies[which] = (sale.shut or sale.key) and {text, sale.shut or 0, sale.key or false, sale.value or false} or text
  end
end
return replies
