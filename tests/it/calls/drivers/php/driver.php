<?php
// Reads orders from standard input, a line each, and prints what the printed calls return.

declare(strict_types=1);

foreach (['deduct', 'refund', 'multi_deduct', 'hold', 'settle'] as $name) {
    // The layout `product` has no holds.
    if (is_file(__DIR__ . "/$name.php")) {
        require __DIR__ . "/$name.php";
    }
}

use Seckill\{Deduct, DeductRefused, Hold, HoldRefused, MultiDeduct, MultiDeductRefused, Refund, RefundRefused};
use Seckill\{Settle, SettleRefused};

$redis = Deduct::connect('127.0.0.1', (int) $argv[1]);
[$deducts, $refunds, $multi] = [new Deduct($redis), new Refund($redis), new MultiDeduct($redis)];
$text = static fn (int|string|null $value): string => $value === null ? '-' : (string) $value;

while (($line = fgets(STDIN)) !== false) {
    $words = explode("\t", rtrim($line, "\n"));
    $kind = array_shift($words);
    $sentBefore = array_pop($words) === '1';
    try {
        if ($kind === 'multi') {
            [$user, $items, $request] = $words;
            $quantities = [];
            foreach (explode(',', $items) as $item) {
                [$activity, $units] = explode('=', $item);
                $quantities[$activity] = (int) $units;
            }
            $outcome = $multi->multiDeduct($user, $quantities, $request, $sentBefore);
            $shown = [$outcome->status->name];
            foreach ($outcome->items as $activity => $item) {
                $shown[] = "$activity:{$item->status->name}:{$text($item->stock)}:{$text($item->bought)}";
            }
            echo implode(' ', $shown), "\n";
        } elseif ($kind === 'hold') {
            [$activity, $user, $quantity, $duration, $request] = $words;
            $outcome = (new Hold($redis))->hold($activity, $user, (int) $quantity, (int) $duration, $request, $sentBefore);
            echo "{$outcome->status->name} {$text($outcome->stock)} {$text($outcome->bought)} {$text($outcome->deadline)}\n";
        } elseif ($kind === 'confirm' || $kind === 'release') {
            $outcome = (new Settle($redis))->$kind(...$words);
            echo "{$outcome->status->name} {$text($outcome->stock)} {$text($outcome->bought)} ";
            echo "{$text($outcome->quantity)} {$text($outcome->user)}\n";
        } elseif ($kind === 'deduct') {
            [$activity, $user, $quantity, $request] = $words;
            $outcome = $deducts->deduct($activity, $user, (int) $quantity, $request, $sentBefore);
            echo "{$outcome->status->name} {$text($outcome->stock)} {$text($outcome->bought)}\n";
        } else {
            [$activity, $user, $quantity, $request] = $words;
            $outcome = $refunds->refund($activity, $user, $quantity === 'all' ? 'all' : (int) $quantity, $request, $sentBefore);
            echo "{$outcome->status->name} {$text($outcome->stock)} {$text($outcome->bought)} {$text($outcome->quantity)}\n";
        }
    } catch (DeductRefused | RefundRefused | MultiDeductRefused | HoldRefused | SettleRefused $error) {
        echo "refused: {$error->getMessage()}\n";
    } catch (RedisException) {
        echo "unknown\n";
    }
}
