--[[
  refund_file: gives units back for many orders, of one activity or of several, one after the other. `seckill` alone calls it.

  KEYS of one activity; of several, those of each in turn:
  KEYS[1]  stock          string  units left
  KEYS[2]  meta           hash    rules, withdrawn; may be absent
  KEYS[3]  requests       hash    request id -> digest of the order; <tab>j:refund:<job> -> line, refused, digest;
                                  <tab>o:<user> -> units held open;
                                  <tab>begun -> what a call that gives units back is about to do, as of refund
  KEYS[4]  ledger         stream  one entry a call
  KEYS[5]  participants   hash: user -> units (kind hash) | set: users (kinds set and coupon) | none (kind counter)
  KEYS[6]  units          hash    units of a set's members; kind set only

  Columns of 9 to 16 arguments, as for deduct_file:
  ARGV[1]  kind (the one that this script is of), ARGV[2] by
  ARGV[3]  users, ARGV[4] quantities (or one, or `all`), ARGV[5..9] job, its digest, epoch, the line before, lines
  ARGV[10..16] requests, rows, reason, reasons, unsaid (as for refund), an empty text, distinct: may be left out
  Orders of several activities have the arguments that they have for deduct_file, with unsaid in the place of the limit.

  Returns as deduct_file, with the letters o, r, x (exceeds_bought), q, c.
  While the stock is withdrawn, units go to meta's `withdrawn` instead; every stock above includes that.
  Only ok and the line of the job write; the stock comes last, as in refund, and what was cut is finished as there.

  Commands it needs (checked before the first write from Redis 7.0 on): GET HGET HMGET TYPE EXISTS XLEN XRANGE XREVRANGE
  INCRBY HSET HDEL XADD; sets also SMISMEMBER SADD SREM.
]]
--- @kinds hash set coupon counter
--- @let OP = refund
--- @use "codes"
-- Those of one activity: of several, they are set for each in turn.
local KEYS, ARGV, redis = KEYS, ARGV, redis
--- @use "values"
--- @use "columns"
--- @use "status_letters"
--- @use "unfinished_call"

-- Orders of one activity; returns the reply to them.
local function apply()
  --- @include "file"

  for turn = 1, 2 do
    repeat
      --- @include "activity"
      --- @include "job"
      if decided < count and before > line then return {GAP, line} end
      --- @if hash set coupon
      --- @include "held_many"
      -- What is held open is not the user's to return.
      --- @let COUNT = count
      --- @include "open_many"
      --- @end

      -- Decide, one order after the other.
      --- @include "tally"
      --- @if hash set coupon
      local gone, is_unsaid, taken, has_refusal = {}, ARGV[14] == '1', {}, false
      --- @end
      for i = 1, decided do
        local user = users[i]
        --- @include "units_before"
        letters[i] = 'r'
        --- @include "units_after"
      end
      for i = decided + 1, count do
        local user = users[i]
        --- @include "next_order"
        --- @if counter
        local fits = left + units <= most
        --- @else
        --- @include "units_before"
        local free = (had or 0) - (open[i] or 0)
        if text == 'all' then units = math.max(free, 0) end
        local fits = had and units <= free and units > 0 and left + units <= most
          and not (had == math.huge and (is_unsaid or (open[i] or 0) > 0))
        --- @end
        if fits and not known then
          left, applied = left + units, applied + 1
          --- @if hash set coupon
          -- How much a member without units holds is unknown.
          had = had == math.huge and 0 or had - units
          if repeats then now[user] = had end
          if text == 'all' then taken[i] = digits(units) end
          --- @end
          --- @if hash set
          if had == 0 then
            gone[#gone + 1] = user
          else
            local numeral = texts[had] or digits(had)
            texts[had], set[size + 1], set[size + 2], size = numeral, user, numeral, size + 2
          end
          --- @end
          --- @if coupon
          gone[applied] = user
          --- @end
          if request ~= '' then
            local digest = 'refund ' .. text .. '\t' .. user
            kept[kept_size + 1], kept[kept_size + 2], kept_size = request, digest, kept_size + 2
            if repeats then once[request] = digest end
          end
        else
          local digest = 'refund ' .. text .. '\t' .. user
          local status = known and settled(known, digest) or EXCEEDS_BOUGHT
          if not had then status = CORRUPT end
          --- @if hash set coupon
          has_refusal = has_refusal or not known
          --- @end
          if status < 0 then refused = refused + 1 end
          letters[i] = LETTERS[status]
        end
        --- @include "units_after"
      end
      --- @if hash set coupon
      --- @let IS_NEW = has_refusal and applied == 0 and total
      --- @include "first_user"
      -- The ledger has numbers.
      if next(taken) then quantities = quantities or {} end
      for i, numeral in pairs(taken) do quantities[i] = numeral end
      --- @end

      -- Write: the stock last.
      --- @include "file_line"
      if applied > 0 then
        local it = {units = digits(left - stock), users = {}, gone = {}, set = {unpack(kept, 1, kept_size)}, cleared = {}, ids = {}}
        --- @if hash set
        it.users = {unpack(set, 1, size)}
        --- @end
        --- @if hash set coupon
        it.gone = gone
        --- @end
        if has_ledger then
          --- @include "file_entry"
          it.entry = entry
        end
        local denied = may_not_return(KIND, withdrawn, it)
        --- @include "forbidden"
        give_units_back({kind = KIND, rules = {total = total}, stock = stock, withdrawn = withdrawn}, it)
      elseif kept_size > 0 then
        redis.call('HSET', KEYS[3], unpack(kept, 1, kept_size))
      end
      --- @include "file_reply"
    until true
    if key then break end
  end
  --- @include "damaged"
end
--- @include "each_activity"
return replies
