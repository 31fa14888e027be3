-- A change of a shard's total is several writes. Until all are done, `<tab>moving` of KEYS[3] says what they are, as a column of
-- texts: operation, id of the transfer or plan, units, other shard, total afterwards, by, reason, the ledger's last id before it; of
-- an update also limit, start, end and title. Only a cut leaves it there, and whatever changes the total finishes it first. So the
-- total is that before or after the change, and no other entry of that operation comes between that last id and its own.
--- @use "meta"
--- @use "columns"
--- @use "denied"
--- @use "stock"
--- @use "transfer"

local MOVING = '\tmoving'

-- The command that finishing a change needs and that this user may not run, or nil.
local function denied_move(adds)
  return denied_command('HSET', KEYS[2], 'HDEL', KEYS[2], 'HSET', KEYS[3], 'HDEL', KEYS[3], 'XADD', KEYS[4],
    adds and 'INCRBY', KEYS[1])
end

-- Writes what a change lacks behind its record: the total, and of an update the other rules; the entry; the stock, if that grows.
local function write_move(shard, move)
  local op, rules = move[1], shard.rules
  local adds = op == 'lend' and 0 or whole(move[3])
  rules.total, shard.units = whole(move[5]), shard.units + adds
  if op == 'update' then
    rules.limit, rules.starts, rules.ends = whole(move[9]), whole(move[10]), whole(move[11])
    redis.call('HSET', KEYS[2], 'rules', rules_text(rules), 'title', move[12])
    if move[12] == '' then redis.call('HDEL', KEYS[2], 'title') end
  else
    redis.call('HSET', KEYS[2], 'rules', rules_text(rules))
  end
  local transfer = op == 'update' and {} or {'transfer', move[2], 'shard', move[4], 'units', move[3]}
  local fields = entry(op, move[6], move[7], digits(shard.units), 'total', move[5], unpack(transfer))
  shard.last = redis.call('XADD', KEYS[4], '*', unpack(fields))
  if adds > 0 then return_units(shard.withdrawn, adds) end
  if shard.withdrawn then shard.withdrawn = shard.withdrawn + adds end
  redis.call('HDEL', KEYS[3], MOVING)
end

-- Begins a change, together with more fields of KEYS[3], and makes it. Units that it takes are taken already.
local function begin_move(shard, move, fields)
  move[8] = shard.last or '0-0'
  fields[#fields + 1], fields[#fields + 2] = MOVING, concat(move, '\t')
  redis.call('HSET', KEYS[3], unpack(fields))
  write_move(shard, move)
end

-- Finishes a change that a cut left. Returns nil, or the reply that refuses the call; and the id of what lacked its entry. Units that
-- the stock lacks behind the entry are for an audit to prove: nothing here says whether they came. Nor do those of a call that gave
-- units back and was cut: the stock alone says it, as long as nothing else changes that.
local function finish_move(shard)
  local found = redis.pcall('HMGET', KEYS[3], MOVING, '\tbegun')
  if found.err then return unfit(found, 3) end
  local text, is_returning = found[1], find(found[2] or '', '^stock ')
  if not (text or is_returning) then return nil end
  local move, near = text and read_column(text), nil
  if text then
    local size = move[1] == 'update' and 12 or 8
    if #move ~= size or not (whole(move[3]) and whole(move[5])) then return unfit(text, 3) end
    near = redis.call('XRANGE', KEYS[4], move[8], '+', 'COUNT', 2)
    if not near[1] or near[1][1] ~= move[8] then return unfit(text, 3) end
  end
  local denied = denied_move(true)
  if denied then return forbidden(denied) end
  if is_returning then redis.call('HDEL', KEYS[3], '\tbegun') end
  if not move then return nil end
  if near[2] and near[2][2][2] == move[1] then
    redis.call('HDEL', KEYS[3], MOVING)
  else
    -- Other entries came meanwhile: that of this change would not be the first behind the last id.
    if near[2] then
      move[8] = shard.last
      redis.call('HSET', KEYS[3], MOVING, concat(move, '\t'))
    end
    write_move(shard, move)
    return nil, move[2]
  end
end
