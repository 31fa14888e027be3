--[[
  deduct_file: takes units for many orders, of one activity or of several, with the meaning of one after the other. `seckill` alone
  calls it.

  KEYS of one activity; of several, those of each in turn:
  KEYS[1]  stock          string  units left
  KEYS[2]  meta           hash    rules, withdrawn; may be absent
  KEYS[3]  requests       hash    request id -> digest of the order; <tab>j:deduct:<job> -> line, refused, digest;
                                  <tab>begun -> what a call that gives units back is about to do
  KEYS[4]  ledger         stream  one entry a call
  KEYS[5]  participants   hash: user -> units (kind hash) | set: users (kinds set and coupon) | none (kind counter)
  KEYS[6]  units          hash    units of a set's members; kind set only

  Orders of one activity have columns of 9 to 16 arguments:
  ARGV[1]  kind           hash, set, coupon or counter: the one that this script is of
  ARGV[2]  by             who runs this, for the ledger; may be empty
  ARGV[3]  users          a column: texts with tabs between them, at most 2,000
  ARGV[4]  quantities     a column of as many; or one quantity, that of all
  ARGV[5]  job            its name
  ARGV[6]  digest of the job, ARGV[7] epoch, ARGV[8] the line before the first of this activity
  ARGV[9]  lines          of the orders: `first-last` if they follow each other, else all in rising order, joined by spaces
  ARGV[10] requests       a column of as many request ids, which may be empty; empty or left out: none has one
  ARGV[11] rows           1: the reply says what each user holds; may be left out
  ARGV[12] reason, ARGV[13] reasons (a column of as many), ARGV[14] limit: may be empty or left out
  ARGV[15] borrow         `borrow`: the call ends before the first order that the stock does not cover: the letters are those of the
                          orders before it; may be empty or left out
  ARGV[16] distinct       1: no user and no request id comes twice, so that no order depends on one before it; may be left out
  Orders of several activities have kind, by, job, its digest, rows, reason, limit and distinct, as above; and then for each activity
  five arguments: epoch, the line before, lines, quantities and users; or six, with requests; or seven, with reasons.

  Returns one string `letters stock refused [bought ...]`: a letter an order (o ok, r replayed, l limit_exceeded,
  s out_of_stock, q request_conflict, c corrupt, b reversed), the stock before the call, how many the job refused so far, and what
  each user holds after the order. What refuses the whole activity is {status, stock, line}, as deduct has it, with the last line
  the job decided; and also
   -20 gap               {-20, line}: the line before is not the last one decided
   -21 other epoch       {-21, epoch}: the activity was reset since the job began
   -22 other job         {-22}: the job's name was used with another digest
  Returns for several activities one such reply each. They are decided one after the other, and the first error ends the call.
  Only ok and the line of the job write; the stock first, so that a cut leaves fewer units to sell, never more. A refund, release
  or expiry that was cut is finished first, but for deadlines.

  Commands it needs (checked before the first write from Redis 7.0 on): GET HMGET HGET TYPE EXISTS TIME XLEN
  XREVRANGE DECRBY HSET XADD; sets also SMISMEMBER SADD SREM. With HDEL, which Redis 6.2 needs, the first user is recorded
  behind a mark. INCRBY HDEL XRANGE finish what was cut: without them orders of its users are refused.
]]
--- @kinds hash set coupon counter
--- @let OP = deduct
--- @use "codes"
-- Those of one activity: of several, they are set for each in turn.
local KEYS, ARGV, redis = KEYS, ARGV, redis
--- @use "values"
--- @use "columns"
--- @use "status_letters"

-- Orders of one activity; returns the reply to them.
local function apply()
  --- @include "file"

  for turn = 1, 2 do
    repeat
      --- @include "activity"
      --- @let GIVEN = ARGV[14]
      --- @include "given_limit"
      --- @include "job"
      --- @include "closed_now"
      if decided < count then
        if shut then return {shut, stock, line} end
        if before > line then return {GAP, line} end
      end
      --- @include "held_many"

      -- Decide, one order after the other.
      --- @include "tally"
      for i = 1, decided do
        local user, its_text, its_id = users[i], quantities and quantities[i] or common, requests and requests[i] or ''
        --- @include "units_before"
        -- A repair may have taken it back since.
        known = its_id ~= '' and found[i + 2]
        letters[i] = known and settled(known, its_text == '1' and user or its_text .. '\t' .. user) == REVERSED and 'b' or 'r'
        --- @include "units_after"
      end
      for i = decided + 1, count do
        local user = users[i]
        --- @include "next_order"
        --- @include "units_before"
        if FITS and units <= left and not known then
          --- @include "take_order"
          if request ~= '' then
            local digest = text == '1' and user or text .. '\t' .. user
            kept_size = kept_size + 2
            kept[kept_size - 1] = request
            kept[kept_size] = digest
            if repeats then once[request] = digest end
          end
        else
          local digest, status = text == '1' and user or text .. '\t' .. user, nil
          if not had then
            status = CORRUPT
          elseif known then
            status = settled(known, digest)
          else
            status = not (FITS) and LIMIT_EXCEEDED or OUT_OF_STOCK
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
      --- @let IS_NEW = total
      --- @include "first_user"

      -- Write: the stock first.
      if applied > 0 then
        --- @let SELLS = true
        --- @include "rights_of_orders"
        --- @include "forbidden"
        --- @include "mark_nobody"
        redis.call('DECRBY', KEYS[1], digits(stock - left))
        --- @include "file_users"
      end
      --- @include "file_line"
      --- @include "file_end"
    until true
    if key then break end
  end
  --- @include "damaged"
end
--- @include "each_activity"
return replies
