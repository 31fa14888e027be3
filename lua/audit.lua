--[[
  audit: what some participants hold, with the stock and the ledger's end at that same instant. It only reads.

  KEYS[1]  stock          string
  KEYS[2]  meta           hash    rules, repairs, checkpoint, withdrawn, holds; may be absent
  KEYS[3]  requests       hash; only its type is read
  KEYS[4]  ledger         stream
  KEYS[5]  participants   hash (kind hash) | set (kinds set and coupon) | none (kind counter)
  KEYS[6]  units          hash; kind set only

  ARGV[1]  kind           hash, set, coupon or counter: the one that this script is of
  ARGV[2]  cursor         of a page of participants, 0 for the first; or empty: the users that follow
  ARGV[3]  count          how many participants a page has, about
  ARGV[4..]               users; at most 2,000. Of a page: `list`, or nothing

  Returns {status, ms, stock, rules, last, length, cursor, held}: the server's clock in Unix ms, the stock's text (with
  what is withdrawn) or false without KEYS[1], `{rules, repairs, checkpoint, withdrawn, holds}` of meta as texts or false
  (empty without a meta), the ledger's last id or false, how many entries it has, the next page's cursor
  (0: there is none), and held: for users, the text of what each holds, false for nothing; of a page, users and the text
  of what each holds in turn, joined by zero bytes behind their number and a space (quicker than a list, which `list`
  asks for if a user has such a byte). A member of a set without units, as a plain script leaves it, holds `?`. Status is
     1 ok
    -4 not_preheated  none of stock and meta is there, or it is archived
   -11 corrupt        {-11, ms, false, n, value}: KEYS[n] holds value (false: it is of the wrong type)

  Commands it needs: GET HMGET TYPE TIME XLEN XREVRANGE HSCAN; sets also SSCAN SMISMEMBER.
]]
--- @kinds hash set coupon counter
--- @let ALONE = '1'
--- @if set
--- @let ALONE = '?'
--- @end
--- @use "codes"

--- @use "values"
--- @use "meta"

local cursor, count = ARGV[2], ARGV[3]
if ARGV[1] ~= KIND then return usage('audit: ARGV[1] is not ' .. KIND .. ', the kind of this script') end
if #KEYS ~= KEYS_OF[KIND] then return usage('audit: kind and number of keys do not fit') end
if cursor == nil or not whole(count) then return usage('audit: ARGV[2] is no cursor, or ARGV[3] no count') end
if #ARGV > 2003 then return usage('audit: more than 2000 users in one call') end
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local function corrupt(value, key)
  local reply = unfit(value, key)
  if reply[1] then reply[2] = now end
  return reply
end

local stock_text = redis.pcall('GET', KEYS[1])
if stock_text and not whole(stock_text) then return corrupt(stock_text, 1) end
local fields = redis.pcall('HMGET', KEYS[2], 'rules', 'repairs', 'checkpoint', 'withdrawn', 'holds')
if fields.err then return corrupt(fields, 2) end
local rules, invalid = rules_of(fields[1], redis.call('TYPE', KEYS[2]).ok ~= 'none')
if not rules then return corrupt(invalid, 2) end
if fields[2] and not whole(fields[2]) then return corrupt(fields[2], 2) end
if fields[5] and not whole(fields[5]) then return corrupt(fields[5], 2) end
local withdrawn = withdrawn_units(fields[4])
if fields[4] and not withdrawn then return corrupt(fields[4], 2) end
if stock_text and withdrawn then
  stock_text = digits(whole(stock_text) + withdrawn)
  if not whole(stock_text) then return corrupt(fields[4], 2) end
end
local requests_type = redis.call('TYPE', KEYS[3]).ok
if requests_type ~= 'none' and requests_type ~= 'hash' then return corrupt({}, 3) end
local ledger_type = redis.call('TYPE', KEYS[4]).ok
local bad = ledger_unfit(ledger_type, rules)
if bad then return {CORRUPT, now, false, bad[4], bad[5]} end
local last, length = false, 0
if ledger_type == 'stream' then
  local newest = redis.call('XREVRANGE', KEYS[4], '+', '-', 'COUNT', 1)
  last = newest[1] and newest[1][1] or false
  length = redis.call('XLEN', KEYS[4])
end

--- @if set
-- The units of a set's members, in turn; HMGET takes so many that unpack does.
local function units_of(users)
  local all = {}
  for from = 1, #users, 2000 do
    local units = redis.pcall('HMGET', KEYS[6], unpack(users, from, math.min(from + 1999, #users)))
    if units.err then return nil, units end
    for i = 1, #units do all[#all + 1] = units[i] end
  end
  return all
end

--- @end
--- @if counter
-- Nobody is recorded.
local next_cursor, held = '0', {}
--- @else
local next_cursor, held = '0', {}
if cursor ~= '' then
  --- @if hash
  local page = redis.pcall('HSCAN', KEYS[5], cursor, 'COUNT', count)
  if page.err then return corrupt(page, 5) end
  next_cursor, held = page[1], page[2]
  --- @else
  local page = redis.pcall('SSCAN', KEYS[5], cursor, 'COUNT', count)
  if page.err then return corrupt(page, 5) end
  next_cursor = page[1]
  local users, units = page[2], {}
  --- @if set
  units, invalid = units_of(users)
  if not units then return corrupt(invalid, 6) end
  --- @end
  for i = 1, #users do
    held[2 * i - 1], held[2 * i] = users[i], units[i] or ALONE
  end
  --- @end
  if ARGV[4] ~= 'list' then held = #held .. ' ' .. concat(held, '\0') end
elseif #ARGV > 3 then
  --- @if hash
  held = redis.pcall('HMGET', KEYS[5], unpack(ARGV, 4))
  if held.err then return corrupt(held, 5) end
  --- @else
  local users, units = {unpack(ARGV, 4)}, {}
  held = redis.pcall('SMISMEMBER', KEYS[5], unpack(users))
  if held.err then return corrupt(held, 5) end
  --- @if set
  units, invalid = units_of(users)
  if not units then return corrupt(invalid, 6) end
  --- @end
  for i = 1, #users do held[i] = held[i] == 1 and (units[i] or ALONE) end
  --- @end
end
--- @end
local is_there = (stock_text or rules.total) and rules.state ~= 'archived'
return {is_there and OK or NOT_PREHEATED, now, stock_text, rules.total and fields or {}, last, length, next_cursor, held}
