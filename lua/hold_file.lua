--[[
  hold_file: takes units of one activity with a deadline, for many orders, with the meaning of one after the other. `seckill` alone
  calls it.

  KEYS[1]  stock          string  units left
  KEYS[2]  meta           hash    rules, withdrawn
  KEYS[3]  requests       hash    request id -> digest of the order; <tab>h:<id> -> `state quantity deadline order user`;
                                  <tab>o:<user> -> units held open, <tab>holds of all users; <tab>j:hold:<job> -> line, refused, digest;
                                  <tab>begun -> what a call that gives units back is about to do
  KEYS[4]  ledger         stream  one entry a call, and one for what is expired
  KEYS[5]  participants   hash: user -> units (kind hash) | set: users (kinds set and coupon); with what is held open
  KEYS[6]  units          hash    units of a set's members; kind set only
  last key deadlines      sorted set  request id by deadline, Unix ms: KEYS[6], of kind set KEYS[7]

  Columns of at most 1,000 orders, 14 to 16 arguments, as for deduct_file:
  ARGV[1]  kind (the one that this script is of), ARGV[2] by
  ARGV[3]  users, ARGV[4] quantities (or one), ARGV[5..9] job, its digest, epoch, the line before, lines
  ARGV[10] requests: none may be empty; ARGV[11] rows, ARGV[12] reason, ARGV[13] reasons: may be empty
  ARGV[14] duration       how long they are held, in ms, 1 to 31,536,000,000 (a year)
  ARGV[15] borrow, ARGV[16] distinct: may be left out

  Returns `letters stock refused deadlines [bought ...]`, as deduct_file with the deadline of what it holds now before what users
  hold, and with the letters o, r, l, s, q, c, h (not_held), v (expired), b (reversed). If it says what users
  hold, it has the deadline of the hold of each order, joined by commas, or one if all are equal (0: none).
  If stock or limit are short, up to 16 overdue holds are expired first, as hold does it, and a call that gives units back and was
  cut is finished first.
  Only ok, what is expired, and the line of the job write, in the order of hold.

  Commands it needs (checked before the first write from Redis 7.0 on): GET HMGET HGET TYPE EXISTS TIME DECRBY INCRBY HSET HDEL
  ZADD ZREM ZRANGEBYSCORE XLEN XRANGE XREVRANGE XADD; sets also SMISMEMBER SADD SREM.
]]
--- @kinds hash set coupon
--- @let OP = hold
--- @use "codes"
local KEYS, ARGV, redis = KEYS, ARGV, redis
--- @use "values"
--- @use "columns"
--- @use "status_letters"
--- @include "file"
-- Six values an order are written at once, and unpack fails near 8,000.
if count > 1000 then return usage('hold: more than 1000 orders in one call') end
for i = 1, count do
  if not requests or requests[i] == '' then return usage('hold: order ' .. i .. ' has no request id') end
end
local duration = whole(ARGV[14])
if not duration or duration < 1 or duration > 31536000000 then return usage('hold: the duration is not 1 to 31536000000 ms') end

-- Each turn reads everything anew: one after a call that was cut was finished, one after holds were expired.
local call, has_expired = nil, false
for turn = 1, 3 do
  if call then
    --- @include "rare_work"
  end
  repeat
    count = #users
    --- @include "activity"
    --- @include "deadlines"
    local clock = redis.call('TIME')
    local now_ms = clock[1] * 1000 + math.floor(clock[2] / 1000)
    local deadline_text = digits(now_ms + duration)
    --- @include "job"
    local shut = state == 'paused' and PAUSED or starts and now_ms < starts and NOT_STARTED or ends and now_ms >= ends and ENDED or nil
    if decided < count then
      if shut then return {shut, stock, line} end
      if before > line then return {GAP, line} end
    end
    --- @include "held_many"
    --- @let COUNT = count
    --- @include "open_many"
    -- Records of holds whose request ids are known.
    local records, asked, at = {}, {}, {}
    for i = 1, count do
      if found[i + 2] then asked[#asked + 1], at[#at + 1] = '\th:' .. requests[i], i end
    end
    if #asked > 0 then
      local texts = redis.call('HMGET', KEYS[3], unpack(asked))
      for n = 1, #at do records[at[n]] = texts[n] end
    end

    -- Decide, one order after the other.
    --- @include "tally"
    local due, now_open, held_until, is_short = {unpack(requests)}, {}, {}, false
    for i = 1, decided do
      local user, its_text = users[i], quantities and quantities[i] or common
      --- @include "units_before"
      letters[i], known = 'r', found[i + 2]
      if known then
        -- A repair may have taken it back since.
        local digest, record, status, its_deadline = 'hold ' .. its_text .. '\t' .. user, records[i], nil, nil
        --- @include "known_hold"
        if status == REVERSED then letters[i] = 'b' end
        held_until[i] = its_deadline
      end
      --- @include "units_after"
    end
    local head_text, digest_head, record_head
    for i = decided + 1, count do
      local user = users[i]
      --- @include "next_order"
      --- @include "units_before"
      if text ~= head_text then
        head_text, digest_head, record_head = text, 'hold ' .. text .. '\t', 'held ' .. text .. ' ' .. deadline_text .. ' - '
      end
      if FITS and units <= left and not known then
        --- @include "take_order"
        local digest, its_open = digest_head .. user, (now_open[user] or open[i] or 0) + units
        if repeats then now_open[user], once[request] = its_open, digest end
        local open_text = texts[its_open]
        if not open_text then
          open_text = digits(its_open)
          texts[its_open] = open_text
        end
        due[2 * applied - 1], due[2 * applied] = deadline_text, request
        kept[kept_size + 1], kept[kept_size + 2], kept[kept_size + 3] = request, digest, '\th:' .. request
        kept[kept_size + 4], kept[kept_size + 5], kept[kept_size + 6] = record_head .. user, open_fields[i], open_text
        kept_size = kept_size + 6
      else
        local digest, status = digest_head .. user, nil
        if not had then
          status = CORRUPT
        elseif known then
          local record, its_deadline = not once[request] and records[i], nil
          --- @include "known_hold"
          if once[request] and status == REPLAYED then its_deadline = deadline_text end
          held_until[i] = its_deadline
        else
          status, is_short = not (FITS) and LIMIT_EXCEEDED or OUT_OF_STOCK, true
          if status == OUT_OF_STOCK and borrows then
            -- It waits until units are borrowed, and so do those behind it.
            count = i - 1
            break
          end
        end
        if status < 0 and status ~= REVERSED then refused = refused + 1 end
        letters[i] = LETTERS[status]
      end
      --- @include "units_after"
    end
    if key then break end
    --- @let IS_NEW = true
    --- @include "first_user"
    if is_short and holds > 0 and not has_expired
      and #redis.call('ZRANGEBYSCORE', KEYS[DEADLINES], '-inf', digits(now_ms), 'LIMIT', '0', '1') > 0 then
      --- @include "rare_call"
      call.holds = holds
      break
    end

    -- Write: the deadlines, then the stock.
    if applied > 0 then
      --- @let SELLS = true
      --- @include "rights_of_orders"
      --- @include "forbidden"
      redis.call('ZADD', KEYS[DEADLINES], unpack(due, 1, 2 * applied))
      --- @include "mark_nobody"
      redis.call('DECRBY', KEYS[1], digits(stock - left))
      --- @include "file_users"
      kept[kept_size + 1], kept[kept_size + 2], kept_size = '\tholds', digits(holds + (stock - left)), kept_size + 2
    end
    --- @include "file_line"
    --- @include "file_end"
  until true
  if key then break end
end
--- @include "damaged"
