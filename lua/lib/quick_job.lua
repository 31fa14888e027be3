--- @use "batch"
-- The orders of a job, as the arguments of deduct and refund have them. Returns the reply; or nil before any write, and the
-- reference path decides. `return_batch` writes those of refund.
local function quick_job(op, return_batch)
  local given = ARGV
  if given[1] ~= 'hash' or #KEYS ~= 5 or #given < 9 or given[2] == '' or given[5] == '' then return nil end
  local borrows = #given == 15 and given[13] == '' and given[14] == '' and given[15] == 'borrow' and op == 'deduct'
  if #given > 12 and not borrows then return nil end
  local job = {
    op = op, by = given[2], reason = given[12] or '', name = given[5], digest = given[6], field = '\tj:' .. op .. ':' .. given[5],
    rows = given[11] == '1',
  }
  local function read(fields, users)
    local rules
    if op == 'deduct' then
      rules = redis.pcall('HGET', KEYS[2], 'rules')
    else
      rules = rules_without_holds(redis.pcall('HMGET', KEYS[2], 'rules', 'holds', 'withdrawn'))
    end
    return redis.pcall('GET', KEYS[1]), rules, redis.pcall('XLEN', KEYS[4]),
      redis.pcall('XREVRANGE', KEYS[4], LAST_ID, LAST_ID, 'COUNT', 1),
      redis.pcall('HMGET', KEYS[3], unpack(fields)), redis.pcall('HMGET', KEYS[5], unpack(users))
  end
  redis.setresp(3)
  local change = decide_batch(job, read, given[7], given[8], given[9], given[4], given[3], given[10] or '')
  redis.setresp(2)
  -- Orders that the stock does not cover wait.
  if change and borrows and find(change.reply, '^%l*s') then return nil end
  if not change or change.needs_records and redis.pcall('EXISTS', KEYS[5]) ~= 1 then return nil end
  local allowed = redis.acl_check_cmd
  if change.applied and allowed and not (allowed('HSET', KEYS[3], 'f', 'v') and (not change.row or allowed('XADD', KEYS[4], '*', 'f', 'v'))
    and (op == 'deduct' or allowed('HDEL', KEYS[5], 'f') and allowed('INCRBY', KEYS[1], '1') and allowed('HDEL', KEYS[3], 'f')
      and (not change.row or allowed('XREVRANGE', KEYS[4], '+', '-')))) then return nil end

  -- Write: a deduct takes the stock first, a refund returns it last.
  if change.returned then
    return_batch(change)
    return change.reply
  end
  -- Nothing was sold yet: `take_and_record` says why.
  local marks = change.is_first and (not allowed or allowed('HDEL', KEYS[3], 'f') and allowed('DECRBY', KEYS[1], '1'))
  if marks then redis.call('HSET', KEYS[3], '\tbegun', 'first') end
  if change.taken then redis.call('DECRBY', KEYS[1], change.taken) end
  if change.sets > 0 then redis.call('HSET', KEYS[5], unpack(change.set, 1, change.sets)) end
  if marks then redis.call('HDEL', KEYS[3], '\tbegun') end
  redis.call('HSET', KEYS[3], unpack(change.kept, 1, change.kept_size))
  if change.row then redis.call('XADD', KEYS[4], '*', unpack(change.row)) end
  return change.reply
end
