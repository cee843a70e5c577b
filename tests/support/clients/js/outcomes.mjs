// Sends what is a duplicate, what goes in parts and what fails; writes how each ended.

import { Client, HeadgateEvent } from "../../../../clients/js/src/index.js";

const { url, topic, once } = JSON.parse(process.argv[2]);
const attempts = [];
const client = new Client(url, { observer: { onAttempt: (attempt) => attempts.push(attempt) } });
const say = (what) => console.log(JSON.stringify(what));
const facts = ({ name, reason, status, retryable, eventId }) => {
  return { name, reason, status, retryable, eventId };
};

const twice = [1, 2].map(() => client.send(topic, { id: 1 }, { idempotencyKey: "k" }));
say((await Promise.all(twice)).map(({ name }) => name).sort());
const mine = new HeadgateEvent({ id: 1 }, { id: "mine" });
say([await client.send(once, mine), await client.send(once, mine)].map(({ name }) => name));
// more than `http.batch_max_events`: the client halves what is refused
const many = Array.from({ length: 70 }, (_, id) => ({ id }));
say((await client.sendBatch(once, many)).map(({ offset }) => offset));
const withIds = new Client(url, { eventIds: true, idempotency: false, log: null });
say(new Set((await withIds.sendBatch(once, [{ id: 1 }, { id: 1 }])).map((one) => one.eventId)).size);
say((await client.sendBatch(topic, [{ id: 1 }, { nothing: 1 }])).map(facts));
say(facts(await client.send("nowhere", { id: 1 })));
const forced = { requestHeaders: { "X-Request-Id": "as-I-say" } };
await client.send(topic, { id: 1 }, forced);
say(attempts.at(-1));
