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

/**
 * Return the bytes in use once further collections free nothing more.
 *
 * V8 frees external buffers in the background: right after one collection they still count.
 */
async function usedBytes() {
  let least = Infinity;
  for (let unchanged = 0; unchanged < 3;) {
    collect();
    await new Promise((resolve) => { setTimeout(resolve, 10); });
    const { heapUsed, external } = process.memoryUsage();
    unchanged = heapUsed + external < least ? 0 : unchanged + 1;
    least = Math.min(least, heapUsed + external);
  }
  return least;
}

for (const [what, valueBytes] of [["small", 20], ["large", 2000]]) {
  test(`${what} events, each with a key of its own`, async () => {
    const limits = { maxEvents: 2 * EVENTS, maxBytes: 1e9 };
    const client = new Client("http://headgate.test", { log: null, limits });
    const producer = new BufferedProducer(client, { buffering: BUFFERING });
    try {
      const before = await usedBytes();
      for (let n = 0; n < EVENTS; n += 1) {
        const value = "x".repeat(valueBytes);
        void producer.send("orders", new HeadgateEvent(value, { key: `key-${n}` }));
      }
      const each = (await usedBytes() - before) / EVENTS;
      const counted = producer.bytes / EVENTS;
      assert(each <= counted, `${each} bytes for each event, ${counted} counted`);
      assert(each >= counted / 3, `${each} bytes for each event, ${counted} counted`);
    } finally {
      await producer.close({ timeoutMs: 0 });
    }
  });
}
