-- What `lib/rare_work.lua` needs to know of this call; then everything is read again.
call = {
  op = 'hold', kind = KIND, by = by, dry = mode == 'dry', stock = stock, holds = holds, withdrawn = withdrawn, now_ms = now_ms,
  rules = {total = total, ledger = has_ledger},
}
