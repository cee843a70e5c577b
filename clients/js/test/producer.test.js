/** The producer against the gateway of tests. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { BufferedProducer, Client, HeadgateEvent } from "../src/index.js";
import { FailEvents, FakeGateway, Lose, Refuse } from "../src/testing.js";

function world({ client: clientOptions = {}, ...options } = {}) {
  const gateway = new FakeGateway();
  const client = new Client(gateway.url, {
    log: null,
    fetch: gateway.fetch,
    retry: { firstWaitMs: 0 },
    ...clientOptions,
  });
  return { gateway, client, producer: new BufferedProducer(client, options) };
}

const valuesOf = (gateway) => gateway.records("orders").map(({ value }) => value);
const keyed = (key, value) => new HeadgateEvent(value, { key });
const HELD = { retryAfterS: 60 };

/** A gateway whose answers wait until `open`. */
function gated(gateway) {
  let open;
  const opened = new Promise((resolve) => (open = resolve));
  const signals = [];
  const fetch = async (url, init) => {
    signals.push(init.signal);
    await opened;
    return gateway.fetch(url, init);
  };
  return { fetch, open, signals };
}

test("events go together, and each has its outcome", async () => {
  const { gateway, producer } = world();
  const outcomes = await Promise.all([1, 2, 3].map((n) => producer.send("orders", keyed(`k${n}`, n))));
  assert.deepEqual(outcomes.map(({ offset }) => offset), [0, 1, 2]);
  assert.equal(gateway.requests.length, 1);
  assert.equal(producer.events, 0);
});

test("flush does not wait for more", async () => {
  const { gateway, producer } = world({ buffering: { lingerMs: 60_000 } });
  void producer.send("orders", 1);
  assert.equal(await producer.flush(), true);
  assert.deepEqual(valuesOf(gateway), [1]);
  assert.equal(await producer.flush(), true);
});

test("flush says when it could not be done in time", async () => {
  const { gateway, producer } = world();
  gateway.next(new Refuse("overloaded", HELD));
  void producer.send("orders", 1);
  assert.equal(await producer.flush({ timeoutMs: 20 }), false);
  assert.equal(await producer.flush({ signal: AbortSignal.timeout(20) }), false);
  assert.equal(await producer.close({ timeoutMs: 0 }), false);
});

test("the order of a key is kept while its first event is tried again", async () => {
  const { gateway, producer } = world({ buffering: { lingerMs: 0 } });
  gateway.next(new FailEvents("kafka_unavailable"), new Lose({ isWritten: false }));
  void producer.send("orders", keyed("a", 1));
  await Promise.resolve();
  for (const n of [2, 3, 4]) void producer.send("orders", keyed("a", n));
  await producer.close();
  assert.deepEqual(valuesOf(gateway), [1, 2, 3, 4]);
});

test("a key that waits does not hold up others", async () => {
  const { gateway, producer } = world({ buffering: { lingerMs: 0 } });
  gateway.next(new FailEvents("quota_exceeded", { which: ({ key }) => key === "a", ...HELD }));
  void producer.send("orders", keyed("a", 1));
  const other = await producer.send("orders", keyed("b", 2));
  const third = await producer.send("orders", keyed("b", 3));
  assert.deepEqual([other.name, third.name], ["published", "published"]);
  assert.equal(await producer.close({ timeoutMs: 0 }), false);
  assert.deepEqual(valuesOf(gateway), [2, 3]);
});

test("nothing new is tried where a gateway takes nothing", async () => {
  const { gateway, producer } = world({ buffering: { lingerMs: 0 } });
  gateway.next(new Refuse("overloaded", HELD));
  void producer.send("orders", keyed("a", 1));
  while (!gateway.requests.length) await new Promise(setImmediate);
  void producer.send("orders", keyed("b", 2));
  const deals = await producer.send("deals", keyed("c", 3));
  assert.equal(deals.name, "published");
  assert.deepEqual(gateway.requests.map(({ topic }) => topic), ["orders", "deals"]);
  await producer.close({ timeoutMs: 0 });
});

test("orderingKey is the key of an event without one", async () => {
  const gateway = new FakeGateway();
  const gate = gated(gateway);
  const { producer } = world({
    client: { fetch: gate.fetch },
    buffering: { lingerMs: 0, onePerKey: true },
    orderingKey: (topic, value) => `${topic}/${value.id}`,
  });
  for (const id of ["a", "b", "a"]) void producer.send("orders", { id });
  gate.open();
  assert.equal(await producer.close(), true);
  const together = gateway.requests.map(({ content }) => JSON.parse(new TextDecoder().decode(content)));
  assert.deepEqual(together.map(({ events }) => events.length), [2, 1]);
});

test("a buffer that is full takes nothing", async () => {
  const { gateway, producer } = world({ buffering: { maxEvents: 2 } });
  gateway.next(new Refuse("overloaded", HELD));
  void producer.send("orders", 1);
  void producer.send("orders", 2);
  assert.throws(() => producer.send("orders", 3), { name: "BufferFullError" });
  await assert.rejects(producer.sendWhenRoom("orders", 3, { timeoutMs: 10 }), {
    name: "BufferFullError",
  });
  assert.equal(producer.events, 2);
  assert.equal(await producer.close({ timeoutMs: 0 }), false);
});

