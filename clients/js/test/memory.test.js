/** What an event counts in the buffer is what it takes in memory. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";

import { BufferedProducer, Client, HeadgateEvent } from "../src/index.js";

const EVENTS = 20_000;
const BUFFERING = { maxEvents: EVENTS, maxBytes: 1e9, lingerMs: 60_000 };

setFlagsFromString("--expose-gc");
const collect = runInNewContext("gc");

function usedBytes() {
  collect();
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
}

for (const [what, valueBytes] of [["small", 20], ["large", 2000]]) {
  test(`${what} events, each with a key of its own`, async () => {
    const limits = { maxEvents: 2 * EVENTS, maxBytes: 1e9 };
    const client = new Client("http://headgate.test", { observer: {}, limits });
    const producer = new BufferedProducer(client, { buffering: BUFFERING });
    const before = usedBytes();
    for (let n = 0; n < EVENTS; n += 1) {
      const value = "x".repeat(valueBytes);
      void producer.send("orders", new HeadgateEvent({ value, key: `key-${n}` }));
    }
    const each = (usedBytes() - before) / EVENTS;
    const counted = producer.bytes / EVENTS;
    assert(each <= counted, `${each} bytes for each event, ${counted} counted`);
    assert(each >= counted / 3, `${each} bytes for each event, ${counted} counted`);
    await producer.close({ timeoutMs: 0 });
  });
}
