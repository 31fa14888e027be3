// Reads orders from standard input, a line each, and prints what the printed calls return.
import { createInterface } from "node:readline";
import { ReplyError } from "ioredis";
import * as deducts from "./deduct.mjs";
import * as holds from "./hold.mjs";
import * as multi from "./multi_deduct.mjs";
import * as refunds from "./refund.mjs";
import * as settles from "./settle.mjs";

const text = (value) => (value === null ? "-" : String(value));
const name = (statuses, code) => Object.entries(statuses).find(([, value]) => value === code)[0];

// A call takes any client, as that of a cluster. On a new connection each script is sent as text once.
const url = `redis://127.0.0.1:${process.argv[2]}`;
const clients = Array.from({ length: 5 }, () => deducts.connect(url));
const [forDeduct, forRefund, forMulti, forHold, forSettle] = clients;

async function run([kind, ...words]) {
  const sentBefore = words.pop() === "1";
  if (kind === "multi") {
    const [user, items, request] = words;
    const quantities = new Map(items.split(",").map((item) => [item.split("=")[0], Number(item.split("=")[1])]));
    const outcome = await multi.multiDeduct(forMulti, { user, quantities, request, sentBefore });
    const shown = [...outcome.items].map(
      ([activity, item]) => `${activity}:${name(multi.Status, item.status)}:${text(item.stock)}:${text(item.bought)}`,
    );
    return [name(multi.Status, outcome.status), ...shown].join(" ");
  }
  if (kind === "hold") {
    const [activity, user, quantity, duration, request] = words;
    const wanted = { quantity: Number(quantity), durationMs: Number(duration) };
    const { status, stock, bought, deadline } = await holds.hold(forHold, { activity, user, ...wanted, request, sentBefore });
    return [name(holds.Status, status), ...[stock, bought, deadline].map(text)].join(" ");
  }
  if (kind === "confirm" || kind === "release") {
    const [activity, request] = words;
    const { status, stock, bought, quantity, user } = await settles[kind](forSettle, { activity, request });
    return [name(settles.Status, status), ...[stock, bought, quantity, user].map(text)].join(" ");
  }
  const [activity, user, quantity, request] = words;
  if (kind === "deduct") {
    const outcome = await deducts.deduct(forDeduct, { activity, user, quantity: Number(quantity), request, sentBefore });
    return `${name(deducts.Status, outcome.status)} ${text(outcome.stock)} ${text(outcome.bought)}`;
  }
  const wanted = quantity === "all" ? quantity : Number(quantity);
  const outcome = await refunds.refund(forRefund, { activity, user, quantity: wanted, request, sentBefore });
  return `${name(refunds.Status, outcome.status)} ${text(outcome.stock)} ${text(outcome.bought)} ${text(outcome.quantity)}`;
}

for await (const line of createInterface({ input: process.stdin })) {
  try {
    console.log(await run(line.split("\t")));
  } catch (error) {
    console.log(error instanceof ReplyError ? `refused: ${error.message}` : "unknown");
  }
}
clients.forEach((redis) => redis.disconnect());
