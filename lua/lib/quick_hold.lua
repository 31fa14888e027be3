--- @use "batch"
-- The holds of a job, as the arguments of hold have them. Returns the reply; or nil before any write, and the reference path
-- decides: also if one of them has a deadline already, which is of a call that was cut, or if one is refused and others are
-- overdue.
local function quick_hold()
  local given = ARGV
  local duration = small(given[14])
  if given[1] ~= 'hash' or #KEYS ~= 6 or not duration or duration < 1 or duration > 31536000000 or given[2] == '' or given[5] == ''
    or given[10] == '' or given[13] ~= '' then return nil end
  local borrows = #given == 15 and given[15] == 'borrow'
  if #given > 14 and not borrows then return nil end
  local job = {
    op = 'hold', by = given[2], reason = given[12], name = given[5], digest = given[6], field = '\tj:hold:' .. given[5],
    rows = given[11] == '1',
  }
  -- Units held open by all users, and by each of these; their fields.
  local units, open, user_fields
  local function read(fields, users)
    local count = #users
    local stock_text, meta = redis.pcall('GET', KEYS[1]), redis.pcall('HMGET', KEYS[2], 'rules', 'holds')
    local entries, at_last_id = redis.pcall('XLEN', KEYS[4]), redis.pcall('XREVRANGE', KEYS[4], LAST_ID, LAST_ID, 'COUNT', 1)
    local found = redis.pcall('HMGET', KEYS[3], unpack(fields))
    local held, deadlines = redis.pcall('HMGET', KEYS[5], unpack(users)), redis.pcall('ZMSCORE', KEYS[6], unpack(fields, 1, count))
    units, user_fields = not meta.err and small(meta[2] or '0'), {unpack(users)}
    for i = 1, count do user_fields[i] = '\to:' .. users[i] end
    -- Nobody is asked for if nothing is open.
    open = (units or 0) > 0 and redis.pcall('HMGET', KEYS[3], unpack(user_fields)) or {}
    if not units or deadlines.err or next(deadlines) ~= nil or open.err then return nil end
    return stock_text, meta[1], entries, at_last_id, found, held
  end
  redis.setresp(3)
  local change = decide_batch(job, read, given[7], given[8], given[9], given[4], given[3], given[10])
  redis.setresp(2)
  if not change or change.count > 1000 or change.needs_records and redis.pcall('EXISTS', KEYS[5]) ~= 1 then return nil end
  local letters, count = change.letters, change.count
  local is_short = next(letters) ~= nil
  if is_short and borrows and find(change.head, '^%l*s') then return nil end
  local clock = redis.call('TIME')
  local micros = clock[2] + 0
  local now = clock[1] * 1000 + (micros - micros % 1000) / 1000
  local deadline_text = now + duration .. ''
  if is_short and units > 0 then
    local overdue = redis.pcall('ZRANGEBYSCORE', KEYS[6], '-inf', now .. '', 'LIMIT', '0', '1')
    if overdue.err or #overdue > 0 then return nil end
  end

  -- Records of the holds, and what users have open. Lists that are copied have their size at once.
  local users, ids, quantities, quantity = change.users, change.requests, change.quantities, given[4]
  local set, at, due, dues, taken, heads, texts = change.kept, change.kept_size, {unpack(ids, 1, count)}, 0, 0, {}, {}
  local now_open, moved, moved_fields = {}, {}, {}
  for i = 1, count do
    if (letters[i] or 'o') == 'o' then
      local text, user, id = quantities and quantities[i] or quantity, users[i], ids[i]
      local head = heads[text]
      if not head then
        head = {'held ' .. text .. ' ' .. deadline_text .. ' - ', text + 0}
        heads[text] = head
      end
      local has = now_open[user]
      if not has then
        local open_text = open[i]
        has = not open_text and 0 or texts[open_text] or small(open_text)
        if not has then return nil end
        if open_text then texts[open_text] = has end
        moved[#moved + 1], moved_fields[#moved_fields + 1] = user, user_fields[i]
      end
      now_open[user], taken = has + head[2], taken + head[2]
      due[dues + 1], due[dues + 2] = deadline_text, id
      set[at + 1], set[at + 2] = '\th:' .. id, head[1] .. user
      dues, at = dues + 2, at + 2
    elseif open[i] and not small(open[i]) then
      return nil
    end
  end
  local numbers = {}
  for i = 1, #moved do
    local has = now_open[moved[i]]
    local text = numbers[has]
    if not text then
      text = has .. ''
      numbers[has] = text
    end
    set[at + 1], set[at + 2] = moved_fields[i], text
    at = at + 2
  end
  local allowed = redis.acl_check_cmd
  if taken > 0 then
    if allowed and not (allowed('DECRBY', KEYS[1], '1') and allowed('HSET', KEYS[3], 'f', 'v')
      and (not change.row or allowed('XADD', KEYS[4], '*', 'f', 'v'))) then return nil end
    -- Write: deadlines, which are nobody's without a hold, then the stock. The first one shows whether KEYS[6] can take it.
    if type(redis.pcall('ZADD', KEYS[6], unpack(due, 1, dues))) ~= 'number' then return nil end
    local marks = change.is_first and (not allowed or allowed('HDEL', KEYS[3], 'f'))
    if marks then redis.call('HSET', KEYS[3], '\tbegun', 'first') end
    redis.call('DECRBY', KEYS[1], change.taken)
    redis.call('HSET', KEYS[5], unpack(change.set, 1, change.sets))
    if marks then redis.call('HDEL', KEYS[3], '\tbegun') end
    redis.call('HSET', KEYS[2], 'holds', (units + taken) .. '')
  end
  redis.call('HSET', KEYS[3], unpack(set, 1, at))
  if change.row then redis.call('XADD', KEYS[4], '*', unpack(change.row)) end
  local reply = change.head .. ' ' .. deadline_text
  if not job.rows then return reply end
  if is_short then
    local deadlines = {}
    for i = 1, count do deadlines[i] = letters[i] == 'o' and deadline_text or '0' end
    reply = change.head .. ' ' .. (taken > 0 and concat(deadlines, ',') or '0')
  end
  return reply .. ' ' .. concat(change.bought, ' ')
end
