// Sends events of some keys until it is told to stop, says how many have ended, then how each did.

import { createInterface } from "node:readline";

import { BufferedProducer, Client } from "../../../../clients/js/src/index.js";

const { urls, topic, keys, client: clientOptions = {} } = JSON.parse(process.argv[2]);
const say = (what) => process.stdout.write(`${JSON.stringify(what)}\n`);
const sent = [];
const attempts = {};
let ended = 0;
let isStopping = false;

const observer = {
  attempted: ({ result }) => (attempts[result] = (attempts[result] ?? 0) + 1),
};
const client = new Client(urls, {
  producer: "shop",
  retry: { firstWaitMs: 20, longestWaitMs: 500 },
  timeoutMs: 20_000,
  observer,
  ...clientOptions,
});
const producer = new BufferedProducer(client, {
  buffering: { lingerMs: 2, maxEvents: 400 },
  laneOf: (_, { id }) => id,
});

createInterface({ input: process.stdin }).on("line", () => (isStopping = true));
const reports = setInterval(() => say({ ended, attempts }), 50);

for (let n = 1; !isStopping; n += 1) {
  for (let key = 0; key < keys; key += 1) {
    const one = { id: `k${key}`, n };
    const { outcome } = await producer.sendWhenRoom(topic, one);
    sent.push([one, outcome.finally(() => (ended += 1))]);
  }
  await new Promise((resolve) => setTimeout(resolve, 2));
}
const isFlushed = await producer.close({ timeoutMs: 60_000 });
clearInterval(reports);
const outcomes = [];
for (const [{ id, n }, pending] of sent) {
  const { name, reason = null, partition = null, offset = null } = await pending;
  outcomes.push({ id, n, name, reason, partition, offset });
}
say({ isFlushed, attempts, outcomes });
process.exit(0); // the pipe of standard input is still open
