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
  local count, columns = small(given[6]), common == '' and 2 or 1
  if given[1] ~= 'hash' or by == '' or given[4] ~= '' or given[5] ~= 'first' or given[7] == '' or not count or count < 1 or count > 1000 then return nil end
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
  if first then
    first, last = small(first), small(last)
    if not (first and last) or last - first + 1 ~= count then return nil end
  else
    -- A list: each line is a number, and greater than the one before it.
    local known = 0
    for text in string.gmatch(lines, '[^ ]+') do
      local line = small(text)
      if not line or line <= (last or 0) then return nil end
      first, last, known = first or line, line, known + 1
    end
    if known ~= count then return nil end
  end

  -- The activity.
  local takes = op == 'deduct'
  local stock_text = redis.pcall('GET', KEYS[1])
  local rules = redis.pcall('HGET', KEYS[2], 'rules')
  local its_epoch, limit_text, total_text, starts_text, ends_text = match(type(rules) == 'string' and rules or '', '^live 1 (%d+) (%S+) (%d+) (%S+) (%S+)$')
  local stock, total, limit, starts, ends = small(stock_text), small(total_text), small(limit_text), small(starts_text), small(ends_text)
  if not (stock and total) or its_epoch ~= epoch or not small(epoch)
    or limit_text ~= '-' and not limit or starts_text ~= '-' and not starts or ends_text ~= '-' and not ends then return nil end
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
  -- In this protocol what is absent is nil: a table of nothing but that is told at once.
  redis.setresp(3)
  local found = redis.pcall('HMGET', KEYS[3], unpack(fields))
  local held = redis.pcall('HMGET', KEYS[5], unpack(users))
  redis.setresp(2)
  if found.err or held.err then return nil end
  local line, refused, digest = '0', '0', given[8]
  if found[#fields] then line, refused, digest = match(found[#fields], '^(%d+) (%d+) (.*)$') end
  line, refused = small(line), small(refused)
  local before = small(given[10])
  if not (line and refused and before) or digest ~= given[8] or line < before or line >= first then return nil end

  -- What is written: what users hold then, what is kept of requests, what the ledger says. Orders that are alike but
  -- for the user need no list of their own for the ledger: users who got nothing are overwritten.
  local set, cleared, kept = {unpack(given, 1, 2 * count)}, {}, named and {unpack(given, 1, 2 * count + 2)} or {}
  local parts, pieces = users, named and 4 or quantities and 2 or 1
  if pieces > 1 then parts = {unpack(given, 1, pieces * count)} end
  local letters, bought = {}, given[12] == '1' and {unpack(users)}
  local left, sets, ok, at, kept_at, any = stock, 0, 0, 0, 0, next(held) ~= nil
  local now, once
  -- What a quantity means: units go by `step` from the stock to a user; how it stands in the ledger and with a request.
  local asked, amounts = {}, {}
  local function ask(text)
    local want = small(text)
    if not want or want < 1 or want > 1000000000 then return nil end
    local terms = {takes and want or -want, named and '","' .. text .. '","' or '","' .. text .. '",""],["', op .. ' ' .. text .. ' '}
    asked[text] = terms
    return terms
  end
  local terms = quantities and {} or ask(common)
  if not terms then return nil end
  local step, row, note = terms[1], terms[2], terms[3]
  -- A refusal is that one of these would be passed.
  local most, room = takes and limit or math.huge, takes and math.huge or total

  -- Decide at once where orders are alike, nobody holds anything, no request is known and the stock suffices for all:
  -- nothing is left that could stand against them but somebody named twice.
  local alike = takes and not quantities and not any and (next(found) or #fields) == #fields
    and step <= most and count * step <= left
  if alike then
    now, once = {}, {[''] = true}
    for i = 1, count do
      local user = users[i]
      if now[user] or user == '' or #user > 256 then
        alike = false
        break
      end
      now[user], set[2 * i - 1], set[2 * i] = true, user, common
      if named then
        local request = requests[i]
        if once[request] or #request > 128 then
          alike = false
          break
        end
        once[request], kept[2 * i - 1], kept[2 * i] = true, fields[i], note .. user
        parts[at + 1], parts[at + 2], parts[at + 3], parts[at + 4] = user, row, request, '"],["'
        at = at + 4
      end
    end
  end
  if alike then
    left, sets, ok, at, kept_at = left - count * step, 2 * count, count, pieces * count, named and 2 * count or 0
    for i = 1, bought and count or 0 do bought[i] = common end
  else
    -- Decide one order after the other.
    now, once, at = {}, {[''] = true}, 0
    local texts = {[0] = '0'}
    for i = 1, count do
      local user = users[i]
      local had = now[user]
      if not had then
        local text = held[i]
        had = 0
        if text then
          had = amounts[text] or small(text)
          if not had then return nil end
          amounts[text] = had
        end
        if user == '' or #user > 256 then return nil end
      end
      if quantities then
        terms = asked[quantities[i]] or ask(quantities[i])
        if not terms then return nil end
        step, row, note = terms[1], terms[2], terms[3]
      end
      local request = named and requests[i]
      if request then
        if found[i] or once[request] or #request > 128 then return nil end
        once[request] = true
      end
      local units, rest = had + step, left - step
      if units > most or rest < 0 or units < 0 or rest > room then
        letters[i], refused = takes and (units > most and 'l' or 's') or 'x', refused + 1
      else
        left, had = rest, units
        units = texts[had]
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
          parts[at + 1], parts[at + 2], parts[at + 3], parts[at + 4] = user, row, request, '"],["'
          kept[kept_at + 1], kept[kept_at + 2] = fields[i], note .. user
          kept_at = kept_at + 2
        elseif quantities then
          parts[at + 1], parts[at + 2] = user, row
        else
          parts[at + 1] = user
        end
        at, ok = at + pieces, ok + 1
      end
      now[user] = had
      if bought then
        texts[had] = texts[had] or had .. ''
        bought[i] = texts[had]
      end
    end
  end
  -- Units were sold, and no record of it is left: limits would start over.
  if takes and not any and total > stock and redis.pcall('EXISTS', KEYS[5]) ~= 1 then return nil end

  kept[kept_at + 1], kept[kept_at + 2] = job, last .. ' ' .. refused .. ' ' .. digest
  if ok == 0 then
    redis.call('HSET', KEYS[3], job, kept[kept_at + 2])
  else
    -- Joined once: a long string is hashed byte by byte each time it is made.
    parts[1] = '[["' .. parts[1]
    local joint = ''
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
    redis.call('HSET', KEYS[3], unpack(kept, 1, kept_at + 2))
    local row = {'op', op, 'stock', left .. '', 'by', by}
    if reason ~= '' then row[7], row[8] = 'reason', reason end
    if not named then
      -- What names these orders is their lines; those that were refused have no place in the ledger.
      if ok < count then
        local applied, i = {}, 0
        if gapless then
          for line = first, last do
            i = i + 1
            if not letters[i] then applied[#applied + 1] = line .. '' end
          end
        else
          for line in string.gmatch(lines, '%d+') do
            i = i + 1
            if not letters[i] then applied[#applied + 1] = line end
          end
        end
        lines = concat(applied, ' ')
      end
      row[#row + 1] = 'job'
      row[#row + 1] = given[7]
      row[#row + 1] = 'lines'
      row[#row + 1] = lines
    end
    row[#row + 1] = 'orders'
    row[#row + 1] = orders
    redis.call('XADD', KEYS[4], '*', unpack(row))
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
