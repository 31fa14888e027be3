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

// One client for all calls, as that of a cluster would be.
const client = deducts.connect(`redis://127.0.0.1:${process.argv[2]}`);

async function run([kind, ...words]) {
  const sentBefore = words.pop() === "1";
  if (kind === "multi") {
    const [user, items, request] = words;
    const quantities = new Map(items.split(",").map((item) => [item.split("=")[0], Number(item.split("=")[1])]));
    const outcome = await multi.multiDeduct(client, { user, quantities, request, sentBefore });
    const shown = [...outcome.items].map(
      ([activity, item]) => `${activity}:${name(multi.Status, item.status)}:${text(item.stock)}:${text(item.bought)}`,
    );
    return [name(multi.Status, outcome.status), ...shown].join(" ");
  }
  if (kind === "hold") {
    const [activity, user, quantity, duration, request] = words;
    const wanted = { quantity: Number(quantity), durationMs: Number(duration) };
    const { status, stock, bought, deadline } = await holds.hold(client, { activity, user, ...wanted, request, sentBefore });
    return [name(holds.Status, status), ...[stock, bought, deadline].map(text)].join(" ");
  }
  if (kind === "confirm" || kind === "release") {
    const [activity, request] = words;
    const { status, stock, bought, quantity, user } = await settles[kind](client, { activity, request });
    return [name(settles.Status, status), ...[stock, bought, quantity, user].map(text)].join(" ");
  }
  const [activity, user, quantity, request] = words;
  if (kind === "deduct") {
    const outcome = await deducts.deduct(client, { activity, user, quantity: Number(quantity), request, sentBefore });
    return `${name(deducts.Status, outcome.status)} ${text(outcome.stock)} ${text(outcome.bought)}`;
  }
  const wanted = quantity === "all" ? quantity : Number(quantity);
  const outcome = await refunds.refund(client, { activity, user, quantity: wanted, request, sentBefore });
  return `${name(refunds.Status, outcome.status)} ${text(outcome.stock)} ${text(outcome.bought)} ${text(outcome.quantity)}`;
}

for await (const line of createInterface({ input: process.stdin })) {
  try {
    console.log(await run(line.split("\t")));
  } catch (error) {
    console.log(error instanceof ReplyError ? `refused: ${error.message}` : "unknown");
  }
}
client.disconnect();
