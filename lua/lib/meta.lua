-- What preheat wrote about an activity, as every operation reads it: meta's `rules`. Units that `pause --withdraw-stock`
-- moved from KEYS[1] to meta's `withdrawn` are still for sale later, so whatever counts the stock adds them.
--- @use "values"
--- @use "entry_fields"

-- The rules in a text: `state ledger epoch limit total starts ends`, separated by single spaces, `-` for none. Nil if it is
-- anything else. The state is live, paused or archived; times are Unix ms.
local function parse_rules(text)
  local pattern = '^(%l+) ([01]) (%d+) ([%d%-]+) (%d+) ([%d%-]+) ([%d%-]+)$'
  local state, ledger, epoch, limit, total, starts, ends = string.match(text, pattern)
  local rules = {
    state = state, ledger = ledger == '1', epoch = whole(epoch), limit = whole(limit), total = whole(total),
    starts = whole(starts), ends = whole(ends),
  }
  if state ~= 'live' and state ~= 'paused' and state ~= 'archived' then return nil end
  if not (rules.epoch and rules.total) then return nil end
  if not ((rules.limit or limit == '-') and (rules.starts or starts == '-') and (rules.ends or ends == '-')) then return nil end
  return rules
end

-- The text of rules, as `parse_rules` reads it.
local function rules_text(rules)
  local function optional(number) return number and digits(number) or '-' end
  return concat({rules.state, rules.ledger and '1' or '0', digits(rules.epoch), optional(rules.limit), digits(rules.total),
    optional(rules.starts), optional(rules.ends)}, ' ')
end

-- The rules of a shard that a reset removed: its epoch is kept, so that what comes late cannot make it again.
local REMOVED = '^archived 0 %d+ %- 0 %- %-$'

-- The rules in meta's field `rules`, of which `text` is the reply: an empty table if there is no meta, or that of a removed shard.
-- Otherwise nil and the value that is no rules: `no rules` if a meta, which `has_meta` says is there, has none, as data of version 0.1.
local function rules_of(text, has_meta)
  if type(text) == 'table' then return nil, text end
  if text and find(text, REMOVED) then return {} end
  if text then return parse_rules(text), text end
  if has_meta then return nil, 'no rules' end
  return {}
end

-- The server's clock, in Unix ms.
local function unix_ms()
  local clock = redis.call('TIME')
  return clock[1] * 1000 + math.floor(clock[2] / 1000)
end

-- Reads KEYS[4], beside a stock (false: none). Returns the refusal if it takes no entry, or nil, how many entries it has, and the id
-- of the last one (nil: none). A ledger beside no meta means that the limit was lost. A stock and a meta beside no ledger mean that
-- its entries were: the next one would begin another.
local function read_ledger(stock, rules)
  local entries, last = redis.pcall('XLEN', KEYS[4]), nil
  if type(entries) == 'table' then return unfit(entries, 4) end
  if not rules.total and entries > 0 then return unfit('nothing, beside a ledger', 2) end
  if entries > 0 then
    local newest = redis.pcall('XREVRANGE', KEYS[4], '+', '-', 'COUNT', 1)
    if newest.err then return unfit(newest, 4) end
    last = newest[1][1]
  end
  if stock and rules.ledger and rules.state ~= 'archived' then
    if entries == 0 then return unfit('nothing, though meta has a ledger', 4) end
    if last == LAST_ID then return unfit(LAST_ID, 4) end
  end
  return nil, entries, last
end
