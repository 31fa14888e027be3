--[[
  settle: ends one hold of an activity, which `hold` made, by its request id; or the holds that are overdue.

  KEYS[1]  stock          string  units left
  KEYS[2]  meta           hash    rules, withdrawn
  KEYS[3]  requests       hash    <tab>h:<id> -> `state quantity deadline order user`; <tab>o:<user> -> units held open,
                                  <tab>holds of all users;
                                  request id -> digest of the order;
                                  <tab>begun -> what a call that gives units back, or confirms, is about to do
  KEYS[4]  ledger         stream  one entry a call
  KEYS[5]  participants   hash: user -> units (kind hash) | set: users (kinds set and coupon); with what is held open
  KEYS[6]  units          hash    units of a set's members; kind set only
  last key deadlines      sorted set  request id by deadline, Unix ms: KEYS[6], of kind set KEYS[7]

  ARGV[1]  kind           hash, set or coupon: the one that this script is of
  ARGV[2]  by             who runs this, for the ledger; may be empty
  ARGV[3]  request id     of the hold; of the step expire: how many are expired at most, 1 to 500; of the step recount: nothing is
                          counted if more holds are open, up to 1,000,000
  ARGV[4]  step           confirm: the units are bought; release: they return; expire: all that is overdue returns, whatever it is
                          called; abort: an item of a multi-order returns, and a hold that comes later is refused; recount: the
                          units held open are counted anew by the holds that have a deadline or are named
  ARGV[5]  order          `m:<primary>` of an item of a multi-order, as the hold has it; else empty, `-` or left out. What was decided
                          of an item before is written again, so that a WAIT that follows covers it
  ARGV[6]  mode           `first`, `retry` (the same), `borrow` (confirm: an expired hold that the stock does not cover is
                          out_of_stock, which decides nothing) or `dry` (nothing is written); may be left out
  ARGV[7]  reason         why, for the ledger; may be empty or left out. Of recount, with a space between: units that are stored as
                          held open, less those that are counted, and less those of holds that have a deadline, or nothing is
                          written; may be empty (any)
  ARGV[8]  user           of confirm and release: whose hold it is, or there is none; of abort: what the request id stores of the order,
                          or it is another one's (request_conflict); may be empty (any) or left out
  ARGV[9..]               of recount: request ids of holds that are counted too if they are open, and get the deadline that they lack;
                          may be left out

  What the steps do, by the state of the hold (`-12`, `-13` and `-14` are refusals; a state alone: ok):
                confirm                                          release     abort
     absent     -12                                              -12         void
     held       confirmed, even if overdue                       released    void
     confirmed  replayed                                         -14         -14
     released   -12                                              replayed    replayed
     expired    confirmed if stock and limit allow, else void, -13   void, -13   void
     void       -13                                              -13         replayed
  So after -13 to a confirm, or ok to a release, the hold is never confirmed: the payment is refunded.

  Returns for one hold {status, stock, bought, quantity, user}, with stock and bought after it (bought is `?` if it is unknown;
  all but the stock are false if there is no such hold):
     1 ok                done
     2 replayed          it was done before
    -3 out_of_stock      in mode borrow only
    -4 not_preheated     KEYS[1] is absent, or KEYS[2] is
    -6 ended             archived
    -9 request_conflict  the hold belongs to another order, or the id was used for something else
   -11 corrupt           {-11, false, false, n, value}: KEYS[n] holds value (false: it is of the wrong type)
   -12 not_held          no open hold has this id, or it is another user's
   -13 expired           its units are gone
   -14 confirmed         it was confirmed: a refund returns the units
   -15 sharded           {-15, false, shards}: as for deduct
  Returns for expire {1, stock, holds, units, more, id, order, ...}: how many holds and units returned; more is 1 if the next
  call may find others; then ids that were overdue and are left, with their order (false: their record is not what it should
  be), which are not looked at again for 5 seconds.
  Returns for recount {1, stock, holds, units, undated, user, units, units, ...}: what is stored as held open, what the holds say, and
  how many of these units had no deadline (false both if there are too many); then of each user what is stored as held open, and what
  the holds say.
  A pause or the window refuses nothing here. While the stock is withdrawn, units move to and from meta's `withdrawn`.
  A confirm is corrupt if the user holds fewer units than are open.
  If units return, the stock comes last, and if they are taken it comes first, so that a cut leaves fewer units to sell,
  never more. A call that ends a hold writes down first what it will do, as refund does it, and any call but a dry run finishes
  one that was cut. A deadline without an open hold, which a cut hold leaves, is removed by expire.

  Commands it needs (checked before the first write from Redis 7.0 on): GET HGET HMGET TYPE EXISTS TIME DECRBY INCRBY HSET HDEL
  ZADD ZREM ZRANGEBYSCORE XLEN XRANGE XREVRANGE XADD; sets also SMISMEMBER SADD SREM.
]]
--- @kinds hash set coupon
--- @let PARTICIPANTS = 5
--- @let RECORDED = found and '1'
--- @let FITS = units > 0 and had == 0
--- @if hash
--- @let RECORDED = found
--- @let FITS = units > 0 and had + units <= (limit or MOST_UNITS)
--- @end
--- @if set
--- @let PARTICIPANTS = 6
--- @let RECORDED = found and (its_units or 'true')
--- @end
--- @use "codes"
--- @use "numbers"
--- @use "key_count"
local KEYS, ARGV, redis = KEYS, ARGV, redis
local by, request, step, order = ARGV[2], ARGV[3], ARGV[4], ARGV[5] or ''
local mode, reason, owner = ARGV[6] or 'first', ARGV[7] or '', ARGV[8] or ''
local key, value, wrong, most
if order == '' then order = '-' end
if step == 'expire' or step == 'recount' then
  local bound = step == 'expire' and 500 or 1000000
  most = whole(request)
  if not most or most < 1 or most > bound then wrong = 'ARGV[3] is not 1 to ' .. bound end
