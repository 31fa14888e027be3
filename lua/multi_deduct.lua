--[[
  multi_deduct: takes units of several activities for one user in one step, all or nothing.

  KEYS for each of the activities, in turn (4, 5 or 6 of them, by kind):
    KEYS[at + 1]  stock          string  units left
    KEYS[at + 2]  meta           hash    rules, withdrawn; may be absent
    KEYS[at + 3]  requests       hash    request id -> digest of the order;
                                         <tab>begun -> what a call that gives units back is about to do
    KEYS[at + 4]  ledger         stream  one entry a call
    KEYS[at + 5]  participants   hash: user -> units (kind hash) | set: users (kinds set and coupon) | none (kind counter)
    KEYS[at + 6]  units          hash    units of a set's members; kind set only

  ARGV[1]  kind      hash, set, coupon or counter: the one that this script is of
  ARGV[2]  by        who runs this, for the ledger; may be empty
  ARGV[3]  mode      `first`, `retry` (it may have been sent before, and a refusal is kept under its request id), or `dry` (nothing
                     is written)
  ARGV[4]  reason    why, for the ledger; may be empty
  ARGV[5]  user      may be empty for a counter
  ARGV[6]  request id  may be empty
  ARGV[7..]          the quantity of each activity, in the order of KEYS

  Returns for one order a string, `status item item ...` with an item `status,stock,bought`; stock and bought are those after it, empty if
  there are none (bought is `?` for a member of a set without units). An item that is corrupt is `-11,n,hex`: KEYS[n] holds the
  value whose bytes are given in hexadecimal (`-`: it is of the wrong type).
  The order is
     1 ok                all units are taken
     2 replayed          this request was applied before
    -1 refused           nothing is taken; the items say why
  and an item one of these, -1 if alone it would have been fine, 2 if it stays bought (a repair took back another item), or
    -2 limit_exceeded    the user would hold more than the limit
    -3 out_of_stock      fewer are left
    -4 not_preheated     its stock key is absent
    -5 not_started       before the window
    -6 ended             after the window, or archived
    -7 paused            an operator paused it; the stock includes what is withdrawn
    -9 request_conflict  the request id was used for something else, or only some of the activities know it
   -11 corrupt           one of its keys holds what it must not
   -15 sharded           its units are in activities of their own
   -16 reversed          a repair took it back: order anew with a new request id
  Only ok and a refused retry write; all stocks first, so that a cut leaves fewer units to sell, never more. A refund,
  release or expiry that was cut is finished first, as by deduct.

  Commands it needs (checked before the first write from Redis 7.0 on): GET HGET HMGET TYPE EXISTS TIME XLEN XREVRANGE
  DECRBY HSET XADD; sets also SMISMEMBER SADD SREM. With HDEL, which Redis 6.2 needs, the first user is recorded
  behind a mark. INCRBY HDEL XRANGE finish what was cut: without them orders of its users are refused.
]]
--- @kinds hash set coupon counter
--- @use "codes"
--- @use "numbers"
local keys, redis, digest = KEYS, redis, nil

-- One activity of the order. Returns its item, with what writes it, the refusal of the whole activity, or an error.
local function read(KEYS, ARGV)
  --- @include "order"
  local units = quantity + 0
  for turn = 1, 2 do
    repeat
      --- @include "activity"
      --- @include "request"
      --- @include "held"
      --- @let IS_NEW = not found and total
      --- @include "first_user"
      --- @include "closed_now"
      local status = shut
      --- @include "exceeds_limit_or_stock"
      local item = {stock = stock, had = SHOWN, left = stock - units, bought = SHOWN_AFTER, status = status}
      if known then
        local code, rest = string.match(known, '^(%-%d+)\t(.*)$')
        item.was = known == digest and REPLAYED or rest == digest and tonumber(code) or REQUEST_CONFLICT
      end

      local left, allowed, has_mark = item.left, redis.acl_check_cmd, false
      item.denied = function(sells)
        --- @let SELLS = sells
        --- @include "rights_of_orders"
        return denied
      end
      item.keep = function(record)
        redis.call('HSET', KEYS[3], request, record)
      end
      item.take = function()
        --- @include "mark_nobody"
        has_mark = marks
        redis.call('DECRBY', KEYS[1], quantity)
      end
      item.record = function()
        local marks = has_mark
        --- @let HELD_AFTER = format('%.0f', item.bought)
        --- @include "record_user"
        if request ~= '' then item.keep(digest) end
        if has_ledger then
          --- @let SCRIPT = deduct
          --- @include "entry"
          redis.call('XADD', KEYS[4], '*', unpack(entry))
        end
      end
      return item
    until true
    if key then break end
  end
  --- @include "damaged"
