-- The columns of many holds, as settle has them from ARGV[3] on. Returns nil, or a usage error.
local function read_columns(call)
  local op = call.op
  call.users = read_column(ARGV[3])
  call.count = call.users and #call.users
  if not call.users or call.count < 1 then return usage(op .. ': ARGV[3] is not an array of users') end
  local requests, reasons = ARGV[10] or '', ARGV[13] or ''
  if requests ~= '' then call.requests = read_column(requests) end
  if requests ~= '' and #(call.requests or {}) ~= call.count then return usage(op .. ': ARGV[10] is not an array of as many requests as users') end
  if reasons ~= '' then call.reasons = read_column(reasons) end
  if reasons ~= '' and #(call.reasons or {}) ~= call.count then return usage(op .. ': ARGV[13] is not an array of as many reasons as users') end
  call.rows, call.reason, call.extra, call.mode = ARGV[11] == '1', ARGV[12] or '', ARGV[14] or '', ARGV[15] or 'first'
  if ARGV[5] == '' then return nil end
  call.job, call.digest, call.epoch = ARGV[5], ARGV[6], ARGV[7]
  call.before, call.lines = whole(ARGV[8]), read_lines(ARGV[9], call.count)
  if not (call.before and call.lines) then return usage(op .. ': lines of the job') end
end
