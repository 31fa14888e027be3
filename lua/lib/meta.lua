-- What preheat wrote about an activity, as every operation reads it.

-- Reads the reply of HMGET meta total per_user_limit starts_at ends_at state ledger epoch. Returns the rules
-- (an empty table where there is no meta), or nil and the value that does not fit. `number` reads a number, if not `whole`.
local function rules_of(fields, number)
  if fields.err then return nil, fields end
  local total, limit, starts, ends, state, ledger, epoch = unpack(fields, 1, 7)
  if not (total or limit or starts or ends or state or ledger or epoch) then return {} end
  number = number or whole
  local rules = {
    total = number(total), limit = limit and number(limit), starts = starts and number(starts),
    ends = ends and number(ends), state = state, ledger = ledger == '1', epoch = number(epoch),
  }
  if not rules.total then return nil, total or 'no total' end
  if limit and not rules.limit then return nil, limit end
  if starts and not rules.starts then return nil, starts end
  if ends and not rules.ends then return nil, ends end
  if state ~= 'live' and state ~= 'paused' then return nil, state or 'no state' end
  if ledger ~= '0' and ledger ~= '1' then return nil, ledger or 'no ledger flag' end
  if not rules.epoch then return nil, epoch or 'no epoch' end
  return rules
end

-- Units that `pause --withdraw-stock` moved from KEYS[1] to meta's `withdrawn`, from the text of that field: nil if it is
-- absent; nil and the text if it is no number. They are still for sale later, so whatever counts the stock adds them. Only
-- purchases need not look: they are refused while the activity is paused, and without it they only find fewer units.
local function withdrawn_units(text)
  if not text then return nil end
  return whole(text), text
end

-- Why nobody may buy now, or nil. The clock is the server's, read only where a window is set.
local function closed(rules)
  if rules.state == 'paused' then return PAUSED end
  if not (rules.starts or rules.ends) then return nil end
  local clock = redis.call('TIME')
  local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
  if rules.starts and now < rules.starts then return NOT_STARTED end
  if rules.ends and now >= rules.ends then return ENDED end
end

-- The refusal where KEYS[4], whose TYPE is given, cannot take an entry: it must be a stream or nothing, and a
-- ledger beside no meta means that the limit was lost.
local function ledger_unfit(kind, rules)
  if kind == 'none' or (kind == 'stream' and rules.total) then return nil end
  if kind == 'stream' then return unfit('nothing, beside a ledger', 2) end
  return {CORRUPT, false, false, 4, false}
end

-- The arguments of one ledger entry after its id; empty ones are left out.
local function entry(op, by, reason, stock, name, value)
  local fields = {'op', op, 'stock', stock}
  local function add(field, text)
    if text and text ~= '' then
      fields[#fields + 1] = field
      fields[#fields + 1] = text
    end
  end
  add('by', by)
  add('reason', reason)
  add(name, value)
  return fields
end
