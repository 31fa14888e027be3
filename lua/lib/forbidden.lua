-- Refuses the call if the caller may not run a command, before anything is written. Reads denied.
if denied then return redis.error_reply('NOPERM this user may not run `' .. denied .. '`, which the script needs') end
