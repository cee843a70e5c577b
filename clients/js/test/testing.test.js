/** The gateway in memory for tests of programs: its faults, its outcomes and its records. */

import assert from "node:assert/strict";
import { test } from "node:test";

import {
  BufferedProducer,
  Client,
  CloudEvent,
  HeadgateEvent,
  RawJson,
  TOMBSTONE,
} from "../src/index.js";
import { FailEvents, FakeGateway, Lose, Refuse, Succeed } from "../src/testing.js";

function world(options) {
  const gateway = new FakeGateway(options);
  const retry = { firstWaitMs: 0 };
  const client = new Client(gateway.url, { log: null, fetch: gateway.fetch, retry });
  return { gateway, client };
}

for (const [what, make, words] of [
  ["a reason", () => new Refuse("overlaoded"), /no gateway has the reason .overlaoded.. Did you mean .overloaded./],
  ["a reason of events", () => new FailEvents("schema_violatoin"), /Did you mean .schema_violation./],
  ["a reason that is like none", () => new FailEvents("???"), /The reasons are malformed, /],
  ["the name of a property of all objects", () => new Refuse("toString"), /no gateway/],
  ["a failure that writes", () => new FailEvents("overloaded", { isWritten: true }), /isWritten: only/],
  ["an option of Lose", () => new Lose({ iswritten: true }), /Did you mean .isWritten./],
  ["no option of Lose", () => new Lose(), /Lose: use an object of options/],
  ["an empty option of Lose", () => new Lose({}), /Lose: use { isWritten: true }/],
  ["an outcome", () => new Succeed("unchangd"), /Did you mean .unchanged./],
  ["a fault that is a text", () => new FakeGateway().next("unknown"), /next: use Refuse/],
  ["a fault that is a class", () => new FakeGateway().next(Refuse), /next: use Refuse/],
]) {
  test(`a mistake of a test is refused at once: ${what}`, () => {
    assert.throws(make, (error) => {
      assert.equal(error.name, "InvalidOptionError");
      assert.match(error.message, words);
      return true;
    });
  });
}

test("an event is unchanged, held or spooled", async () => {
  const { gateway, client } = world();
  const events = [["a", 1], ["b", 1], ["b", 2]];
  await client.sendBatch("orders", events.map(([key, value]) => new HeadgateEvent(value, { key })));
  gateway.next(new Succeed("unchanged"), new Succeed("held"), new Succeed("spooled"));
  const places = [];
  for (let count = 0; count < 3; count += 1) {
    const { name, partition, offset } = await client.send("orders", 2, { key: "b" });
    places.push([name, partition, offset]);
  }
  assert.deepEqual(places, [["unchanged", 0, 2], ["held", null, null], ["spooled", null, null]]);
  gateway.next(new Succeed("held", { which: (record, place) => place === 1 }));
  const batch = await client.sendBatch("orders", [3, 4, 5]);
  assert.deepEqual(batch.map(({ name }) => name), ["published", "held", "published"]);
  assert.deepEqual(gateway.records("orders").map(({ value }) => value), [1, 1, 2, 3, 5]);
});

test("a large event has the figures of a gateway", async () => {
  const { gateway, client } = world({ maxBytes: 30 });
  const value = { id: 1, text: "x".repeat(20), "a/b": [1, 2, 3] };
  const outcome = await client.send("orders", value, { key: "k" });
  assert.deepEqual([outcome.reason, outcome.sizeBytes, outcome.limitBytes], ["too_large", 52, 30]);
  assert.deepEqual(outcome.largestPaths, [
    { path: "/text", bytes: 22 },
    { path: "/a~1b", bytes: 7 },
    { path: "/id", bytes: 1 },
  ]);
  gateway.next(new FailEvents("too_large"));
  assert.equal((await client.send("orders", { id: 1 })).sizeBytes, 8);
});

for (const [given, key] of [["12", "12"], [12, "12"], [0, "0"], [1e20, "100000000000000000000"], [12n, "12"], [true, "true"]]) {
  test(`the key rule makes the keys of a gateway: ${typeof given} ${given}`, async () => {
    const { gateway, client } = world({ keyOf: () => given });
    const outcomes = [await client.send("orders", {}), ...(await client.sendBatch("orders", [{}]))];
    assert.deepEqual(outcomes.map(({ name, key }) => [name, key]), [["published", key], ["published", key]]);
    assert.deepEqual(gateway.records("orders").map((record) => record.key), [key, key]);
  });
}

