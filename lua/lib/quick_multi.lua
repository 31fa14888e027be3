-- The orders of a job of multi-orders, kind hash, in the common case: every activity is live, these are its next lines,
-- nothing has a request id of its own, and every order succeeds. Of anything else it returns nil before any write, and the
-- reference path decides. Numbers have up to 13 digits here, because Lua's `..` writes sums of them as plain digits.
local function quick_multi()
  local given, find, match, concat, call, ask = ARGV, string.find, string.match, table.concat, redis.call, redis.pcall
  local by, reason, job, digest, activities = given[2], given[4], given[5], given[6], #KEYS / 5
  if given[1] ~= 'hash' or by == '' or given[3] ~= 'first' or (job or '') == '' or activities < 1 or activities > 512
    or #given ~= 7 + 7 * activities then return nil end

  local function small(text)
    if type(text) ~= 'string' or #text > 13 then return nil end
    return text == '0' and 0 or find(text, '^[1-9]%d*$') and text + 0 or nil
  end
  -- The texts of a JSON array, if it is exactly what they are written as: texts alone, with nothing escaped, and neither
  -- white space nor control characters.
  local function column(text)
    if not find(text, '^[!-~\128-\255]*$') then return nil end
    local is_list, values = pcall(function()
      local values = cjson.decode(text)
      return '["' .. concat(values, '","') .. '"]' == text and values
    end)
    return is_list and values or nil
  end
  -- The lines of so many items, or nil.
  local function numbers(lines, count)
    local list, last = {}, 0
    local from, to = match(lines, '^(%d+)%-(%d+)$')
    from, to = small(from), small(to)
    if from and to then
      if to - from + 1 ~= count then return nil end
      for i = 1, count do list[i] = from + i - 1 end
      return list
    end
    for word in string.gmatch(lines, '[^ ]+') do
      local line = small(word)
      if not line or line <= last then return nil end
      list[#list + 1], last = line, line
    end
    return #list == count and list or nil
  end

  local field, units, now_ms = '\tj:multi_deduct:' .. job, {}, nil
  local is_given, user_of, todo, replies, items = {}, {}, {}, {}, 0
  local lines_before, users_before, users, list
  for which = 1, activities do
    -- The arguments. Nearly always, orders name the same activities, so that columns are those of the activity before.
    local at, from = 5 * which - 5, 7 * which
    local before, lines, quantity, users_text = small(given[from + 2]), given[from + 3], given[from + 4], given[from + 5]
    if given[from + 6] ~= '' or given[from + 7] ~= '' or is_given[KEYS[at + 1]] then return nil end
    is_given[KEYS[at + 1]] = true
    if lines ~= lines_before or users_text ~= users_before then
      users = column(users_text)
      list = users and numbers(lines, #users)
      if not list then return nil end
      -- An order has one user.
      for i = 1, #users do
        local line, user = list[i], users[i]
        if user == '' or #user > 256 or (user_of[line] or user) ~= user then return nil end
        user_of[line] = user
      end
      lines_before, users_before = lines, users_text
    end
    local count = #users
    items = items + count
    if items > 2000 then return nil end
    local is_list = find(quantity, '[', 1, true) == 1
    local quantities = is_list and column(quantity)
    if is_list and (not quantities or #quantities ~= count) then return nil end

    -- The activity.
    local stock_text, rules, entries = ask('GET', KEYS[at + 1]), ask('HGET', KEYS[at + 2], 'rules'), ask('XLEN', KEYS[at + 4])
    local ledger, epoch, limit_text, total_text, starts_text, ends_text =
      match(type(rules) == 'string' and rules or '', '^live ([01]) (%d+) (%S+) (%d+) (%S+) (%S+)$')
    local stock, total, limit, starts, ends = small(stock_text), small(total_text), small(limit_text), small(starts_text), small(ends_text)
    if not (stock and total and before) or epoch ~= given[from + 1] or not small(epoch) or limit_text ~= '-' and not limit
      or starts_text ~= '-' and not starts or ends_text ~= '-' and not ends
      or type(entries) ~= 'number' or ledger == '1' and entries == 0 then return nil end
    if starts or ends then
      if not now_ms then
        local clock = call('TIME')
        now_ms = clock[1] * 1000 + math.floor(clock[2] / 1000)
      end
      if starts and now_ms < starts or ends and now_ms >= ends then return nil end
    end

    -- The job, and what the users hold. In protocol 3 what is absent is nil.
    local record, held = ask('HGET', KEYS[at + 3], field), ask('HMGET', KEYS[at + 5], unpack(users))
    if held.err or type(record) == 'table' then return nil end
    local line, refused = '0', '0'
    if record then
      local its_digest
      line, refused, its_digest = match(record, '^(%d+) (%d+) (.*)$')
      if its_digest ~= digest then return nil end
    end
    line = small(line)
    if not (line and small(refused)) or line < before or line >= list[1] then return nil end

    -- Decide: every item must succeed. What the users hold then, as HSET takes it.
    local most, left, now, any = limit or math.huge, stock, {}, next(held) ~= nil
    local set, bought = {unpack(users)}, given[7] == '1' and {unpack(users)}
    local step = not quantities and small(quantity)
    for i = 1, count do
      local user = users[i]
      if quantities then step = small(quantities[i]) end
      if not step or step < 1 or step > 1000000000 then return nil end
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
      now[user], set[2 * i - 1], set[2 * i] = had, user, text
      if bought then bought[i] = text end
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
    todo[which] = {(stock - left) .. '', set, list[count] .. ' ' .. refused .. ' ' .. digest, row}
    replies[which] = string.rep('o', count) .. ' ' .. stock_text .. ' ' .. refused .. ' 0 -' .. (bought and ' ' .. concat(bought, ' ') or '')
  end

  -- Write: all stocks first.
  for which = 1, activities do call('DECRBY', KEYS[5 * which - 4], todo[which][1]) end
  for which = 1, activities do
    local at, set, row = 5 * which - 5, todo[which][2], todo[which][4]
    call('HSET', KEYS[at + 5], unpack(set))
    call('HSET', KEYS[at + 3], field, todo[which][3])
    if row then call('XADD', KEYS[at + 4], '*', unpack(row)) end
  end
  return replies
end
