// Sends one of everything that there is to send, and writes the outcomes.

import {
  Client,
  CloudEvent,
  HeadgateEvent,
  RawJson,
  TOMBSTONE,
} from "../../../../clients/js/src/index.js";

const { url, topic, token } = JSON.parse(process.argv[2]);
const client = new Client(url, { token, compression: "gzip" });
const events = [
  new HeadgateEvent({ value: { total: 20 }, key: "ключ-é-鍵-🔑", id: "e-1", headers: { author: "Ada" } }),
  new HeadgateEvent({ value: new RawJson('{"total": 35.50}'), key: "a'b*c %" }),
  new HeadgateEvent({ value: [1, 2], key: "array" }),
  new HeadgateEvent({ value: new Uint8Array([0, 255]), key: "bytes", contentType: "image/png" }),
  new HeadgateEvent({ value: 1, key: new Uint8Array([0xff, 0xfe]) }),
  new HeadgateEvent({ value: TOMBSTONE, key: "gone" }),
  new HeadgateEvent({ value: "long".repeat(1000), key: "long" }),
  new HeadgateEvent({ value: 2, key: "zoë", headers: { author: "Zoë" } }),
  new CloudEvent({ id: "c-1", source: "/shop", type: "paid", subject: "cloud", data: { paid: true } }),
];
const say = (what) => process.stdout.write(`${JSON.stringify(what)}\n`);
for (const event of events) say(await client.send(topic, event));
for (const outcome of await client.sendBatch(topic, events)) say(outcome);
say(await client.send(topic, { no: "key" }));
say(await client.send("elsewhere", 1));
say(await new Client(url, { token: "wrong", observer: {} }).send(topic, { id: 1 }));
