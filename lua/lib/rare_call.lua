-- What `lib/rare_work.lua` needs to know of this call; then everything is read again.
call = {
  op = 'SCRIPT', kind = KIND, by = by, stock = stock, withdrawn = withdrawn,
  rules = {total = total, ledger = has_ledger},
}
--- @if hold settle
call.dry = mode == 'dry'
--- @end
--- @if hold hold_file
call.now_ms = now_ms
--- @end
