-- The lean path of deduct and refund: orders of a job, kind hash, that nothing odd stands against: first tries in their
-- turn, none of their requests known. Like one_order.lua it comes before the helpers. It decides ok and the plain
-- refusals; whatever else it meets, it has written nothing, returns nil and leaves the call to the general path.
-- Numbers here have up to 13 digits, so that sums of them become their digits by `..` again, which Lua does up to 14.
-- A table that is made of values has its size at once, and one that grows is copied again and again: so lists begin as
-- a copy of one that is as long.
local function many_orders(op)
  local given, find, match, concat = ARGV, string.find, string.match, table.concat
  local by, reason, epoch, lines, common = given[2], given[3], given[9], given[11], given[13]
  local function small(text)
    if type(text) ~= 'string' or #text > 13 then return nil end
    return text == '0' and 0 or find(text, '^[1-9]%d*$') and text + 0 or nil
  end

  -- The call: users, quantities unless all have one, requests.
  local count, all_want, columns = small(given[6]), small(common), common == '' and 2 or 1
  if given[1] ~= 'hash' or by == '' or given[5] ~= 'first' or given[7] == '' or not count or count < 1 or count > 1000 then return nil end
  local named = #given == 13 + count * (columns + 1)
  if not named and #given ~= 13 + count * columns then return nil end
  local users = {unpack(given, 14, 13 + count)}
  local quantities = columns == 2 and {unpack(given, 14 + count, 13 + 2 * count)}
  local all_users = concat(users)
  -- What JSON would escape, or might be white space at an end.
  if not find(all_users, '^%C*$') or find(all_users, ' ', 1, true) or find(all_users, '"', 1, true) or find(all_users, '\\', 1, true) then return nil end
  local requests, fields = nil, {}
  if named then
    requests = {unpack(given, 14 + columns * count)}
    local all_requests = concat(requests)
    if not find(all_requests, '^[!-~]*$') or find(all_requests, '"', 1, true) or find(all_requests, '\\', 1, true) then return nil end
    fields = {unpack(requests)}
    for i = 1, count do fields[i] = 'r:' .. requests[i] end
  end
  local first, last = match(lines, '^(%d+)%-(%d+)$')
  local gapless = first
  if not first and find(lines, '^%d[%d ]*$') then
    first, last = match(lines, '^%d+'), match(lines, '%d+$', #lines > 14 and -14 or 1)
  end
  first, last = small(first), small(last)
  if not (first and last) or gapless and last - first + 1 ~= count then return nil end

  -- The activity.
  local takes = op == 'deduct'
  local stock_text = redis.pcall('GET', KEYS[1])
  local meta = redis.pcall('HMGET', KEYS[2], 'total', 'per_user_limit', 'starts_at', 'ends_at', 'state', 'ledger', 'epoch')
  local stock, total, limit, starts, ends = small(stock_text), small(meta[1]), small(meta[2]), small(meta[3]), small(meta[4])
  if not (stock and total) or meta[5] ~= 'live' or meta[6] ~= '1' or meta[7] ~= epoch or not small(epoch)
    or meta[2] and not limit or meta[3] and not starts or meta[4] and not ends then return nil end
  if takes and (starts or ends) then
    local clock = redis.call('TIME')
    local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
    if starts and now < starts or ends and now >= ends then return nil end
  end
  local entries = redis.pcall('XLEN', KEYS[4])
  if type(entries) ~= 'number' or entries == 0 then return nil end

  -- The job, what is known of the requests, and what the users hold.
  local job = 'j:' .. op .. ':' .. given[7]
  fields[#fields + 1] = job
  local found = redis.pcall('HMGET', KEYS[3], unpack(fields))
  if found.err then return nil end
  local line, refused, digest = '0', '0', given[8]
  if found[#fields] then line, refused, digest = match(found[#fields], '^(%d+) (%d+) (.*)$') end
  line, refused = small(line), small(refused)
  local before = small(given[10])
  if not (line and refused and before) or digest ~= given[8] or line < before or line >= first then return nil end
  local held = redis.pcall('HMGET', KEYS[5], unpack(users))
  if held.err then return nil end

  -- Decide, one order after the other: what users hold then, what is kept of requests, what the ledger says.
  local now, once, amounts, texts, joints = {}, {}, {}, {[0] = '0'}, {}
  local set, cleared, kept = {unpack(given, 1, 2 * count)}, {}, named and {unpack(given, 1, 2 * count + 2)} or {}
  -- Orders that are alike but for the user need no list of their own: users who got nothing are overwritten.
  local parts, pieces = users, named and 4 or quantities and 2 or 1
  if pieces > 1 then parts = {unpack(given, 1, pieces * count)} end
  local letters, bought = {}, given[12] == '1' and {unpack(users)}
  local left, sets, ok, any = stock, 0, 0, false
  local want_text, want = common, all_want
  for i = 1, count do
    local user = users[i]
    local had = now[user]
    if not had then
      local text = held[i]
      had = 0
      if text then
        had, any = amounts[text] or small(text), true
        if not had or user == '' then return nil end
        amounts[text] = had
      end
    end
    if quantities then
      want_text = quantities[i]
      want = amounts[want_text] or small(want_text)
      amounts[want_text] = want
    end
    if not want or want < 1 or want > 1000000000 or #user > 256 or user == '' then return nil end
    local request = named and requests[i]
    if request then
      if found[i] or once[request] or request == '' or #request > 128 then return nil end
      once[request] = true
    end
    local refusal
    if takes then
      refusal = limit and had + want > limit and 'l' or want > left and 's'
    else
      refusal = (want > had or left + want > total) and 'x'
    end
    if refusal then
      letters[i], refused = refusal, refused + 1
    else
      if takes then
        left, had = left - want, had + want
      else
        left, had = left + want, had - want
      end
      local units = texts[had]
      if not units then
        units = had .. ''
        texts[had] = units
      end
      if had == 0 then
        cleared[#cleared + 1] = user
      else
        set[sets + 1], set[sets + 2] = user, units
        sets = sets + 2
      end
      if request then
        local joint = joints[want_text]
        if not joint then
          joint = {'","' .. want_text .. '","', op .. ' ' .. want_text .. ' '}
          joints[want_text] = joint
        end
        local at = 4 * ok
        parts[at + 1], parts[at + 2], parts[at + 3], parts[at + 4] = user, joint[1], request, '"],["'
        at = 2 * ok
        kept[at + 1], kept[at + 2] = fields[i], joint[2] .. user
      elseif quantities then
        local joint = joints[want_text]
        if not joint then
          joint = '","' .. want_text .. '",""],["'
          joints[want_text] = joint
        end
        parts[2 * ok + 1], parts[2 * ok + 2] = user, joint
      else
        parts[ok + 1] = user
      end
      ok = ok + 1
    end
    now[user] = had
    if bought then
      texts[had] = texts[had] or had .. ''
      bought[i] = texts[had]
    end
  end
  -- Units were sold, and no record of it is left: limits would start over.
  if takes and not any and total > stock and redis.pcall('EXISTS', KEYS[5]) ~= 1 then return nil end

  local kept_count = named and 2 * ok + 2 or 2
  kept[kept_count - 1], kept[kept_count] = job, last .. ' ' .. refused .. ' ' .. digest
  if ok == 0 then
    redis.call('HSET', KEYS[3], job, kept[kept_count])
  else
    -- Joined once: a long string is hashed byte by byte each time it is made.
    parts[1] = '[["' .. parts[1]
    local at, joint = pieces * ok, ''
    if named then
      parts[at] = '"]]'
    elseif quantities then
      parts[at] = string.sub(parts[at], 1, -4) .. ']'
    else
      parts[at], joint = parts[at] .. '","' .. common .. '",""]]', '","' .. common .. '",""],["'
    end
    local orders = concat(parts, joint, 1, at)
    local allowed = redis.acl_check_cmd
    if allowed and not (allowed('HSET', KEYS[3], 'f', 'v') and allowed('XADD', KEYS[4], '*', 'f', 'v')
      and (takes or allowed('HDEL', KEYS[5], 'f') and allowed('INCRBY', KEYS[1], '1'))) then return nil end
    -- As in the general path: a deduct takes the stock first, a refund gives it back last.
    if takes then redis.call('DECRBY', KEYS[1], (stock - left) .. '') end
    if sets > 0 then redis.call('HSET', KEYS[5], unpack(set, 1, sets)) end
    if #cleared > 0 then redis.call('HDEL', KEYS[5], unpack(cleared)) end
    redis.call('HSET', KEYS[3], unpack(kept, 1, kept_count))
    if reason == '' then
      redis.call('XADD', KEYS[4], '*', 'op', op, 'stock', left .. '', 'by', by, 'orders', orders)
    else
      redis.call('XADD', KEYS[4], '*', 'op', op, 'stock', left .. '', 'by', by, 'reason', reason, 'orders', orders)
    end
    if not takes then redis.call('INCRBY', KEYS[1], (left - stock) .. '') end
  end

  local reply = string.rep('o', count)
  if ok < count then
    for i = 1, count do letters[i] = letters[i] or 'o' end
    reply = concat(letters)
  end
  reply = reply .. ' ' .. stock_text .. ' ' .. refused
  return bought and reply .. ' ' .. concat(bought, ' ') or reply
end
