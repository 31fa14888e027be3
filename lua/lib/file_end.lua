-- Writes what request ids and the job store, and the ledger entry of the orders that took units; and replies.
if kept_size > 0 then redis.call('HSET', KEYS[3], unpack(kept, 1, kept_size)) end
if applied > 0 and has_ledger then
  --- @include "file_entry"
  redis.call('XADD', KEYS[4], '*', unpack(entry))
end
--- @include "file_reply"
