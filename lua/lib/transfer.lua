-- Shards of an activity lend each other units. KEYS[3] of the donor has `<tab>tt:<id>` -> `units home ms` and `<tab>lent`, the ids of
-- open transfers, joined by spaces; that of the home has `<tab>tb:<id>` -> `units donor`. `tt:` and `tb:` stay until a reset, so
-- that whatever comes late finds them.
--- @use "meta"

-- The id of a transfer: a SHA-1 in hexadecimal.
local function is_transfer(id)
  return #id == 40 and find(id, '^[0-9a-f]+$') ~= nil
end

-- The number of a shard.
local function is_shard(text)
  return whole(text) ~= nil and #text < 10
end

-- Reads the shard that KEYS are of: withdrawn units (nil: none are), units with what is in the stock, rules, the ledger's last id.
-- Returns nil and the reply that refuses the call if it is none, none of this epoch (nil: of any), or archived.
local function read_shard(epoch)
  local stock_text = redis.pcall('GET', KEYS[1])
  local fields = redis.pcall('HMGET', KEYS[2], 'rules', 'withdrawn')
  if fields.err then return nil, unfit(fields, 2) end
  local rules, invalid = rules_of(fields[1], not fields[1] and redis.call('TYPE', KEYS[2]).ok ~= 'none')
  if not rules then return nil, unfit(invalid, 2) end
  local bad, _, last = read_ledger(stock_text, rules)
  if bad then return nil, bad end
  if rules.state == 'archived' then return nil, {ENDED, false} end
  if not (stock_text and rules.total and rules.ledger) then return nil, {NOT_PREHEATED, false} end
  local stock, withdrawn = whole(stock_text), whole(fields[2])
  if not stock then return nil, unfit(stock_text, 1) end
  if fields[2] and not withdrawn then return nil, unfit(fields[2], 2) end
  if epoch and digits(rules.epoch) ~= epoch then return nil, {OTHER_EPOCH, digits(rules.epoch)} end
  return {withdrawn = withdrawn, units = stock + (withdrawn or 0), rules = rules, last = last}
end
