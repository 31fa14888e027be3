-- Letters of the statuses in a packed reply, one an order.
local LETTERS = {
  [OK] = 'o', [REPLAYED] = 'r', [LIMIT_EXCEEDED] = 'l', [OUT_OF_STOCK] = 's', [EXCEEDS_BOUGHT] = 'x',
  [REQUEST_CONFLICT] = 'q', [CORRUPT] = 'c', [PAUSED] = 'p', [NOT_STARTED] = 'n', [ENDED] = 'e',
  [REFUSED] = 'd', [NOT_PREHEATED] = 't', [SHARDED] = 'k', [NOT_HELD] = 'h', [EXPIRED] = 'v', [CONFIRMED] = 'f', [REVERSED] = 'b',
}
