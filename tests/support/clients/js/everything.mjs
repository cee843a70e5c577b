// Sends one of everything that there is to send, in every way; writes the outcomes of each way.

import {
  BufferedProducer,
  Client,
  CloudEvent,
  HeadgateEvent,
  RawJson,
  TOMBSTONE,
} from "../../../../clients/js/src/index.js";

const { url, topic, sentMs } = JSON.parse(process.argv[2]);
const EVENTS = [
  { id: 1, name: "é" },
  new HeadgateEvent({ a: [1, null, true] }, { key: "ключ '%20*()" }),
  new HeadgateEvent([1, 2], { key: "鍵🔑", headers: { Author: "Ada", author: "ada" }, id: "id-1" }),
  new HeadgateEvent("text", { key: new Uint8Array([0xff, 0x00]) }),
  new HeadgateEvent(new TextEncoder().encode("\x00PNG\r\n"), { key: "bytes", contentType: "image/png" }),
  new HeadgateEvent(TOMBSTONE, { key: "gone" }),
  new HeadgateEvent(new RawJson("null"), { key: "null" }),
  new HeadgateEvent(new RawJson('{"n": 1.10 }'), { key: "raw" }),
  new HeadgateEvent(1, { key: "timed", timestamp: sentMs, headers: { author: "Ада" } }),
  { id: "large", text: "x".repeat(5000) },
  new CloudEvent({ id: "c-1", source: "/s", type: "t", subject: "ç", data: { paid: true } }),
  new CloudEvent({ id: "c-2", source: "/s", type: "t", partitionkey: "p", data: new Uint8Array([255]) }),
];

async function alone(client) {
  const outcomes = [];
  for (const event of EVENTS) outcomes.push(await client.send(topic, event));
  return outcomes;
}

async function inTheBackground(client) {
  const producer = new BufferedProducer(client);
  const pending = EVENTS.map((event) => producer.send(topic, event));
  const isFlushed = await producer.flush();
  if (!isFlushed || producer.events) throw new Error("flush waits for all of them");
  return Promise.all(pending);
}

const together = (client) => client.sendBatch(topic, EVENTS);
for (const compression of [undefined, "gzip"]) {
  for (const way of [alone, together, inTheBackground]) {
    const client = new Client(url, { producer: "shop", compression });
    const outcomes = await way(client);
    const ended = outcomes.map(({ name, key, partition, offset, detail }) => {
      const text = key instanceof Uint8Array ? [...key] : key;
      return { name, key: text, partition, offset, detail };
    });
    console.log(JSON.stringify({ way: `${way.name} ${compression}`, outcomes: ended }));
  }
}
