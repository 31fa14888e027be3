--[[
  settle_file: ends many holds of one activity, with the meaning of one after the other. `seckill` alone calls it.

  KEYS[1]  stock          string  units left
  KEYS[2]  meta           hash    rules, withdrawn
  KEYS[3]  requests       hash    <tab>h:<id> -> `state quantity deadline order user`; <tab>o:<user> -> units held open, <tab>holds of
                                  all users;
                                  <tab>j:<step>:<job> -> line, refused, digest; request id -> digest of the order;
                                  <tab>begun -> what a call that gives units back is about to do
  KEYS[4]  ledger         stream  one entry a call, of confirm up to two
  KEYS[5]  participants   hash: user -> units (kind hash) | set: users (kinds set and coupon); with what is held open
  KEYS[6]  units          hash    units of a set's members; kind set only
  last key deadlines      sorted set  request id by deadline, Unix ms: KEYS[6], of kind set KEYS[7]

  Columns of at most 1,000 holds, 9 to 16 arguments, as for deduct_file:
  ARGV[1]  kind (the one that this script is of), ARGV[2] by
  ARGV[3]  request ids, ARGV[4] step: confirm or release, as of settle; ARGV[5..9] job, its digest, epoch, the line before, lines
  ARGV[10] users, whose holds they are, ARGV[11] rows, ARGV[12] reason, ARGV[13] reasons, then an empty text, ARGV[15] borrow (of confirm),
           ARGV[16] distinct: 1 if no request id comes twice; may be empty or left out

  Returns `letters stock refused quantities [bought ... users]`: the stock before it; quantities are those of the holds, joined by
  commas, or one if all are equal (0: there is no such hold); users have a tab in front of each. Letters are o, O (ok: units of an
  expired hold were taken again), r, q, c, h (not_held), v (expired), V (expired: a repair took back what the job had confirmed),
  f (confirmed). With borrow they end before the first that is out_of_stock, whose quantity is the last. What refuses the whole
  activity is {status, stock, line}; and also -20 gap, -21 other epoch, -22 other job: as for deduct_file.
  What settle does about cuts, and its order of writes, are as there.

  Commands it needs (checked before the first write from Redis 7.0 on): GET HGET HMGET TYPE EXISTS DECRBY INCRBY HSET HDEL
  ZREM XLEN XRANGE XREVRANGE XADD; sets also SMISMEMBER SADD SREM.
]]
--- @kinds hash set coupon
--- @let OP = settle
--- @let HELD = held[place]
--- @let FITS = units > 0 and has == 0
--- @if hash
--- @let HELD = numbers[held[place]]
--- @let FITS = units > 0 and has + units <= (limit or MOST_UNITS)
--- @end
--- @if set
--- @let HELD = numbers[held[place] == 1 and (units_of[place] or true)]
--- @end
--- @use "codes"
--- @use "key_count"
local KEYS, ARGV, redis, sub = KEYS, ARGV, redis, string.sub
--- @use "values"
--- @use "columns"
--- @use "unfinished_call"

-- The text that all are, or nil.
local function common_text(texts)
  local common = texts[1]
  for i = 2, #texts do
    if texts[i] ~= common then return nil end
  end
  return common
end

--- @include "file"
local confirms = step == 'confirm'
if borrows and not confirms then return usage('settle: borrow is of confirm') end
-- What becomes of a hold that is open, and what is said of one that is not; an item of a multi-order is ended with its order.
local ended, said = 'confirmed', {confirmed = 'r', released = 'h', void = 'v', ITEM = 'q', DAMAGED = 'c', NONE = 'h', held = ''}
if not confirms then
  ended, said.confirmed, said.released, said.expired = 'released', 'f', 'r', 'v'
end

-- Numbers by their texts: 0 of what is not there, false of what is no number.
local numbers = setmetatable({[true] = math.huge, [false] = 0}, {__index = function(all, text)
  local number = whole(text)
  if number then all[text] = number end
  return number or false
end})

