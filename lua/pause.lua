--[[
  pause: refuses every purchase of one activity for a while, or allows them again.

  KEYS[1]  stock   string
  KEYS[2]  meta    hash    state is live or paused
  KEYS[3]  requests, of which nothing is read
  KEYS[4]  ledger  stream  one entry where the state changed
  further keys of the activity may be given

  ARGV[1]  state   paused or live
  ARGV[2]  by      who runs this, for the ledger; may be empty
  ARGV[3]  reason  why, for the ledger; may be empty
  ARGV[4]  dry     1: write nothing

  Returns {status}:
     1 ok             the state is changed
     2 replayed       it was so already
    -4 not_preheated  KEYS[2] is absent: what another system preheated cannot be paused
   -11 corrupt        {-11, false, false, n, value}: KEYS[n] holds value (false: it is of the wrong type)

  Commands it needs (checked before the first write from Redis 7.0 on): GET HMGET TYPE HSET XADD.
]]
local state, by, reason, dry = ARGV[1], ARGV[2], ARGV[3], ARGV[4] == '1'
if state ~= 'paused' and state ~= 'live' then return usage('pause: ARGV[1] is not paused or live') end
if #KEYS < 4 then return usage('pause: at least 4 keys are wanted, not ' .. #KEYS) end
local rules, odd = rules_of(redis.pcall('HMGET', KEYS[2], 'total', 'per_user_limit', 'starts_at', 'ends_at', 'state', 'ledger', 'epoch'))
if not rules then return unfit(odd, 2) end
local bad = ledger_unfit(redis.call('TYPE', KEYS[4]).ok, rules)
if bad then return bad end
if not rules.total then return {NOT_PREHEATED} end
local stock_text = redis.pcall('GET', KEYS[1])
if stock_text and not whole(stock_text) then return unfit(stock_text, 1) end
if rules.state == state then return {REPLAYED} end
if dry then return {OK} end
if rules.ledger and redis.acl_check_cmd and not redis.acl_check_cmd('XADD', KEYS[4], '*', 'f', 'v') then return forbidden('XADD') end
redis.call('HSET', KEYS[2], 'state', state)
if rules.ledger then
  redis.call('XADD', KEYS[4], '*', unpack(entry(state == 'paused' and 'pause' or 'resume', by, reason, stock_text or '0')))
end
return {OK}
