-- Every code that a script replies, named in `model/status.rs`; positive if nothing was refused.
local OK, REPLAYED, REFUSED, LIMIT_EXCEEDED, OUT_OF_STOCK, NOT_PREHEATED = 1, 2, -1, -2, -3, -4
local NOT_STARTED, ENDED, PAUSED, EXCEEDS_BOUGHT, REQUEST_CONFLICT, EXISTS, CORRUPT = -5, -6, -7, -8, -9, -10, -11
local NOT_HELD, EXPIRED, CONFIRMED, SHARDED, REVERSED, PAUSED_HERE_ONLY = -12, -13, -14, -15, -16, -17

-- What refuses a whole call.
local GAP, OTHER_EPOCH, OTHER_JOB, STALE, UNREAD = -20, -21, -22, -23, -24

-- The last id that a stream can have: no entry comes behind it.
local LAST_ID = '18446744073709551615-18446744073709551615'
