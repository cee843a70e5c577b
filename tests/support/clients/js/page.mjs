// What a page of another origin does with the client. The page makes these functions its own.

import { BufferedProducer, Client, HeadgateEvent, TOMBSTONE } from "/src/index.js";

/** Send alone, in a batch and in the background; return the outcomes. */
export async function send(url, topic) {
  const client = new Client(url, { producer: "page", compression: "gzip" });
  const alone = await client.send(topic, new HeadgateEvent(1, { key: "ключ '鍵'*" }));
  const batch = [
    { id: "b" },
    new HeadgateEvent(TOMBSTONE, { key: "gone" }),
    { id: "large", text: "x".repeat(5000) },
  ];
  const together = await client.sendBatch(topic, batch);
  const producer = new BufferedProducer(client);
  const pending = Array.from({ length: 100 }, (_, number) => producer.send(topic, { id: number }));
  await producer.close();
  const all = [alone, ...together, ...(await Promise.all(pending))];
  return all.map(({ name, reason, partition, offset }) => ({ name, reason, partition, offset }));
}

/** Return what a page can read of answers: a refusal, a repeat, and a gateway that is not there. */
export async function read(url, topic, nobody) {
  const attempts = [];
  const exposed = [];
  const options = {
    observer: { onAttempt: (attempt) => attempts.push(attempt) },
    fetch: async (...request) => {
      const response = await fetch(...request);
      exposed.push(response.headers.get("Idempotency-Replayed"));
      return response;
    },
  };
  const client = new Client(url, options);
  const { reason, status, detail } = await client.send("nowhere", { id: 1 });
  const twice = [];
  for (const _ of [1, 2]) {
    twice.push((await client.send(topic, { id: 1 }, { idempotencyKey: `${topic}-k` })).name);
  }
  const impatient = { retry: { patienceMs: 0 }, log: null };
  const away = (await new Client(nobody, impatient).send(topic, { id: 1 })).name;
  const ids = attempts.map(({ requestId }) => requestId);
  return { refusal: { reason, status, detail }, twice, exposed, ids, away };
}

/** Have a producer take events that it does not send yet. */
export function take(url, topic, count, text) {
  const producer = new BufferedProducer(new Client(url, { producer: "page", log: null }), {
    buffering: { lingerMs: 3_600_000 },
    orderingKey: (_, { id }) => String(id),
  });
  for (let id = 0; id < count; id += 1) void producer.send(topic, { id, text });
}