end

local function usage(what)
  return redis.error_reply('USAGE multi_deduct: ' .. what)
end
local mode, user, request, activities = ARGV[3], ARGV[5], ARGV[6], #keys / KEY_COUNT
if ARGV[1] ~= KIND then return usage('ARGV[1] is not ' .. KIND .. ', the kind of this script') end
if activities < 1 or activities % 1 ~= 0 then
  return usage('kind ' .. KIND .. ' has KEY_COUNT keys an activity, not ' .. #keys .. ' in all')
end
if activities > 512 then return usage('more than 512 activities in one call') end
if #ARGV ~= 6 + activities then return usage(format('%d arguments are wanted, not %d', 6 + activities, #ARGV)) end
local asked, given, items = {}, {}, {}
for which = 1, activities do
  local stock_key, quantity = keys[KEY_COUNT * (which - 1) + 1], ARGV[6 + which]
  local units = whole(quantity)
  if not units or units < 1 or units > MOST_QUANTITY then return usage('quantity of item ' .. which) end
  -- Each would be checked alone against a stock that both take from.
  if given[stock_key] then return usage('activity ' .. which .. ' is given twice, first as ' .. given[stock_key]) end
  given[stock_key], asked[which] = which, stock_key .. ' ' .. quantity
end
if request ~= '' then
  table.sort(asked)
  digest = 'multi_deduct ' .. redis.sha1hex(table.concat(asked, '\n')) .. '\t' .. user
end
for which = 1, activities do
  local item = read({unpack(keys, KEY_COUNT * (which - 1) + 1, KEY_COUNT * which)},
    {KIND, ARGV[2], user, ARGV[6 + which], request, mode, ARGV[4]})
  if item.err then return item end
  if item[1] then item = {status = item[1], is_whole = true, key = item[4], value = item[5]} end
  items[which] = item
end
--- @include "multi_order"

-- Write: what the caller may do, then all stocks, then the rest. A refusal is kept only of a retry, because the first try, arriving
-- late, could still do what was reported refused.
local keeps = status == REFUSED and mode == 'retry' and request ~= '' and not was
if mode ~= 'dry' and (status == OK or keeps) then
  for _, item in ipairs(items) do
    local denied = not item.is_whole and item.denied(status == OK)
    --- @include "forbidden"
  end
  for _, item in ipairs(items) do
    if keeps and not item.is_whole then item.keep(REFUSED .. '\t' .. digest) end
    if status == OK then item.take() end
  end
  for _, item in ipairs(items) do
    if status == OK then item.record() end
  end
end

local reply = {status}
for which, item in ipairs(items) do
  if item.status == CORRUPT then
    local function hex(byte) return format('%02x', string.byte(byte)) end
    local value = item.value and string.gsub(item.value, '.', hex) or '-'
    reply[which + 1] = CORRUPT .. ',' .. KEY_COUNT * (which - 1) + item.key .. ',' .. value
  else
    local left, bought = item.stock, item.had
    if status == OK then left, bought = item.left, item.bought end
    left = left and format('%.0f', left) or ''
    if type(bought) == 'number' then bought = format('%.0f', bought) end
    reply[which + 1] = item.status .. ',' .. left .. ',' .. (bought or '')
  end
end
return table.concat(reply, ' ')
