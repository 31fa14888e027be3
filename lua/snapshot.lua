--[[
  snapshot: one activity at one instant, and what some users hold. It only reads.

  KEYS[1]  stock          string
  KEYS[2]  meta           hash
  KEYS[3]  requests       hash    <tab>holds: units held open; <tab>begun -> what a call that gives units back is about to do
  KEYS[4]  ledger         stream
  KEYS[5]  participants   hash (kind hash) | set (kinds set and coupon) | none (kind counter)
  KEYS[6]  units          hash; kind set only

  ARGV[1]  kind           hash, set, coupon or counter
  ARGV[2..]               users

  Returns {status, ms, stock, meta, participants, last, length, held}: the server's clock in Unix ms, the text of KEYS[1]
  or false, the meta as a flat list of fields and values (its `withdrawn` belongs to the stock) with the units held open as `holds` and
  `<tab>begun` as `begun`, how many users hold units, the ledger's last id or false, how many entries it has, and for each user the text of what is held, false for
  nothing, `?` for a member of a set without units, as a plain script leaves it. Status is
     1 ok
    -4 not_preheated  KEYS[1] is absent: nobody can buy (what else there is, is replied all the same)
   -11 corrupt        {-11, ms, false, n, value}: KEYS[n] holds value (false: it is of the wrong type)

  Commands it needs: GET HGETALL TIME HLEN HMGET XLEN XREVRANGE; sets also SCARD SMISMEMBER.
]]
--- @use "codes"
--- @use "meta"

local kind = ARGV[1]
if #KEYS ~= (KEYS_OF[kind] or -1) then return usage('snapshot: kind and number of keys do not fit') end
local now = unix_ms()
-- A refusal has the time, too.
local timeless = unfit
local function unfit(value, key)
  local reply = timeless(value, key)
  if reply[1] then reply[2] = now end
  return reply
end

local stock_text = redis.pcall('GET', KEYS[1])
if stock_text and not whole(stock_text) then return unfit(stock_text, 1) end
--- @include "all_meta"
if meta.withdrawn and not whole(meta.withdrawn) then return unfit(meta.withdrawn, 2) end
local found = redis.pcall('HMGET', KEYS[3], '\tholds', '\tbegun')
if found.err or found[1] and not whole(found[1]) then return unfit(found.err and found or found[1], 3) end
if found[1] then flat[#flat + 1], flat[#flat + 2] = 'holds', found[1] end
if found[2] then flat[#flat + 1], flat[#flat + 2] = 'begun', found[2] end
local bad, entries, last = read_ledger(stock_text, rules)
if bad then return bad.err and bad or {CORRUPT, now, false, bad[4], bad[5]} end
--- @include "participants"
local held = {}
-- unpack takes so many.
for from = 2, kind == 'counter' and 0 or #ARGV, 2000 do
  local upto = math.min(from + 1999, #ARGV)
  if kind == 'hash' then
    local units = redis.call('HMGET', KEYS[5], unpack(ARGV, from, upto))
    for i = 1, #units do held[#held + 1] = units[i] end
  else
    local is_in = redis.call('SMISMEMBER', KEYS[5], unpack(ARGV, from, upto))
    local units = kind == 'set' and redis.call('HMGET', KEYS[6], unpack(ARGV, from, upto)) or {}
    for i = 1, #is_in do held[#held + 1] = is_in[i] == 1 and (units[i] or kind == 'set' and '?' or '1') end
  end
end
return {stock_text and OK or NOT_PREHEATED, now, stock_text, flat, participants, last or false, entries, held}
