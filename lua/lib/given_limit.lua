-- The caller's limit, for an activity without rules; it is no other than that of the rules. Reads total; sets limit.
if (GIVEN or '') ~= '' then
  local most = whole(GIVEN)
  if not most then return redis.error_reply('USAGE deduct: the limit is not a number') end
  if not total then
    limit = most
  elseif most ~= limit then
    return redis.error_reply('USAGE deduct: the given limit is not the limit of the activity, which is ' .. (limit and format('%.0f', limit) or 'none'))
  end
end