test("bytes are bounded, too, and what never fits is refused", async () => {
  const { producer } = world({ buffering: { maxBytes: 2000 } });
  assert.throws(() => producer.send("orders", "x".repeat(3000)), { name: "InvalidEventError" });
  void producer.send("orders", "x".repeat(500));
  assert.throws(() => producer.send("orders", "x".repeat(500)), { name: "BufferFullError" });
  await producer.close();
});

test("who waits for room is served in order, the large before the small", async () => {
  const { gateway, producer } = world({ buffering: { maxBytes: 4000, lingerMs: 0 } });
  const sizes = [2000, 2500, 10, 10, 10];
  const waiting = sizes.map((size, n) => {
    return producer.sendWhenRoom("orders", keyed("a", `${n}${"x".repeat(size)}`));
  });
  assert.throws(() => producer.send("orders", 1), { name: "BufferFullError" });
  const taken = await Promise.all(waiting);
  await Promise.all(taken.map(({ outcome }) => outcome));
  assert.deepEqual(valuesOf(gateway).map(([n]) => n), ["0", "1", "2", "3", "4"]);
  await producer.close();
});

test("who gives up waiting lets the next one in", async () => {
  const gateway = new FakeGateway();
  const gate = gated(gateway);
  const { producer } = world({
    client: { fetch: gate.fetch },
    buffering: { maxBytes: 4000, lingerMs: 0 },
  });
  void producer.send("orders", "x".repeat(1500));
  const large = producer.sendWhenRoom("orders", "x".repeat(2500), { timeoutMs: 30 });
  const small = producer.sendWhenRoom("orders", "y");
  await assert.rejects(large, { name: "BufferFullError" });
  await small;
  gate.open();
  assert.equal(await producer.close(), true);
});

test("close ends everything with what is known", async () => {
  const gateway = new FakeGateway();
  const gate = gated(gateway);
  const { producer } = world({
    client: { fetch: gate.fetch },
    buffering: { inFlight: 1, lingerMs: 0, maxEvents: 2 },
  });
  const first = producer.send("orders", keyed("a", 1));
  await Promise.resolve();
  const second = producer.send("orders", keyed("a", 2));
  const waiting = producer.sendWhenRoom("orders", 3);
  const refused = assert.rejects(waiting, { name: "ClosedError" });
  assert.equal(await producer.close({ timeoutMs: 10 }), false);
  await refused;
  assert.deepEqual([(await first).name, (await first).reason], ["unknown", "no_answer"]);
  assert.deepEqual([(await second).name, (await second).reason], ["rejected", "not_sent"]);
  assert.throws(() => producer.send("orders", 4), { name: "ClosedError" });
  assert.equal(producer.events, 0);
  assert(gate.signals.every((signal) => signal.aborted), "requests under way are ended");
  gate.open();
});

test("an observer hears how events of each topic ended", async () => {
  const ended = [];
  const observer = { onOutcomes: (topic, outcomes) => ended.push(`${topic} ${outcomes.length}`) };
  const { producer } = world({ client: { observer } });
  void producer.send("orders", 1);
  void producer.send("orders", 2);
  void producer.send("deals", 3);
  await producer.close();
  assert.deepEqual(ended.sort(), ["deals 1", "orders 2"]);
});

test("a producer ends with its client", async () => {
  const gate = gated(new FakeGateway());
  const { client, producer } = world({
    client: { fetch: gate.fetch },
    buffering: { lingerMs: 0, maxEvents: 2 },
  });
  const first = producer.send("orders", keyed("a", 1));
  while (!gate.signals.length) await new Promise(setImmediate);
  const second = producer.send("orders", keyed("a", 2));
  const refused = assert.rejects(producer.sendWhenRoom("orders", 3), { name: "ClosedError" });
  const flushing = producer.flush();
  client.close();
  assert.equal(await flushing, false);
  assert.deepEqual([(await first).name, (await second).reason], ["unknown", "not_sent"]);
  await refused;
  assert.match((await second).detail, /the client was closed/);
  assert.throws(() => producer.send("orders", 4), { name: "ClosedError" });
  assert.throws(() => new BufferedProducer(client), { name: "ClosedError" });
  assert.equal(await producer.close(), true);
  gate.open();
});

test("one signal is for as many as there are", async (context) => {
  const warnings = [];
  const listen = (warning) => warnings.push(warning.message);
  process.on("warning", listen);
  context.after(() => process.off("warning", listen));
  const gate = gated(new FakeGateway());
  const { client, producer } = world({
    client: { fetch: gate.fetch },
    buffering: { lingerMs: 0, maxEvents: 1 },
  });
  const { signal } = new AbortController();
  void producer.send("orders", 0);
  const numbers = Array.from({ length: 50 }, (_, number) => number);
  const sent = numbers.map((number) => client.send("orders", number, { signal }));
  const taken = numbers.map((number) => producer.sendWhenRoom("orders", number, { signal }));
  await new Promise(setImmediate);
  gate.open();
  await Promise.all([...sent, ...taken]);
  await producer.close();
  await new Promise(setImmediate);
  assert.deepEqual(warnings, []);
});
