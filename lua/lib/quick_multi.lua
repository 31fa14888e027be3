--- @use "plain"
-- The orders of a job of multi-orders, kind hash, in the common case: every activity is live, these are its next lines,
-- nothing has a request id of its own, and every order succeeds. Of anything else it returns nil before any write, and the
-- reference path decides.
local function quick_multi()
  local given, call, ask = ARGV, redis.call, redis.pcall
  local by, reason, job, digest, activities = given[2], given[4], given[5], given[6], #KEYS / 5
  if given[1] ~= 'hash' or by == '' or given[3] ~= 'first' or (job or '') == '' or activities < 1 or activities > 512
    or #given ~= 7 + 7 * activities then return nil end

  -- The lines and users of an activity's items.
  local function read(lines, users_text)
    local users = plain_column(users_text)
    local count = users and #users
    if not count or count > 2000 then return nil end
    for i = 1, count do
      local user = users[i]
      if user == '' or #user > 256 then return nil end
    end
    local first, _, last_text = ends_of(lines, count)
    return first and {lines = lines, users_text = users_text, users = users, first = first, last_text = last_text, fresh = {}}
  end
  -- What HSET takes if each user gets the same and none has any; false if a user comes twice.
  local function all_of(users, quantity)
    local set, seen, at = {unpack(users)}, {}, 0
    for i = 1, #users do
      local user = users[i]
      if seen[user] then return false end
      seen[user], set[at + 1], set[at + 2] = true, user, quantity
      at = at + 2
    end
    return set
  end

  local field, units, now_ms = '\tj:multi_deduct:' .. job, {}, nil
  local is_given, columns, todo, replies, items = {}, {}, {}, {}, 0
  for which = 1, activities do
    -- The arguments. Nearly always, orders name the same activities: then columns are those of the activity before.
    local at, from = 5 * which - 5, 7 * which
    local before, lines, quantity, users_text = small(given[from + 2]), given[from + 3], given[from + 4], given[from + 5]
    if given[from + 6] ~= '' or given[from + 7] ~= '' or is_given[KEYS[at + 1]] then return nil end
    is_given[KEYS[at + 1]] = true
    local column = columns[#columns]
    if not column or lines ~= column.lines or users_text ~= column.users_text then
      column = read(lines, users_text)
      if not column then return nil end
      columns[#columns + 1] = column
    end
    local users = column.users
    local count = #users
    items = items + count
    if items > 2000 then return nil end
    local is_list = find(quantity, '[', 1, true) == 1
    local quantities = is_list and plain_column(quantity, '^[!-~]*$')
    if is_list and (not quantities or #quantities ~= count) then return nil end

    -- The activity.
    local stock_text, rules, entries = ask('GET', KEYS[at + 1]), ask('HGET', KEYS[at + 2], 'rules'), ask('XLEN', KEYS[at + 4])
    local at_last_id = ask('XREVRANGE', KEYS[at + 4], LAST_ID, LAST_ID, 'COUNT', 1)
    local ledger, epoch, limit_text, total_text, starts_text, ends_text =
      match(type(rules) == 'string' and rules or '', '^live ([01]) (%d+) (%S+) (%d+) (%S+) (%S+)$')
    local stock, total, limit, starts, ends = small(stock_text), small(total_text), small(limit_text), small(starts_text), small(ends_text)
    if not (stock and total and before) or epoch ~= given[from + 1] or not small(epoch) or limit_text ~= '-' and not limit
      or starts_text ~= '-' and not starts or ends_text ~= '-' and not ends
      or type(entries) ~= 'number' or ledger == '1' and (entries == 0 or next(at_last_id) ~= nil) then return nil end
    if starts or ends then
      if not now_ms then
        local clock = call('TIME')
        now_ms = clock[1] * 1000 + math.floor(clock[2] / 1000)
      end
      if starts and now_ms < starts or ends and now_ms >= ends then return nil end
    end

    -- The job, and what the users hold. In protocol 3 what is absent is nil.
    local known, held = ask('HMGET', KEYS[at + 3], field, '\tbegun'), ask('HMGET', KEYS[at + 5], unpack(users))
    if held.err or known.err or known[2] then return nil end
    local record = known[1]
    local line, refused = '0', '0'
    if record then
      local its_digest
      line, refused, its_digest = match(record, '^(%d+) (%d+) (.*)$')
      if its_digest ~= digest then return nil end
    end
    line = small(line)
    if not (line and small(refused)) or line < before or line >= column.first then return nil end

    -- Decide: every item must succeed. What the users hold then, as HSET takes it, and for the reply.
    local most, left, any, set, bought = limit or math.huge, stock, next(held) ~= nil, nil, nil
    local step = not quantities and small(quantity)
    if not quantities and (not step or step < 1 or step > 1000000000) then return nil end
    if step and not any then
      -- The same for all activities.
      set = column.fresh[quantity]
      if set == nil then
        set = all_of(users, quantity)
        column.fresh[quantity] = set
      end
    end
    if set then
      left = stock - count * step
      if step > most or left < 0 then return nil end
      bought = string.rep(' ' .. quantity, count)
    else
      local now, texts = {}, {unpack(users)}
      set = {unpack(users)}
      for i = 1, count do
        local user = users[i]
        if quantities then
          step = small(quantities[i])
          if not step or step < 1 or step > 1000000000 then return nil end
        end
        local had = now[user]
        if not had then
          had = held[i] == nil and 0 or small(held[i])
          if not had then return nil end
        end
        had, left = had + step, left - step
        if had > most or left < 0 then return nil end
        local text = units[had]
        if not text then
          text = had .. ''
          units[had] = text
        end
        now[user], set[2 * i - 1], set[2 * i], texts[i] = had, user, text, text
      end
      bought = ' ' .. concat(texts, ' ')
    end
    if not any and total > stock and ask('EXISTS', KEYS[at + 5]) ~= 1 then return nil end
    local allowed = redis.acl_check_cmd
    if allowed and not (allowed('DECRBY', KEYS[at + 1], '1') and allowed('HSET', KEYS[at + 3], 'f', 'v')
      and allowed('HSET', KEYS[at + 5], 'f', 'v') and (ledger == '0' or allowed('XADD', KEYS[at + 4], '*', 'f', 'v'))) then return nil end

    local row
    if ledger == '1' then
      row = {'op', 'deduct', 'stock', left .. '', 'by', by}
      if reason ~= '' then row[7], row[8] = 'reason', reason end
      local size = #row
      row[size + 1], row[size + 2], row[size + 3], row[size + 4] = 'job', job, 'lines', lines
      row[size + 5], row[size + 6], row[size + 7], row[size + 8] = 'quantity', quantity, 'users', users_text
    end
    -- Nothing was sold yet: `take_and_record` says why.
    local marks = total <= stock and (not allowed or allowed('HDEL', KEYS[at + 3], 'f'))
    todo[which] = {(stock - left) .. '', set, column.last_text .. ' ' .. refused .. ' ' .. digest, row, marks}
    replies[which] = string.rep('o', count) .. ' ' .. stock_text .. ' ' .. refused .. ' 0 -' .. (given[7] == '1' and bought or '')
  end

  -- An order has one user.
  local user_of = {}
  for c = 1, #columns > 1 and #columns or 0 do
    local column = columns[c]
    local is_range, next_word = find(column.lines, '-', 1, true), string.gmatch(column.lines, '[^ ]+')
    for i = 1, #column.users do
      local line, user = is_range and column.first + i - 1 or next_word() + 0, column.users[i]
      if (user_of[line] or user) ~= user then return nil end
      user_of[line] = user
    end
  end

  -- Write: all stocks first.
  for which = 1, activities do
    if todo[which][5] then call('HSET', KEYS[5 * which - 2], '\tbegun', 'first') end
  end
  for which = 1, activities do call('DECRBY', KEYS[5 * which - 4], todo[which][1]) end
  for which = 1, activities do
    local at, set, row = 5 * which - 5, todo[which][2], todo[which][4]
    call('HSET', KEYS[at + 5], unpack(set))
    if todo[which][5] then call('HDEL', KEYS[at + 3], '\tbegun') end
    call('HSET', KEYS[at + 3], field, todo[which][3])
    if row then call('XADD', KEYS[at + 4], '*', unpack(row)) end
  end
  return replies
end
