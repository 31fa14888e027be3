--- @use "plain"
-- A batch of a job: orders of one activity, kind hash, in the common case: the activity is live, these are the job's next
-- lines, and no request id is known. It decides ok and the plain refusals; anything else is nil, and is for the reference
-- path. The scripts that include it read and write, because their keys must be literal.

-- The rules in a reply to HMGET of `rules`, `holds` and `withdrawn`: nil if units are held open, which a refund must leave, or withdrawn.
local function rules_without_holds(found)
  if found.err or found[3] or found[2] and found[2] ~= '0' then return nil end
  return found[1]
end

-- Decides a batch. `job` is what batches have in common: op, by, reason, name, digest, field (where its record is kept) and
-- rows (whether the reply says what users hold); then come the batch's arguments. `read`, called with fields of the
-- requests and with users, gives the replies to GET of the stock, the rules, XLEN of the ledger, what it has at LAST_ID, HMGET of those
-- fields and HMGET of those users, in protocol 3, in which what is absent is nil.
-- Returns nil, or what is to be written: `taken` and `returned` of the stock, `set` and `cleared` of participants, `kept` of
-- requests, `row` of the ledger; whether anything is `applied`; `needs_records` if participants must exist, `is_first` if
-- nothing was sold before; and the reply.
-- Of holds also the columns, `letters`, empty if no order was refused, what users hold, `bought`, and the `head` of the reply.
local function decide_batch(job, read, epoch, before, lines, quantity, users_text, requests_text)
  -- The batch.
  local users = plain_column(users_text)
  local count = users and #users
  if not count or count > 2000 then return nil end
  local requests = requests_text ~= '' and plain_column(requests_text, '^[!-~]*$')
  if requests_text ~= '' and (not requests or #requests ~= count) then return nil end
  local is_list = find(quantity, '[', 1, true) == 1
  local quantities = is_list and plain_column(quantity, '^[!-~]*$')
  if is_list and (not quantities or #quantities ~= count) then return nil end
  local first, last, last_text = ends_of(lines, count)
  before = small(before)
  if not first or not before then return nil end

  -- What is there. The job's record comes after the request ids, then a call that was cut.
  local at, fields = requests and count + 1 or 1, requests or {}
  fields[at], fields[at + 1] = job.field, '\tbegun'
  local stock_text, rules, entries, at_last_id, found, held = read(fields, users)
  local ledger, its_epoch, limit_text, total_text, starts_text, ends_text =
    match(type(rules) == 'string' and rules or '', '^live ([01]) (%d+) (%S+) (%d+) (%S+) (%S+)$')
  local stock, total, limit, starts, ends = small(stock_text), small(total_text), small(limit_text), small(starts_text), small(ends_text)
  if not (stock and total) or its_epoch ~= epoch or not small(epoch) or limit_text ~= '-' and not limit
    or starts_text ~= '-' and not starts or ends_text ~= '-' and not ends then return nil end
  local takes = job.op ~= 'refund'
  if takes and (starts or ends) then
    local clock = redis.call('TIME')
    local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
    if starts and now < starts or ends and now >= ends then return nil end
  end
  if type(entries) ~= 'number' or ledger == '1' and (entries == 0 or next(at_last_id) ~= nil) then return nil end
  -- Nothing but the job's record may be there. Which key of a table comes first is not said.
  if found.err or held.err then return nil end
  local known = next(found)
  if known and (known ~= at or next(found, at) ~= nil) then return nil end
  local line, refused_text, digest = '0', '0', job.digest
  if found[at] then line, refused_text, digest = match(found[at], '^(%d+) (%d+) (.*)$') end
  line = small(line)
  local refused = small(refused_text)
  if not (line and refused) or digest ~= job.digest or line < before or line >= first then return nil end

  -- Lists that are copied have their size at once; one that grows is copied again and again.
  local set, cleared, kept = {unpack(users)}, {}, requests and {unpack(users)} or {}
  local bought = job.rows and {unpack(users)}
  local letters, left, ok, sets, kept_at, any = {}, stock, 0, 0, 0, next(held) ~= nil
  local now, once, numbers, amounts, texts = {}, {[''] = true}, {}, {}, {[0] = '0'}
  -- What an order of a quantity moves, and how a request id stores it before the user.
  local function meaning(text)
    local units = small(text)
    if not units or units < 1 or units > 1000000000 then return nil end
    local prefix = job.op ~= 'deduct' and job.op .. ' ' .. text .. '\t' or text == '1' and '' or text .. '\t'
    numbers[text] = {takes and units or -units, prefix}
    return numbers[text]
  end
  local step, prefix
  if not quantities then
    local common = meaning(quantity)
    if not common then return nil end
    step, prefix = common[1], common[2]
  end
  local most, room = takes and limit or math.huge, takes and math.huge or total

  -- All at once, if nobody holds anything and the stock suffices for all: then only a user who comes twice can be refused.
  local is_uniform = takes and not quantities and not any and step <= most and count * step <= stock
  for i = 1, is_uniform and count or 0 do
    local user = users[i]
    if now[user] or user == '' or #user > 256 then
      is_uniform, now = false, {}
      break
    end
    now[user], set[sets + 1], set[sets + 2] = true, user, quantity
    sets = sets + 2
  end
  if is_uniform then
    left, ok = stock - count * step, count
    for i = 1, bought and count or 0 do bought[i] = quantity end
  else
    sets = 0
    for i = 1, count do
      local user = users[i]
      local had = now[user]
      if not had then
        had = 0
        local text = held[i]
        if text then
          had = amounts[text] or small(text)
          if not had then return nil end
          amounts[text] = had
        end
        if user == '' or #user > 256 then return nil end
      end
      if quantities then
        local own = numbers[quantities[i]] or meaning(quantities[i])
        if not own then return nil end
        step = own[1]
      end
      local units, rest = had + step, left - step
      if units > most or rest < 0 or units < 0 or rest > room then
        letters[i], refused = takes and (units > most and 'l' or 's') or 'x', refused + 1
      else
        left, had, ok = rest, units, ok + 1
        if had == 0 then
          cleared[#cleared + 1] = user
        else
          local text = texts[had]
          if not text then
            text = had .. ''
            texts[had] = text
          end
          set[sets + 1], set[sets + 2] = user, text
          sets = sets + 2
        end
      end
      now[user] = had
      if bought then bought[i] = texts[had] or had .. '' end
    end
  end
  for i = 1, requests and count or 0 do
    local request = requests[i]
    if once[request] or #request > 128 then return nil end
    once[request] = true
    if not letters[i] then
      if quantities then prefix = numbers[quantities[i]][2] end
      kept[kept_at + 1], kept[kept_at + 2] = request, prefix == '' and users[i] or prefix .. users[i]
      kept_at = kept_at + 2
    end
  end
  -- A number costs more to write than all else of a record.
  if ok < count then refused_text = refused .. '' end
  kept[kept_at + 1], kept[kept_at + 2] = job.field, last_text .. ' ' .. refused_text .. ' ' .. digest

  local row
  if ok > 0 and ledger == '1' then
    if ok < count then
      -- Refused orders have no place in the ledger: its columns are written anew without them.
      local function applied(values)
        local some = {}
        for i = 1, count do if not letters[i] then some[#some + 1] = values[i] end end
        return some
      end
      users_text = '["' .. concat(applied(users), '","') .. '"]'
      if requests then requests_text = '["' .. concat(applied(requests), '","') .. '"]' end
      if quantities then quantity = '["' .. concat(applied(quantities), '","') .. '"]' end
      local numbered = {}
      if find(lines, '-', 1, true) then
        for number = first, last do numbered[#numbered + 1] = number .. '' end
      else
        for word in string.gmatch(lines, '[^ ]+') do numbered[#numbered + 1] = word end
      end
      lines = concat(applied(numbered), ' ')
    end
    row = {'op', job.op, 'stock', left .. '', 'by', job.by}
    if job.reason ~= '' then row[7], row[8] = 'reason', job.reason end
    local size = #row
    row[size + 1], row[size + 2], row[size + 3], row[size + 4] = 'job', job.name, 'lines', lines
    row[size + 5], row[size + 6], row[size + 7], row[size + 8] = 'quantity', quantity, 'users', users_text
    if requests then row[size + 9], row[size + 10] = 'requests', requests_text end
  end

  local reply = string.rep('o', count)
  if ok < count then
    for i = 1, count do letters[i] = letters[i] or 'o' end
    reply = concat(letters)
  end
  reply = reply .. ' ' .. stock_text .. ' ' .. refused_text
  return {
    count = count, stock = stock, applied = ok > 0,
    -- Units were sold, and nobody of these is recorded: limits would start over if no record of them is left.
    needs_records = takes and not any and total > stock, is_first = takes and ok > 0 and total <= stock,
    taken = takes and ok > 0 and (stock - left) .. '', returned = not takes and ok > 0 and (left - stock) .. '', short = left < total,
    set = set, sets = sets, cleared = cleared, kept = kept, kept_size = kept_at + 2, row = row,
    reply = bought and reply .. ' ' .. concat(bought, ' ') or reply,
    head = reply, letters = letters, users = users, requests = requests, quantities = quantities, bought = bought,
  }
end
