"""Reads orders from standard input, a line each, and prints what the printed calls return."""

import sys

import deduct
import multi_deduct
import redis
import refund
import sharded


def text(value):
    return "-" if value is None else str(value)


def run(client, words):
    name, *words, sent_before = words
    sent_before = sent_before == "1"
    if name == "multi":
        user, items, request = words
        quantities = {activity: int(units) for activity, units in (item.split("=") for item in items.split(","))}
        outcome = multi_deduct.multi_deduct(client, user, quantities, request, sent_before=sent_before)
        items = [f"{activity}:{i.status.name}:{text(i.stock)}:{text(i.bought)}" for activity, i in outcome.items.items()]
        return " ".join([outcome.status.name, *items])
    if name == "hold":
        import hold  # the layout `product` has none

        activity, user, quantity, duration, request = words
        outcome = hold.hold(client, activity, user, int(quantity), int(duration), request, sent_before=sent_before)
        return f"{outcome.status.name} {text(outcome.stock)} {text(outcome.bought)} {text(outcome.deadline)}"
    if name in ("confirm", "release"):
        import settle

        outcome = getattr(settle, name)(client, *words)
        shown = [outcome.stock, outcome.bought, outcome.quantity, outcome.user]
        return " ".join([outcome.status.name, *map(text, shown)])
    activity, user, quantity, request = words
    if name == "sharded":
        outcome = SHARDED.setdefault(activity, sharded.ShardedActivity(client, activity)).deduct(
            user, int(quantity), request, sent_before=sent_before
        )
        return f"{outcome.status.name} {text(outcome.stock)} {text(outcome.bought)}"
    if name == "deduct":
        outcome = deduct.deduct(client, activity, user, int(quantity), request, sent_before=sent_before)
        return f"{outcome.status.name} {text(outcome.stock)} {text(outcome.bought)}"
    quantity = quantity if quantity == "all" else int(quantity)
    outcome = refund.refund(client, activity, user, quantity, request, sent_before=sent_before)
    return f"{outcome.status.name} {text(outcome.stock)} {text(outcome.bought)} {text(outcome.quantity)}"


SHARDED = {}
client = deduct.connect(f"redis://127.0.0.1:{sys.argv[1]}")
for line in sys.stdin:
    try:
        print(run(client, line.rstrip("\n").split("\t")), flush=True)
    except (redis.ConnectionError, redis.TimeoutError):
        print("unknown", flush=True)
    except redis.RedisError as error:
        print(f"refused: {error}", flush=True)
