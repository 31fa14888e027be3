--[[
  pause: refuses every purchase of one activity for a while, or allows them again. Scripts of a backend that read the
  stock alone do not see this: to stop them too, the stock is withdrawn, from KEYS[1] to meta's `withdrawn`.

  KEYS[1]  stock   string  units left; 0 while they are withdrawn
  KEYS[2]  meta    hash    rules, whose state this changes; withdrawn: units of the stock, present only while it is
                           withdrawn; adopt: present until an adoption of the activity is finished: the state that it
                           ends in, which a pause changes
  KEYS[3]  requests  hash  <tab>begun, while units move and nobody is recorded in KEYS[5]
  KEYS[4]  ledger  stream  one entry if something changed; `withdrawn` in it: units that moved
  KEYS[5]  participants, and further keys of the activity: may be left out

  ARGV[1]  state     paused or live
  ARGV[2]  by        who runs this, for the ledger; may be empty
  ARGV[3]  reason    why, for the ledger; may be empty
  ARGV[4]  dry       1: write nothing
  ARGV[5]  withdraw  1: with paused, withdraw the stock; may be left out. With live it always returns

  Returns {status, state, moved}: the state afterwards (archived, ended, paused, upcoming, sold_out or live) and how many units moved
     1 ok                the state changed, or that in which an adoption ends, or units moved
     2 replayed          it was so already
    -4 not_preheated     {-4, false, stock}: KEYS[2] is absent; an activity of another system has a stock. Or {-4, state}:
                         units cannot move because KEYS[1] is absent. Nothing changed
    -6 ended             it is archived
   -10 exists            live: an adoption is unfinished; it returns the stock, unless it was paused meanwhile
   -15 sharded           {-15, false, shards}: its units are in activities of their own, of which these are the numbers (false if a
                         preheat of them is unfinished)
   -11 corrupt           {-11, false, false, n, value}: KEYS[n] holds value (false: it is of the wrong type)
   -17 paused_here_only  it is paused, but it was preheated without a ledger because a backend sells it with a script of
                         its own, and that one continues: its stock is not withdrawn

  To withdraw, the stock goes first and `withdrawn` comes last; to return it, `withdrawn` goes first and the stock comes
  last, by a difference. A cut leaves fewer units for sale, never more, and the same call again neither withdraws nor
  returns units twice. What a backend refunds meanwhile stays in KEYS[1], until the next pause withdraws that too.

  Commands it needs (checked before the first write from Redis 7.0 on): GET HMGET TYPE TIME XLEN XREVRANGE DECRBY
  INCRBY HSET HDEL XADD. EXISTS HGET are for a cut before anybody bought, which leaves the activity corrupt without them.
]]
--- @use "codes"
--- @use "meta"
--- @use "denied"
--- @use "mark_first"
--- @use "shown_state"

local state, by, reason, dry, withdraw = ARGV[1], ARGV[2], ARGV[3], ARGV[4] == '1', ARGV[5] == '1'
if state ~= 'paused' and state ~= 'live' then return usage('pause: ARGV[1] is not paused or live') end
if withdraw and state ~= 'paused' then return usage('pause: ARGV[5] withdraws the stock of a sale that ARGV[1] does not pause') end
if #KEYS < 4 then return usage('pause: at least 4 keys are wanted, not ' .. #KEYS) end
local fields = redis.pcall('HMGET', KEYS[2], 'rules', 'withdrawn', 'adopt', 'shards', 'plan')
if fields.err then return unfit(fields, 2) end
if fields[4] or fields[5] then return {SHARDED, false, fields[4]} end
local rules, invalid = rules_of(fields[1], redis.call('TYPE', KEYS[2]).ok ~= 'none')
if not rules then return unfit(invalid, 2) end
if rules.state == 'archived' then return {ENDED, 'archived', 0} end
local stock_text = redis.pcall('GET', KEYS[1])
local bad = read_ledger(stock_text, rules)
if bad then return bad end
if not rules.total then return {NOT_PREHEATED, false, type(stock_text) == 'string' and stock_text} end
local stock = whole(stock_text)
if stock_text and not stock then return unfit(stock_text, 1) end
local withdrawn = whole(fields[2])
if fields[2] and not withdrawn then return unfit(fields[2], 2) end
local units = (stock or 0) + (withdrawn or 0)
if units > MOST_UNITS then return unfit(fields[2], 2) end

-- How many units move: nil if none can, or need to.
local moved
if withdraw and (not withdrawn or stock ~= 0) then moved = stock end
if state == 'live' then moved = withdrawn end
if (withdraw or moved) and not stock then return {NOT_PREHEATED, rules.state} end
if state == 'live' and fields[3] then return {EXISTS, false, false} end
-- How an adoption ends. One without a meta to return to leaves the stock withdrawn: whatever ends it, nothing is for sale before a resume.
local return_to, had = string.match(fields[3] or '', '^(%a+) ([01])$')
local end_state = (withdraw or return_to == 'withdrawn' or had == '0') and 'withdrawn' or 'paused'
local is_other_end = return_to and return_to ~= end_state

local state_after = shown_state(state, rules, units)
local is_stopped = rules.ledger or withdraw or (withdrawn and stock == 0)
local status = state == 'paused' and not is_stopped and PAUSED_HERE_ONLY
if rules.state == state and not moved and not is_other_end then return {status or REPLAYED, state_after, 0} end
local reply = {status or OK, state_after, moved or 0}
if dry then return reply end

local withdraws, resumes = moved and state == 'paused', moved and state == 'live'
local denied = denied_command('HSET', KEYS[2], rules.ledger and 'XADD', KEYS[4], withdraws and 'DECRBY', KEYS[1],
  resumes and 'HDEL', KEYS[2], resumes and 'INCRBY', KEYS[1])
if denied then return forbidden(denied) end
-- All of it, by a difference: an expiry that a backend set stays.
local marks = moved and mark_first(units, rules.total)
if is_other_end then redis.call('HSET', KEYS[2], 'adopt', end_state .. ' ' .. had) end
if withdraws then redis.call('DECRBY', KEYS[1], digits(moved)) end
if resumes then redis.call('HDEL', KEYS[2], 'withdrawn') end
if rules.state ~= state then
  rules.state = state
  redis.call('HSET', KEYS[2], 'rules', rules_text(rules))
end
if rules.ledger then
  local op = state == 'paused' and 'pause' or 'resume'
  redis.call('XADD', KEYS[4], '*', unpack(entry(op, by, reason, digits(units), 'withdrawn', moved and digits(moved))))
end
if moved and state == 'paused' then redis.call('HSET', KEYS[2], 'withdrawn', digits((withdrawn or 0) + moved)) end
if moved and state == 'live' then redis.call('INCRBY', KEYS[1], digits(moved)) end
if marks then redis.call('HDEL', KEYS[3], '\tbegun') end
return reply
