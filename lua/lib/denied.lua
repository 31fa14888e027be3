-- What commands take behind their key, as an example; others take a number.
local EXAMPLES = {HSET = {'f', 'v'}, HDEL = {'f'}, XADD = {'*', 'f', 'v'}, XTRIM = {'MINID', '0'}, UNLINK = {}, EXISTS = {}, PERSIST = {}}

-- The first of some commands, each with its key behind it, that the caller may not run; nil if it may, or if the server does not
-- say. A command that is false is not needed, nor one at a key that this kind has not.
local function denied_command(...)
  local allowed, given = redis.acl_check_cmd, {...}
  for i = 1, allowed and select('#', ...) or 0, 2 do
    local command, key = given[i], given[i + 1]
    if command and key and not allowed(command, key, unpack(EXAMPLES[command] or {'1'})) then return command end
  end
end
