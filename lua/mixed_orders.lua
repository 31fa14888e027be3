--[[
  mixed_orders: takes or returns units of several activities, for the orders of a job that mixes them. Each activity is
  decided by itself, with the meaning of one call of deduct or refund for each; one that is not plain is left alone.

  KEYS for each of the activities, in turn (kind hash alone; each activity once, at most 512 of them):
    KEYS[at + 1]  stock          string  units left
    KEYS[at + 2]  meta           hash    rules, holds, withdrawn
    KEYS[at + 3]  requests       hash    request id -> digest of the order; <tab>j:<op>:<job> -> line, refused, digest;
                                         <tab>begun -> what a call that gives units back is about to do
    KEYS[at + 4]  ledger         stream  one entry a call
    KEYS[at + 5]  participants   hash    user -> units

  ARGV[1]  op        deduct or refund
  ARGV[2]  by        who runs this, for the ledger
  ARGV[3]  reason    why, for the ledger; may be empty
  ARGV[4]  job       its name
  ARGV[5]  digest    of the job
  ARGV[6]  rows      1: the reply says what each user holds
  ARGV[7..]          for each activity five arguments, or for each of them six: its epoch; the line before the first; lines;
                     quantities; users; and request ids. Each is as deduct and refund take it for the orders of a job; a
                     request id may not be empty, but all of an activity may (then the argument is empty)

  Returns one string an activity: as deduct and refund reply to the orders of a job, `letters stock refused [bought ...]`
  with the letters o, l, s and x; or
     -   the activity is not plain, and nothing is done in it: deduct or refund decides the same orders in a call of its own.
         It is not live or not within its window, or has no rules; units are held open or withdrawn, and op is refund; a key or an
         argument of it is not what it should be; the line before is not the last one decided, some of the lines are decided, or the epoch or the job is another;
         a call that gives units back was cut; a request id is known, comes twice or is empty; a user or an id has white space or what JSON escapes; a
         permission is missing; or the call has decided 2,000 orders before.
  All activities are read and checked before the first write. Then each is written as deduct and refund do, one after the
  other: a deduct takes the stock first, a refund returns it last, so that a cut leaves fewer units to sell, never more,
  in one activity at most; of a refund KEYS[at + 3] says first what it will do, and deduct and refund finish it.

  Commands it needs (checked before the first write from Redis 7.0 on): GET HGET HMGET XLEN XREVRANGE EXISTS TIME
  DECRBY INCRBY HSET HDEL XADD.
]]
--- @use "codes"
--- @use "batch"
local MOST_ACTIVITIES, MOST_ORDERS = 512, 2000

local given, op, activities = ARGV, ARGV[1], #KEYS / 5
local width = (#given - 6) / activities
local function usage(what)
  return redis.error_reply('USAGE mixed_orders: ' .. what)
end
if op ~= 'deduct' and op ~= 'refund' then return usage('ARGV[1] is not deduct or refund') end
if activities < 1 or activities ~= math.floor(activities) then return usage('5 keys an activity are wanted, not ' .. #KEYS .. ' in all') end
if activities > MOST_ACTIVITIES then return usage('more than ' .. MOST_ACTIVITIES .. ' activities in one call') end
if width ~= 5 and width ~= 6 then return usage('5 or 6 arguments an activity are wanted, and 6 before them, not ' .. #given .. ' in all') end
if ARGV[2] == '' or ARGV[4] == '' then return usage('ARGV[2] and ARGV[4] may not be empty') end
local is_given = {}
for at = 0, #KEYS - 5, 5 do
  -- Each would be checked against a stock that both take from.
  if is_given[KEYS[at + 1]] then return usage(KEYS[at + 1] .. ' is given twice') end
  is_given[KEYS[at + 1]] = true
end
local job = {
  op = op, by = ARGV[2], reason = ARGV[3], name = ARGV[4], digest = ARGV[5], rows = ARGV[6] == '1',
  field = '\tj:' .. op .. ':' .. ARGV[4],
}

-- Read, and check, everything. What is absent is nil in protocol 3.
redis.setresp(3)
local allowed, ask, at, orders = redis.acl_check_cmd, redis.pcall, 0, 0
local function may_write(change)
  return allowed('HSET', KEYS[at + 3], 'f', 'v')
    and (not change.applied or allowed('HSET', KEYS[at + 5], 'f', 'v'))
    and (not change.row or allowed('XADD', KEYS[at + 4], '*', 'f', 'v'))
    and (not change.taken or allowed('DECRBY', KEYS[at + 1], '1'))
    and (not change.returned or allowed('INCRBY', KEYS[at + 1], '1') and allowed('HDEL', KEYS[at + 5], 'f')
      and allowed('HDEL', KEYS[at + 3], 'f') and (not change.row or allowed('XREVRANGE', KEYS[at + 4], '+', '-')))
end
local function read(fields, users)
  local rules
  if op == 'deduct' then
    rules = ask('HGET', KEYS[at + 2], 'rules')
  else
    rules = rules_without_holds(ask('HMGET', KEYS[at + 2], 'rules', 'holds', 'withdrawn'))
  end
  return ask('GET', KEYS[at + 1]), rules, ask('XLEN', KEYS[at + 4]), ask('XREVRANGE', KEYS[at + 4], LAST_ID, LAST_ID, 'COUNT', 1),
    ask('HMGET', KEYS[at + 3], unpack(fields)), ask('HMGET', KEYS[at + 5], unpack(users))
end
local changes, replies = {}, {}
for which = 1, activities do
  local from = 7 + (which - 1) * width
  local epoch, before, lines, quantity, users, requests = given[from], given[from + 1], given[from + 2], given[from + 3], given[from + 4], ''
  if width == 6 then requests = given[from + 5] end
  at = 5 * which - 5
  local change = orders < MOST_ORDERS and decide_batch(job, read, epoch, before, lines, quantity, users, requests)
  if change and (change.needs_records and ask('EXISTS', KEYS[at + 5]) ~= 1 or allowed and not may_write(change)) then change = nil end
  if change then orders = orders + change.count end
  changes[which], replies[which] = change or false, change and change.reply or '-'
end

-- Refunds are written as by refund, whose keys are those of one activity.
local give_back
local own = {}
do
  local KEYS = own
--- @use "return_batch"
  give_back = return_batch
end

-- Write.
for which = 1, activities do
  local at, change = 5 * which - 5, changes[which]
  if change and change.returned then
    for n = 1, 5 do own[n] = KEYS[at + n] end
    give_back(change)
  elseif change then
    local marks = change.is_first and (not allowed or allowed('HDEL', KEYS[at + 3], 'f'))
    if marks then redis.call('HSET', KEYS[at + 3], '\tbegun', 'first') end
    if change.taken then redis.call('DECRBY', KEYS[at + 1], change.taken) end
    if change.sets > 0 then redis.call('HSET', KEYS[at + 5], unpack(change.set, 1, change.sets)) end
    if marks then redis.call('HDEL', KEYS[at + 3], '\tbegun') end
    redis.call('HSET', KEYS[at + 3], unpack(change.kept, 1, change.kept_size))
    if change.row then redis.call('XADD', KEYS[at + 4], '*', unpack(change.row)) end
  end
end
return replies