for (const [given, reason, text] of [
  [null, "missing_key", "the event has no key, and keyOf returned null; send the event with"],
  [undefined, "missing_key", "the event has no key, and keyOf returned undefined; send the event"],
  ["", "missing_key", 'the event has no key, and keyOf returned ""; send the event with { key }'],
  [1.5, "invalid_key", "keyOf returned the number 1.5; a key is a string, a whole number or a bool"],
  [1e21, "invalid_key", "keyOf returned the number 1e+21; a key is a string, a whole number"],
  [[1], "invalid_key", "keyOf returned an array; a key is a string, a whole number or a boolean"],
  [{}, "invalid_key", "keyOf returned the object [object Object]; a key is a string"],
  ["é".repeat(2049), "invalid_key", "the key is longer than http.key_max_bytes = 4096"],
]) {
  test(`the key rule fails where that of a gateway fails: ${String(given).slice(0, 20)}`, async () => {
    const { gateway, client } = world({ keyOf: () => given });
    gateway.next(new Succeed("held", { which: (record, place) => place === 1 }));
    for (const outcome of await client.sendBatch("orders", [{}, {}])) {
      assert.equal(outcome.reason, reason);
      assert(outcome.detail.startsWith(text), outcome.detail);
    }
  });
}

test("an event id with other content is a mismatch", async () => {
  const { gateway, client } = world({ dedupe: true });
  const event = (value, key = "k") => new HeadgateEvent(value, { key, id: "e" });
  const first = event({ a: 1 });
  const others = [event({ a: 2 }), event({ a: 1 }, "l"), event(new TextEncoder().encode('{"a":1}')), event(TOMBSTONE)];
  assert.equal((await client.send("orders", first)).name, "published");
  assert.equal((await client.send("orders", first)).name, "duplicate");
  const repeats = await client.sendBatch("orders", [first, first]);
  assert.deepEqual(repeats.map(({ name }) => name), ["duplicate", "duplicate"]);
  const outcomes = await client.sendBatch("orders", others);
  for (const other of others) outcomes.push(await client.send("orders", other));
  assert.deepEqual(new Set(outcomes.map(({ reason }) => reason)), new Set(["idempotency_mismatch"]));
  assert.equal(gateway.records("orders").length, 1);
});

test("an event id belongs to a producer, and that of a CloudEvent to its source", async () => {
  const gateway = new FakeGateway({ dedupe: true });
  const names = [];
  for (const producer of ["a", "b"]) {
    const client = new Client(gateway.url, { fetch: gateway.fetch, log: null, producer });
    names.push((await client.send("orders", 1, { id: "e" })).name);
    for (const source of ["/one", "/two"]) {
      names.push((await client.send("orders", new CloudEvent({ id: "e", source, type: "t", data: 1 }))).name);
    }
  }
  assert.deepEqual(names, [...Array(4).fill("published"), "duplicate", "duplicate"]);
});

for (const [header, value, text] of [
  ["Headgate-Forse", "true", "there is no header Headgate-Forse. Did you mean 'Headgate-Force'?"],
  ["Headgate-Force", "yes", "Headgate-Force is true, 1, false or 0, not 'yes'"],
  ["Idempotency-Key", "a b", "an Idempotency-Key has 1 to 255 visible ASCII characters"],
]) {
  test(`a header is refused as by a gateway: ${header}`, async () => {
    const headers = { "Content-Type": "application/json", [header]: value };
    const url = `${new FakeGateway().url}/v1/topics/orders/events`;
    const answer = await new FakeGateway().fetch(url, { method: "POST", body: "{}", headers });
    const { reason, detail } = await answer.json();
    assert.deepEqual([answer.status, reason, detail], [400, "malformed", text]);
  });
}