elseif step ~= 'confirm' and step ~= 'release' and step ~= 'abort' then wrong = 'ARGV[4] is not confirm, release, expire, abort or recount'
elseif #request > 128 or not find(request, '^[%w_%-]+$') and not find(request, '^[ -~]+$') then wrong = 'request id 1' end
if ARGV[1] ~= KIND then wrong = 'ARGV[1] is not ' .. KIND .. ', the kind of this script'
elseif #KEYS ~= DEADLINES then wrong = 'kind ' .. KIND .. ' has DEADLINES keys, not ' .. #KEYS
elseif #ARGV < 4 or #ARGV > 8 and step ~= 'recount' then wrong = '4 to 8 arguments are wanted, not ' .. #ARGV
elseif mode ~= 'first' and mode ~= 'retry' and mode ~= 'dry' and (mode ~= 'borrow' or step ~= 'confirm') then
  wrong = 'the mode is not first, retry, borrow (of confirm) or dry'
elseif order ~= '-' and (#order > 1024 or not find(order, '^m:%S+$')) then wrong = 'the order is not m:<primary>'
elseif owner ~= '' and most then wrong = 'users are for confirm, release and abort' end
if wrong then return redis.error_reply('USAGE settle: ' .. wrong) end

-- The first turn finishes what was cut; then everything is read again. What gives units back is done before the next turn.
local call
for turn = 1, 3 do
  if call then
    --- @include "rare_work"
  end
  repeat
    --- @include "activity"
    --- @include "deadlines"
    local field = '\th:' .. request
    local fields = redis.pcall('HMGET', KEYS[3], '\tbegun', field, '\tholds')
    if fields.err then key, value = 3, fields break end
    local begun, record, holds = fields[1], fields[2], whole(fields[3] or '0')
    if not holds then key, value = 3, fields[3] break end
    local must_finish = begun and begun ~= 'first' and mode ~= 'dry' and turn == 1
    if must_finish or most then
      --- @include "rare_call"
      call.begun, call.reason, call.holds = must_finish and begun, reason, holds
      break
    end

    -- The hold. That of another user is none, and to an abort that of another order.
    local state, quantity, deadline, its_order, user = string.match(record or '', '^(%l+) (%d+) (%d+) (%S+) (.*)$')
    local units = whole(quantity)
    if record and not (units and whole(deadline) and (state == 'held' or state == 'confirmed' or state == 'released'
      or state == 'expired' or state == 'void')) then key, value = 3, record break end
    -- What a repair took back has a code in front of that.
    local stored, whose = step == 'abort' and redis.call('HGET', KEYS[3], request), user
    if step == 'abort' then whose = stored and stored ~= 'void\t' and string.sub(stored, -#owner) or owner end
    if not record or owner ~= '' and owner ~= whose then
      if step ~= 'abort' then return {NOT_HELD, stock, false, false, false} end
      -- A hold that comes later is refused, unless the id was used for something else.
      if stored then return {REQUEST_CONFLICT, stock, false, false, false} end
      if mode ~= 'dry' then redis.call('HSET', KEYS[3], request, 'void\t', field, 'void 0 0 ' .. order .. ' ') end
      return {OK, stock, false, false, false}
    end
    --- @include "held"
    --- @let IS_NEW = step == 'confirm' and state == 'expired' and not found
    --- @include "first_user"
    local open_field = '\to:' .. user
    local open_text = redis.call('HGET', KEYS[3], open_field) or '0'
    local open = open_text == quantity and units or whole(open_text)
    if not open then key, value = 3, open_text break end

    -- Decide: the status, and the state that the hold gets, if it changes.
    local status, ends, left, bought = nil, nil, stock, had or 0
    if its_order ~= order then
      status = REQUEST_CONFLICT
    elseif state == 'held' then
      if holds < units then key, value = 3, format('%.0f units held', holds) break end
      if open < units then key, value = 3, 'no open units of the user' break end
      -- What is not there was returned, and sold again.
      local covers = step == 'confirm' and open or units
      local is_covered = had == '?' and step == 'confirm' or had and had ~= '?' and had >= covers
      if not is_covered then key, value = PARTICIPANTS, RECORDED or 'nothing' break end
      status, ends = OK, step == 'confirm' and 'confirmed' or step == 'release' and 'released' or 'void'
      if step ~= 'confirm' then
        left, bought = stock + units, had - units
        if left > total then key, value = 1, format('%.0f', stock) break end
      end
    elseif state == 'expired' then
      -- A confirm takes the units again.
      if step == 'confirm' and not had then key, value = PARTICIPANTS, RECORDED break end
      local fits = step == 'confirm' and FITS
      if fits and units <= stock then
        status, ends, left, bought = OK, 'confirmed', stock - units, had + units
      elseif fits and mode == 'borrow' then
        status = OUT_OF_STOCK
      else
        status, ends = step == 'abort' and OK or EXPIRED, 'void'
      end
    elseif state == 'confirmed' then
      status = step == 'confirm' and REPLAYED or CONFIRMED
    elseif state == 'released' then
      status = step == 'confirm' and NOT_HELD or REPLAYED
    else
      status = step == 'abort' and REPLAYED or EXPIRED
    end
    -- So that a WAIT that follows covers what was decided before.
    if order ~= '-' and (status == REPLAYED or status == CONFIRMED) then ends = state end
    local reply = {status, left, bought, quantity, user}
    if mode == 'dry' or not ends then return reply end

    -- Write: the record first, but behind the units that are taken again. It alone changes if it was not open.
    local text, takes = ends .. string.sub(record, #state + 1), state == 'expired' and ends == 'confirmed'
    if state ~= 'held' and not takes then
      redis.call('HSET', KEYS[3], field, text)
      return reply
    end
    --- @include "entry"
    entry[2] = takes and 'deduct' or step == 'confirm' and 'confirm' or 'release'
    if order ~= '-' then entry[#entry + 1], entry[#entry + 2] = 'primary', string.sub(order, 3) end
    if takes then
      local taken, takers, takers_units = units, {user}, {user, format('%d', bought)}
      --- @include "take_again"
      redis.call('HSET', KEYS[3], field, text)
      if has_ledger then redis.call('XADD', KEYS[4], '*', unpack(entry)) end
    elseif step == 'confirm' then
      local allowed = redis.acl_check_cmd
      if allowed then
        local denied = not allowed('HDEL', KEYS[3], 'f') and 'HDEL'
          or not allowed('ZREM', KEYS[DEADLINES], 'm') and 'ZREM'
          or has_ledger and not (allowed('XADD', KEYS[4], '*', 'f', 'v') and allowed('XREVRANGE', KEYS[4], '+', '-'))
            and 'XADD and XREVRANGE'
        --- @include "forbidden"
      end
      -- As `lib/unfinished_call.lua` does it, without its functions: records and counts change together with the note that the
      -- entry is missing.
      -- A deadline that a cut leaves is of no open hold.
      local it, last = {units = '0', ids = {}, users = {}, gone = {}, set = {}, cleared = {}}, '-'
      if has_ledger then
        local newest = redis.call('XREVRANGE', KEYS[4], '+', '-', 'COUNT', '1')[1]
        it.entry, last = entry, newest and newest[1] or '0-0'
      end
      redis.call('HSET', KEYS[3], field, text, open_field, format('%d', open - units), '\tholds', format('%d', holds - units),
        '\tbegun', 'begun ' .. last .. ' ' .. cjson.encode(it))
      if has_ledger then redis.call('XADD', KEYS[4], '*', unpack(entry)) end
      redis.call('ZREM', KEYS[DEADLINES], request)
      redis.call('HDEL', KEYS[3], '\tbegun', open > units and '\tbegun' or open_field)
    else
      --- @include "rare_call"
      local it = {units = quantity, ids = {request}, users = {}, gone = {}, cleared = {}}
      it.set = {field, text, '\tholds', format('%d', holds - units)}
      if bought > 0 then it.users = {user, format('%d', bought)} else it.gone = {user} end
      if open > units then it.set[5], it.set[6] = open_field, format('%d', open - units) else it.cleared = {open_field} end
      it.entry = has_ledger and entry or nil
      call.returns, call.reply = it, reply
      break
    end
    return reply
  until true
  if key then break end
end
--- @include "damaged"
