-- Confirms the holds of a job in the common case.
--- @use "plain"

-- The text that all are, or nil.
local function common_text(texts)
  local common = texts[1]
  for i = 2, #texts do
    if texts[i] ~= common then return nil end
  end
  return common
end

-- The holds of a job that are confirmed, in the common case: these are the job's next lines, and each hold is open, or not there.
-- Returns the reply; or nil before any write, and the reference path decides. No participant changes, so that a coupon's holds
-- are like a hash's; their counters are only looked at.
local function quick_confirm()
  local given, sub = ARGV, string.sub
  local kind, by, ids_text, name, job_digest = given[1], given[2], given[3], given[5], given[6]
  if given[4] ~= 'confirm' or kind ~= 'hash' and kind ~= 'coupon' or #KEYS ~= 6 or #given ~= 9 or by == '' or name == '' then return nil end
  local ids = plain_column(ids_text, '^[!-~]*$')
  local count = ids and #ids
  if not count or count < 1 or count > 1000 then return nil end
  local first, last, last_text = ends_of(given[9], count)
  local before = small(given[8])
  if not first or not before then return nil end

  -- What is there. The job's record comes after the holds, then a call that was cut.
  local fields = {unpack(ids)}
  for i = 1, count do
    local id = ids[i]
    if id == '' or #id > 128 then return nil end
    fields[i] = '\th:' .. id
  end
  local record_at = count + 1
  fields[record_at], fields[record_at + 1] = '\tj:confirm:' .. name, '\tbegun'
  local stock_text = redis.pcall('GET', KEYS[1])
  local meta = redis.pcall('HMGET', KEYS[2], 'rules', 'withdrawn', 'holds')
  local ledger, its_epoch, limit_text, total_text, starts_text, ends_text =
    match(not meta.err and not meta[2] and meta[1] or '', '^live ([01]) (%d+) (%S+) (%d+) (%S+) (%S+)$')
  local stock, units = small(stock_text), small(meta[3])
  if not (stock and small(total_text) and units) or its_epoch ~= given[7] or not small(its_epoch)
    or limit_text ~= '-' and not small(limit_text) or starts_text ~= '-' and not small(starts_text)
    or ends_text ~= '-' and not small(ends_text) then return nil end
  local entries, at_last_id = redis.pcall('XLEN', KEYS[4]), redis.pcall('XREVRANGE', KEYS[4], LAST_ID, LAST_ID, 'COUNT', 1)
  if type(entries) ~= 'number' or ledger == '1' and (entries == 0 or next(at_last_id) ~= nil) or redis.pcall('TYPE', KEYS[6]).ok ~= 'zset' then return nil end
  local found = redis.pcall('HMGET', KEYS[3], unpack(fields))
  if found.err or found[record_at + 1] then return nil end
  local line, refused_text = '0', '0'
  if found[record_at] then
    local digest
    line, refused_text, digest = match(found[record_at], '^(%d+) (%d+) (.*)$')
    if digest ~= job_digest then return nil end
  end
  line = small(line)
  local refused = small(refused_text)
  if not (line and refused) or line < before or line >= first then return nil end

  -- What each hold says: it is open, or not there, which `letters` says. Of a user who has several, the units are added up.
  -- Lists that are copied have their size at once; one that grows is copied again and again.
  local set, owners, names, name_fields, quantities = {unpack(fields, 1, count)}, {unpack(ids)}, {unpack(ids)}, {unpack(ids)}, {unpack(ids)}
  local letters, closing, once, sets, closed, moved, asked = {}, {}, nil, 0, 0, 0, 0
  -- Those of one call of hold have all but the user in common: `held` to `-`, and its length.
  local head, head_size, new_head, quantity_text, quantity = nil, 0, nil, nil, nil
  for i = 1, count do
    local text = found[i]
    if not text then
      letters[i], quantities[i], refused = 'h', '0', refused + 1
    else
      if sub(text, 1, head_size) ~= head then
        local deadline_text
        quantity_text, deadline_text, head_size = match(text, '^held ([1-9]%d*) ([1-9]%d*) %- ().')
        if not head_size or #quantity_text > 13 or #deadline_text > 13 then return nil end
        head_size = head_size - 1
        head, quantity = sub(text, 1, head_size), quantity_text + 0
        new_head = 'confirmed' .. sub(head, 5)
      end
      local user = sub(text, head_size + 1)
      if user == '' then return nil end
      quantities[i] = quantity_text
      local ends = closing[user]
      if not ends then
        ends, asked = 0, asked + 1
        names[asked], name_fields[asked] = user, '\to:' .. user
      elseif not once then
        once = {}
        for n = 1, i - 1 do once[ids[n]] = true end
      end
      if once then
        if once[ids[i]] then return nil end
        once[ids[i]] = true
      end
      closing[user], moved, closed = ends + quantity, moved + quantity, closed + 1
      owners[closed], set[sets + 1], set[sets + 2] = user, fields[i], new_head .. user
      sets = sets + 2
    end
  end
  if moved > units then return nil end
  -- What users have open. Nobody is asked for if nothing is.
  local open = asked > 0 and units > 0 and redis.pcall('HMGET', KEYS[3], unpack(name_fields, 1, asked)) or {}
  if open.err then return nil end
  -- Which what they hold must cover.
  local held = {}
  if asked > 0 and kind == 'hash' then held = redis.pcall('HMGET', KEYS[5], unpack(names, 1, asked)) end
  if asked > 0 and kind == 'coupon' then held = redis.pcall('SMISMEMBER', KEYS[5], unpack(names, 1, asked)) end
  if held.err then return nil end
  local cleared, clears, numbers = {}, 0, {}
  for i = 1, asked do
    local text, ends = open[i] or '0', closing[names[i]]
    local has = numbers[text] or small(text)
    local covers = kind == 'coupon' and held[i] or numbers[held[i]] or small(held[i])
    if not has or has < ends or not covers or covers < has then return nil end
    numbers[text] = has
    if has == ends then
      clears = clears + 1
      cleared[clears] = name_fields[i]
    else
      set[sets + 1], set[sets + 2] = name_fields[i], (has - ends) .. ''
      sets = sets + 2
    end
  end

  local lines, closed_ids, closed_quantities = given[9], ids, quantities
  if closed < count then
    -- Those that are not open have no place in the ledger: its columns are written anew without them.
    local function applied(values)
      local some = {}
      for i = 1, count do if not letters[i] then some[#some + 1] = values[i] end end
      return some
    end
    local numbered = {}
    if find(lines, '-', 1, true) then
      for number = first, last do numbered[#numbered + 1] = number .. '' end
    else
      for word in string.gmatch(lines, '[^ ]+') do numbered[#numbered + 1] = word end
    end
    closed_ids, closed_quantities, lines = applied(ids), applied(quantities), concat(applied(numbered), ' ')
    ids_text = '["' .. concat(closed_ids, '","') .. '"]'
    refused_text = refused .. ''
  end
  local row
  if closed > 0 and ledger == '1' then
    local users_text = concat(owners, '","', 1, closed)
    local all = concat(owners, '', 1, closed)
    -- What JSON would escape is left to the reference path; this also escapes `/`, which need not be.
    if #cjson.encode(all) ~= #all + 2 and find(all, '[%c"\\\127]') then return nil end
    row = {'op', 'confirm', 'stock', stock_text, 'by', by, 'job', name, 'lines', lines,
      'quantity', common_text(closed_quantities) or '["' .. concat(closed_quantities, '","') .. '"]',
      'users', '["' .. users_text .. '"]', 'requests', ids_text}
  end
  local allowed = redis.acl_check_cmd
  if closed > 0 and allowed and not (allowed('HDEL', KEYS[3], 'f') and allowed('HSET', KEYS[2], 'f', 'v')
    and allowed('ZREM', KEYS[6], 'm') and (not row or allowed('XADD', KEYS[4], '*', 'f', 'v'))) then return nil end

  -- Write: the job's line last, so that the same call again finishes one that was cut.
  if sets > 0 then redis.call('HSET', KEYS[3], unpack(set, 1, sets)) end
  if clears > 0 then redis.call('HDEL', KEYS[3], unpack(cleared)) end
  if closed > 0 then
    redis.call('HSET', KEYS[2], 'holds', (units - moved) .. '')
    redis.call('ZREM', KEYS[6], unpack(closed_ids))
    if row then redis.call('XADD', KEYS[4], '*', unpack(row)) end
  end
  redis.call('HSET', KEYS[3], fields[record_at], last_text .. ' ' .. refused_text .. ' ' .. job_digest)
  local reply = string.rep('o', count)
  if closed < count then
    for i = 1, count do letters[i] = letters[i] or 'o' end
    reply = concat(letters)
  end
  return concat({reply, stock_text, refused_text, common_text(quantities) or concat(quantities, ',')}, ' ')
end