test("limits of keys, headers and depth are those of a gateway", async () => {
  const { client } = world();
  let value = 1;
  for (let depth = 0; depth < 128; depth += 1) value = [value];
  const headers = Object.fromEntries(Array.from({ length: 1001 }, (_, at) => [`h${at}`, "x"]));
  assert((await client.send("orders", value)).succeeded);
  assert.equal((await client.send("orders", [value])).reason, "malformed");
  assert.equal((await client.send("orders", 1, { headers })).reason, "malformed");
  const { reason, limitBytes } = await client.send("orders", 1, { key: "k".repeat(4097) });
  assert.deepEqual([reason, limitBytes], ["invalid_key", 4096]);
});

test("a value without JSON has no key by the rule", async () => {
  const keyOf = () => assert.fail("a gateway reads no key from bytes or a tombstone");
  const { gateway, client } = world({ keyOf });
  const ends = [
    ...(await client.sendBatch("orders", [new Uint8Array([1]), TOMBSTONE])),
    await client.send("orders", TOMBSTONE),
  ];
  assert.deepEqual(ends.map(({ reason }) => reason), ["missing_key", "missing_key", "missing_key"]);
  assert.equal((await client.send("orders", TOMBSTONE, { key: "k" })).name, "published");
  assert.deepEqual(gateway.records("orders").map(({ isTombstone }) => isTombstone), [true]);
  const free = await world().client.sendBatch("orders", [new Uint8Array([1]), new RawJson("null"), TOMBSTONE]);
  assert.deepEqual(free.map(({ name }) => name), ["published", "published", "rejected"]);
});

test("an error in the key rule names it, and is not retried", async () => {
  const { client } = world({ keyOf: (topic, value) => value.customer.id });
  const outcome = await client.send("orders", { total: 5 });
  assert.equal(outcome.name, "unknown");
  assert.match(outcome.detail, /keyOf: the function threw TypeError: .* for the value {"total":5}/);
  assert.match(outcome.detail, /return null if there is no key/);
});

test("an unchanged event has no id unless the program gave one", async () => {
  const { gateway, client } = world();
  const ids = [];
  for (const [fault, id] of [["unchanged"], ["unchanged", "e"], ["held"], ["spooled"]]) {
    gateway.next(new Succeed(fault));
    ids.push((await client.send("orders", 1, { id })).eventId);
  }
  assert.deepEqual(ids.slice(0, 2), [null, "e"]);
  assert(ids[2] && ids[3]);
});

test("an answer that is lost, and keys that are forgotten", async () => {
  const { gateway, client } = world();
  gateway.next(new FailEvents("schema_violation", { isAnswered: false, which: () => false }));
  assert.equal((await client.send("orders", 1, { idempotencyKey: "k" })).name, "duplicate");
  gateway.forget();
  assert.equal((await client.send("orders", 1, { idempotencyKey: "k" })).name, "published");
});

test("every way writes the same headers", async () => {
  const { gateway, client } = world();
  const events = [
    new HeadgateEvent(1, { headers: { Author: "Ada", author: "ada" } }),
    new HeadgateEvent(new Uint8Array([1]), { headers: { a: "b" } }),
    new CloudEvent({ id: "1", source: "/s", type: "t" }),
  ];
  for (const event of events) await client.send("orders", event);
  await client.sendBatch("orders", events);
  const producer = new BufferedProducer(client);
  for (const event of events) await producer.send("orders", event);
  await producer.close();
  const written = [
    { Author: "Ada", author: "ada" },
    { a: "b" },
    { ce_specversion: "1.0", ce_id: "1", ce_source: "/s", ce_type: "t" },
  ];
  const found = gateway.records("orders").map(({ headers }) => headers);
  for (const headers of written) {
    assert.equal(found.filter((other) => isEqual(headers, other)).length, 3, JSON.stringify(found));
  }
});

test("the trace context of the request is in its record", async () => {
  const { gateway, client } = world();
  await client.send("orders", 1, { headers: { traceparent: "00-1" } });
  await client.send("orders", 1, { headers: { Traceparent: "00-1", Author: "Ada" } });
  const found = gateway.records("orders").map(({ headers }) => headers.traceparent);
  assert.deepEqual(found, ["00-1", "00-1"]);
});

function isEqual(one, other) {
  try {
    assert.deepEqual(one, other);
    return true;
  } catch {
    return false;
  }
}