for turn = 1, 2 do
  repeat
    count = #requests
    --- @include "activity"
    --- @include "deadlines"
    --- @include "job"
    if decided < count and before > line then return {GAP, line} end

    -- The holds: users, quantities, states of those that are not open, and in found the records that they get if they end. Those of
    -- one call of hold have all but the user in common: a head. Each user comes once in names. Lists that are copied have their size at
    -- once.
    local users, quantities, states, names = {unpack(requests)}, {unpack(requests)}, {}, {unpack(requests)}
    local at, asked, is_late, head, head_size = {}, 0, false, nil, 0
    local state, quantity, deadline, order, new_head, shown_state
    for i = 1, count do
      local text = found[i + 2]
      if text and sub(text, 1, head_size) ~= head then
        state, quantity, deadline, order, head_size = string.match(text, '^(%l+) (%d+) (%d+) (%S+) ().*$')
        if whole(quantity) and whole(deadline) and (state == 'expired' or said[state]) then
          head_size = head_size - 1
          head, new_head = sub(text, 1, head_size), ended .. sub(text, #state + 1, head_size)
          shown_state = order == '-' and state or 'ITEM'
        else
          state, head, head_size = 'DAMAGED', nil, 0
        end
      end
      local user = text and head and sub(text, head_size + 1)
      if user and (not owners or owners[i] == '' or owners[i] == user) then
        users[i], quantities[i], found[i + 2] = user, quantity, new_head .. user
        if not at[user] then
          asked = asked + 1
          at[user], names[asked] = asked, user
        end
        if shown_state ~= 'held' then
          states[i], is_late = shown_state, is_late or state == 'expired'
        end
      else
        states[i], users[i], quantities[i] = text and not head and state or 'NONE', '', '0'
      end
    end
    --- @include "held_many"
    --- @let COUNT = asked
    --- @include "open_many"
    local now, now_open, texts = {}, {}, {[math.huge] = '?'}
    --- @let IS_NEW = confirms and is_late
    --- @include "first_user"

    -- Decide, one hold after the other. Of those that are open, and of those that are taken again, closed and retaken are how many.
    local left, letters, bought, once, moved, units = stock, {}, shows and {unpack(users)}, {}, 0, nil
    local closed, retaken, taken, takes = 0, 0, 0, {}
    local kept, kept_size = {unpack(requests)}, 0
    quantity = nil
    local void, of_void = {}, {}
    for i = 1, decided do
      letters[i] = 'r'
      local place = at[users[i]]
      local had = HELD or 0
      if bought then bought[i] = texts[had] or digits(had) end
      if confirms and states[i] == 'void' then void[#void + 1], of_void[#of_void + 1] = i, requests[i] end
    end
    if #void > 0 then
      local known = redis.call('HMGET', KEYS[3], unpack(of_void))
      for n, i in ipairs(void) do
        if known[n] and find(known[n], '^%-16\t') then letters[i] = 'V' end
      end
    end
    for i = decided + 1, count do
      local state, place, letter, record = states[i], at[users[i]], nil, nil
      local has = now[place] or HELD
      if repeats and state ~= 'NONE' then state = once[requests[i]] or state end
      if quantities[i] ~= quantity then
        quantity = quantities[i]
        units = quantity + 0
      end
      if not state then
        local is_open = now_open[place] or open[place] or 0
        -- What is not there was returned, and sold again.
        if moved + units > holds or units > is_open or not has or has < (confirms and is_open or units)
          or not confirms and (has == math.huge or left + units > total) then
          letter = 'c'
        else
          if not confirms then left, now[place] = left + units, has - units end
          moved, now_open[place], record, closed = moved + units, is_open - units, found[i + 2], closed + 1
        end
      elseif state == 'expired' and confirms and not has then
        letter = 'c'
      elseif state == 'expired' then
        local fits = confirms and FITS
        if fits and units <= left then
          left, now[place], takes[place], record, letter = left - units, has + units, true, found[i + 2], 'O'
          taken, retaken = taken + units, retaken + 1
        elseif fits and borrows then
          -- It waits until units are borrowed, and so do those behind it.
          for n = i + 1, count do quantities[n] = nil end
          count = i - 1
          break
        else
          letter, record = 'v', 'void' .. string.sub(found[i + 2], #ended + 1)
        end
      else
        letter = said[state]
      end
      if record then
        kept[kept_size + 1], kept[kept_size + 2], kept_size = fields[i], record, kept_size + 2
        if repeats then once[requests[i]] = letter == 'v' and 'void' or ended end
      end
      if letter then
        letters[i] = letter
        if letter ~= 'O' and letter ~= 'r' then refused = refused + 1 end
      end
      if bought then
        local had = now[place] or HELD or 0
        bought[i] = texts[had] or digits(had)
      end
    end
    if key then break end

    local common = common_text(quantities)

    -- Write: the units that are taken again; then what ends, with the line of the job.
    local it = {units = confirms and '0' or digits(moved), ids = {}, users = {}, gone = {}, cleared = {}}
    for n = 1, asked do
      local has, holds_now = now_open[n], now[n]
      if has == 0 then
        it.cleared[#it.cleared + 1] = open_fields[n]
      elseif has then
        kept[kept_size + 1], kept[kept_size + 2], kept_size = open_fields[n], texts[has] or digits(has), kept_size + 2
      end
      if has and not confirms and holds_now == 0 then
        it.gone[#it.gone + 1] = names[n]
      elseif has and not confirms then
        it.users[#it.users + 1], it.users[#it.users + 2] = names[n], digits(holds_now)
      end
    end
    if closed > 0 then
      for i = 1, count do
        if not letters[i] then it.ids[#it.ids + 1] = requests[i] end
      end
      kept[kept_size + 1], kept[kept_size + 2], kept_size = '\tholds', digits(holds - moved), kept_size + 2
    end
    --- @include "file_line"
    if closed > 0 then
      if has_ledger then
        local left, applied = confirms and stock or left, closed
        --- @let LETTER = nil
        --- @include "file_entry"
        entry[2] = step
        it.entry = entry
      end
      it.set = {unpack(kept, 1, kept_size)}
      local denied = may_not_return(KIND, withdrawn, it)
      --- @include "forbidden"
    end
    -- Deadlines that a cut leaves are of no open hold.
    local ended = it.ids
    if confirms then it.ids = {} end
    if retaken > 0 then
      local takers, takers_units = {}, {}
      for n = 1, asked do
        if takes[n] then
          takers[#takers + 1], takers_units[2 * #takers + 1], takers_units[2 * #takers + 2] = names[n], names[n], digits(now[n])
        end
      end
      --- @include "take_again"
    end
    if closed > 0 then
      give_units_back({kind = KIND, rules = {total = total}, stock = stock - taken, withdrawn = withdrawn}, it)
      if confirms then redis.call('ZREM', KEYS[DEADLINES], unpack(ended)) end
    elseif kept_size > 0 then
      redis.call('HSET', KEYS[3], unpack(kept, 1, kept_size))
    end
    if retaken > 0 and has_ledger then
      local applied = retaken
      --- @let LETTER = 'O'
      --- @include "file_entry"
      entry[2] = 'deduct'
      redis.call('XADD', KEYS[4], '*', unpack(entry))
    end
    --- @include "file_reply"
  until true
  if key then break end
end
--- @include "damaged"
