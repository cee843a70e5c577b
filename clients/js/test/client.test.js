/** The client against the gateway of tests: every rule of docs/publish/retries.md. */

import assert from "node:assert/strict";
import { createServer } from "node:http";
import { test } from "node:test";

import { BufferedProducer, Client, CloudEvent, HeadgateEvent, TOMBSTONE } from "../src/index.js";
import { FailEvents, FakeGateway, Lose, Refuse } from "../src/testing.js";

function world(options = {}) {
  const gateway = new FakeGateway(options.gateway);
  const waits = { firstWaitMs: 0, ...options.retry };
  const client = new Client(options.url ?? gateway.url, {
    log: null,
    fetch: gateway.fetch,
    ...options.client,
    retry: waits,
  });
  return { gateway, client };
}

const keysOf = ({ requests }) => requests.map(({ headers }) => headers.get("Idempotency-Key"));
const bodiesOf = ({ requests }) => requests.map(({ content }) => new TextDecoder().decode(content));
const valuesOf = (gateway) => gateway.records("orders").map(({ value }) => value);

test("an event that is sent has an outcome", async () => {
  const { gateway, client } = world();
  const outcome = await client.send("orders", new HeadgateEvent({ a: 1 }, { key: "ключ" }));
  assert.deepEqual([outcome.name, outcome.key, outcome.offset], ["published", "ключ", 0]);
  assert.deepEqual(valuesOf(gateway), [{ a: 1 }]);
});

test("a batch has as many outcomes as events, and many go in parts", async () => {
  const { gateway, client } = world({ client: { limits: { maxEvents: 2 } } });
  const outcomes = await client.sendBatch("orders", [1, 2, 3, 4, 5]);
  assert.deepEqual(outcomes.map(({ offset }) => offset), [0, 1, 2, 3, 4]);
  assert.equal(gateway.requests.length, 3);
  assert.deepEqual(await client.sendBatch("orders", []), []);
});

test("all kinds of events stand in one batch, in their order", async () => {
  const { gateway, client } = world();
  const cloud = new CloudEvent({ id: "1", source: "/s", type: "t", data: 2 });
  const gone = new HeadgateEvent(TOMBSTONE, { key: "k" });
  await client.sendBatch("orders", [1, cloud, gone, new Uint8Array([4])]);
  assert.deepEqual(valuesOf(gateway), [1, 2, null, new Uint8Array([4])]);
});

test("after a lost answer the same bytes go again under the same key", async () => {
  const { gateway, client } = world();
  gateway.next(new Lose({ isWritten: true }), new Refuse("overloaded"));
  const outcome = await client.send("orders", 1);
  assert.equal(outcome.name, "duplicate");
  assert.deepEqual(valuesOf(gateway), [1]);
  assert.equal(new Set(keysOf(gateway)).size, 1);
  assert.equal(new Set(bodiesOf(gateway)).size, 1);
});

test("after failures of events only those go again, under a new key", async () => {
  const { gateway, client } = world();
  gateway.next(new FailEvents("kafka_unavailable", { which: (_, place) => place !== 1 }));
  const outcomes = await client.sendBatch("orders", ["a", "b", "c"]);
  assert.deepEqual(outcomes.map(({ name }) => name), ["published", "published", "published"]);
  assert.deepEqual(valuesOf(gateway), ["b", "a", "c"]);
  assert.equal(bodiesOf(gateway)[1], '{"events":[{"value":"a"},{"value":"c"}]}');
  assert.equal(new Set(keysOf(gateway)).size, 2);
});

test("while an event is unknown the request goes again as it was", async () => {
  const { gateway, client } = world();
  const which = (_, place) => place === 1;
  gateway.next(new FailEvents("unknown", { which, isWritten: true }));
  const outcomes = await client.sendBatch("orders", ["a", "b"]);
  assert.deepEqual(outcomes.map(({ name }) => name), ["published", "duplicate"]);
  assert.deepEqual(valuesOf(gateway), ["a", "b"]);
  assert.equal(new Set(keysOf(gateway)).size, 1);
});

test("what will fail again is not sent again", async () => {
  const { gateway, client } = world();
  gateway.next(new FailEvents("schema_violation"));
  const [outcome] = await client.sendBatch("orders", [1]);
  assert.deepEqual([outcome.name, outcome.reason], ["rejected", "schema_violation"]);
  assert.equal(gateway.requests.length, 1);
});

test("a batch that is too large goes in halves", async () => {
  const { gateway, client } = world();
  gateway.next(new Refuse("too_many_events"), new Refuse("too_large"));
  const outcomes = await client.sendBatch("orders", [1, 2, 3, 4]);
  assert(outcomes.every(({ name }) => name === "published"));
  assert.deepEqual(valuesOf(gateway), [1, 2, 3, 4]);
});

test("Retry-After is waited for, and the caller's signal ends the wait", async () => {
  const { gateway, client } = world();
  gateway.next(new Refuse("overloaded", { retryAfterS: 60 }));
  const began = performance.now();
  const outcome = await client.send("orders", 1, { signal: AbortSignal.timeout(50) });
  assert(performance.now() - began < 30_000);
  assert.deepEqual([outcome.name, outcome.reason], ["rejected", "overloaded"]);
  assert.equal(gateway.requests.length, 1);
});

test("patience ends before a wait that is longer", async () => {
  const { gateway, client } = world({ retry: { patienceMs: 100 } });
  gateway.next(new Lose({ isWritten: true }), new Refuse("draining", { retryAfterS: 60 }));
  const outcome = await client.send("orders", 1);
  assert.deepEqual([outcome.name, outcome.reason], ["unknown", "draining"]);
  assert.match(outcome.detail, /an earlier attempt may have been written/);
});

test("who does not repeat the unknown leaves it alone", async () => {
  const { gateway, client } = world({ retry: { repeatUnknown: false } });
  gateway.next(new Lose({ isWritten: true }));
  assert.equal((await client.send("orders", 1)).name, "unknown");
  assert.equal(gateway.requests.length, 1);
});

test("of states an older one is left out when a newer one got through", async () => {
  const { gateway, client } = world({ retry: { overtaken: "leave_out" } });
  const state = (key, value) => new HeadgateEvent(value, { key });
  const which = (_, place) => place === 0 || place === 2;
  gateway.next(new FailEvents("kafka_unavailable", { which }));
  const events = [state("a", 1), state("a", 2), state("b", 3)];
  const outcomes = await client.sendBatch("orders", events);
  assert.deepEqual(outcomes.map(({ reason, name }) => reason ?? name), [
    "overtaken",
    "published",
    "published",
  ]);
  assert.deepEqual(valuesOf(gateway), [2, 3]);
});

test("what was overtaken does not come back with an unknown one", async () => {
  const { gateway, client } = world({ retry: { overtaken: "leave_out" } });
  const state = (key, value) => new HeadgateEvent(value, { key });
  const which = (_, place) => place !== 1;
  gateway.next(new FailEvents("unknown", { which }));
  await client.sendBatch("orders", [state("a", 1), state("a", 2), state("b", 3)]);
  assert.deepEqual(valuesOf(gateway), [2, 3]);
});

test("a key of the caller holds for all events in one request", async () => {
  const { gateway, client } = world({ client: { limits: { maxEvents: 1 } } });
  gateway.next(new FailEvents("kafka_unavailable", { which: (_, place) => place === 1 }));
  await client.sendBatch("orders", [1, 2, 3], { idempotencyKey: "mine" });
  assert.deepEqual(keysOf(gateway), ["mine", "mine"]);
  assert.deepEqual(valuesOf(gateway), [1, 3, 2]);
  const again = await client.sendBatch("orders", [1, 2, 3], { idempotencyKey: "mine" });
  assert(again.every(({ name }) => name === "duplicate"));
});

test("another address is asked when one is away", async () => {
  const gateway = new FakeGateway();
  const asked = [];
  const { client } = world({
    url: ["http://one.test/", "http://two.test"],
    client: {
      fetch: (url, init) => {
        asked.push(new URL(url).host);
        if (asked.length === 1) throw new TypeError("fetch failed");
        return gateway.fetch(url, init);
      },
    },
  });
  assert.equal((await client.send("orders", 1)).name, "published");
  assert.equal((await client.send("orders", 2)).name, "published");
  assert.deepEqual(asked, ["one.test", "two.test", "two.test"]);
});

test("a gateway that drains is not waited for where there is another one", async () => {
  const { gateway, client } = world({ url: ["http://one.test", "http://two.test"] });
  gateway.next(new Refuse("draining", { retryAfterS: 60 }));
  assert.equal((await client.send("orders", 1)).name, "published");
});

test("a redirect is not followed: it would turn the request into another one", async () => {
  const server = createServer((request, response) => {
    request.resume();
    response.writeHead(301, { Location: "/elsewhere" }).end();
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  const client = new Client(`http://127.0.0.1:${server.address().port}`, { log: null });
  const outcome = await client.send("orders", 1);
  assert.deepEqual([outcome.reason, outcome.status], ["bad_answer", 301]);
  await new Promise((resolve) => server.close(resolve));
});

test("a connection that was never there leaves no doubt", async () => {
  const unreachable = () => {
    throw new TypeError("fetch failed", { cause: Object.assign(Error("no"), { code: "ECONNREFUSED" }) });
  };
  const { client } = world({ client: { fetch: unreachable }, retry: { patienceMs: 5, firstWaitMs: 2 } });
  const outcome = await client.send("orders", 1);
  assert.deepEqual([outcome.name, outcome.reason], ["rejected", "unreachable"]);
});

test("an answer that does not come in time is unknown", async () => {
  const silent = (_, { signal }) =>
    new Promise((_resolve, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
  const { client } = world({ client: { fetch: silent, timeoutMs: 20 }, retry: { patienceMs: 0 } });
  const outcome = await client.send("orders", 1);
  assert.deepEqual([outcome.name, outcome.reason], ["unknown", "no_answer"]);
  assert.match(outcome.detail, /no answer within 20 ms/);
});

test("closing ends what is under way, and takes no more", async () => {
  const { gateway, client } = world();
  gateway.next(new Refuse("overloaded", { retryAfterS: 60 }));
  const sending = client.send("orders", 1);
  while (!gateway.requests.length) await new Promise(setImmediate);
  client.close();
  assert.equal((await sending).name, "rejected");
  await assert.rejects(client.send("orders", 1), { name: "ClosedError" });
});

test("a new token is asked for when one is refused", async () => {
  const tokens = ["old", "new", "new"];
  const { gateway, client } = world({ client: { token: async () => tokens.shift() } });
  gateway.next(new Refuse("unauthenticated"));
  assert.equal((await client.send("orders", 1)).name, "published");
  const sent = gateway.requests.map(({ headers }) => headers.get("Authorization"));
  assert.deepEqual(sent, ["Bearer old", "Bearer new"]);
  gateway.next(new Refuse("unauthenticated"));
  const fixed = world({ client: { token: "fixed", fetch: gateway.fetch } }).client;
  assert.equal((await fixed.send("orders", 1)).reason, "unauthenticated");
});

test("a token that cannot be had sends nothing", async () => {
  const token = () => Promise.reject(Error("no issuer"));
  const { client } = world({ client: { token }, retry: { patienceMs: 0 } });
  const outcome = await client.send("orders", 1);
  assert.deepEqual([outcome.name, outcome.reason], ["rejected", "not_sent"]);
});

test("larger bodies are compressed", async () => {
  const { gateway, client } = world({ client: { compression: "gzip" } });
  await client.sendBatch("orders", ["x".repeat(2000), "y"]);
  await client.send("orders", "small");
  const found = gateway.requests.map(({ headers }) => headers.get("Content-Encoding"));
  assert.deepEqual(found, ["gzip", null]);
  assert.equal(valuesOf(gateway)[0].length, 2000);
});

test("an observer hears of attempts and outcomes, and breaks nothing", async () => {
  const attempts = [];
  const ended = [];
  const observer = {
    onAttempt: (attempt) => attempts.push(attempt),
    onOutcomes: (topic, outcomes) => {
      ended.push([topic, outcomes.length]);
      throw Error("mine");
    },
  };
  const { gateway, client } = world({ client: { observer } });
  gateway.next(new Refuse("overloaded"));
  await client.sendBatch("orders", [1, 2]);
  assert.deepEqual(attempts.map(({ number, result, status, events }) => [number, result, status, events]), [
    [1, "overloaded", 503, 2],
    [2, "ended", 200, 2],
  ]);
  assert.deepEqual(ended, [["orders", 2]]);
});

test("the console has each failure once, also with an observer", async (context) => {
  const warn = context.mock.method(console, "warn", () => {});
  const error = context.mock.method(console, "error", () => {});
  const gateway = new FakeGateway();
  gateway.next(new FailEvents("schema_violation"));
  gateway.next(new Refuse("forbidden"));
  const client = new Client(gateway.url, { fetch: gateway.fetch, observer: {} });
  await client.sendBatch("orders", [1, 2]);
  await client.sendBatch("orders", [1]);
  assert.deepEqual([warn.mock.callCount(), error.mock.callCount()], [0, 2]);
  const [line] = error.mock.calls[0].arguments;
  const text = "headgate: orders: 2 events rejected: schema_violation (as the test wants it)";
  assert.equal(line, `${text}; first: events[0]`);
});

for (const [what, options] of [
  ["url", [""]],
  ["url", ["ftp://x"]],
  ["url", [[]]],
  ["Client: unknown option 'timeout'. Did you mean 'timeoutMs'?", ["http://x", { timeout: 1 }]],
  ["Client: unknown option 'tokn'. Did you mean 'token'?", ["http://x", { tokn: "t" }]],
  ["Client: unknown option 'headers'. Did you mean 'requestHeaders'?", ["http://x", { headers: {} }]],
  ["Client: unknown option 'zzz'. The options are producer, token", ["http://x", { zzz: 1 }]],
  ["retry: unknown option 'patience'. Did you mean", ["http://x", { retry: { patience: 1 } }]],
  ["retry.patienceMs", ["http://x", { retry: { patienceMs: 25 * 3_600_000 } }]],
  ["limits.maxEvents", ["http://x", { limits: { maxEvents: 0 } }]],
  ["timeoutMs", ["http://x", { timeoutMs: Infinity }]],
  ["compression", ["http://x", { compression: "zstd" }]],
]) {
  test(`an option that cannot be meant is refused: ${what} ${JSON.stringify(options)}`, () => {
    assert.throws(() => new Client(...options), (error) => {
      assert.equal(error.name, "InvalidOptionError");
      assert(error.message.startsWith(what), error.message);
      return true;
    });
  });
}

test("options of calls and of the gateway of tests are refused as well", async () => {
  const { client } = world();
  const unknown = (name) => ({ name: "InvalidOptionError", message: new RegExp(`unknown option '${name}'`) });
  await assert.rejects(client.send("orders", 1, { hedaers: {} }), unknown("hedaers"));
  await assert.rejects(client.sendBatch("orders", [1], { key: "k" }), unknown("key"));
  const producer = new BufferedProducer(client);
  assert.throws(() => producer.send("orders", 1, { timeoutMs: 1 }), unknown("timeoutMs"));
  await assert.rejects(producer.sendWhenRoom("orders", 1, { timeout: 1 }), unknown("timeout"));
  await assert.rejects(producer.flush({ timeout: 1 }), unknown("timeout"));
  await assert.rejects(producer.close({ timeout: 1 }), unknown("timeout"));
  await producer.close();
  assert.throws(() => new BufferedProducer(client, { bufering: {} }), unknown("bufering"));
  assert.throws(() => new FakeGateway({ dedup: true }), unknown("dedup"));
  assert.throws(() => new Refuse("forbidden", { retryAfterMs: 1 }), unknown("retryAfterMs"));
  assert.throws(() => new FailEvents("forbidden", { iswritten: true }), unknown("iswritten"));
});

test("send takes the fields of the record", async () => {
  const { gateway, client } = world();
  const timestamp = new Date("2026-11-27T03:04:05.678Z");
  const fields = { key: "k", id: "e-1", headers: { author: "Ada" }, timestamp };
  await client.send("orders", { a: 1 }, { ...fields, requestHeaders: { "X-A": "1" } });
  const producer = new BufferedProducer(client);
  void producer.send("orders", 2, { key: new Uint8Array([255]), headers: { author: "Ада" } });
  await producer.sendWhenRoom("orders", 3, { key: "k", timestamp: 5, timeoutMs: 1000 });
  await producer.close();
  const [alone, batch] = gateway.requests;
  assert.equal(alone.headers.get("Headgate-Timestamp"), String(timestamp.getTime()));
  assert.equal(alone.headers.get("X-A"), "1");
  assert.match(new TextDecoder().decode(batch.content), /"timestamp_ms":5/);
  const found = gateway.records("orders").map(({ key, value, eventId, headers }) => [key, value, eventId, headers]);
  assert.deepEqual(found.slice(0, 2), [
    ["k", { a: 1 }, "e-1", { author: "Ada" }],
    [new Uint8Array([255]), 2, null, { author: "Ада" }],
  ]);
});

for (const event of [new HeadgateEvent(1), new CloudEvent({ id: "1", source: "/s", type: "t" })]) {
  test(`an event has its own fields: ${event.constructor.name}`, async () => {
    const { gateway, client } = world();
    const producer = new BufferedProducer(client);
    for (const field of ["key", "id", "headers", "timestamp"]) {
      const wrong = { name: "InvalidEventError", message: new RegExp(`^${field}: the value is a `) };
      await assert.rejects(client.send("orders", event, { [field]: "x" }), wrong);
      assert.throws(() => producer.send("orders", event, { [field]: "x" }), wrong);
    }
    await producer.close();
    assert.equal(gateway.requests.length, 0);
  });
}

const failure = (code) => new TypeError("fetch failed", { cause: Object.assign(Error("no"), { code }) });

test("an unknown host is given up after a few tries, in each part of a batch", async () => {
  let tries = 0;
  const fetch = async () => {
    tries += 1;
    throw failure("ENOTFOUND");
  };
  const { client } = world({ client: { fetch, limits: { maxEvents: 1 } } });
  const outcomes = await client.sendBatch("orders", [1, 2]);
  assert.deepEqual(outcomes.map(({ reason, retryable }) => [reason, retryable]), [
    ["unreachable", false],
    ["unreachable", false],
  ]);
  assert.match(outcomes[0].detail, /the host is unknown after 5 tries/);
  assert.equal(tries, 6);
});

test("a host that is unknown for a moment is waited for", async () => {
  const gateway = new FakeGateway();
  const failures = ["ENOTFOUND", "ENOTFOUND", "EAI_AGAIN", "ENOTFOUND", "ENOTFOUND", "ENOTFOUND", "ENOTFOUND"];
  const fetch = async (...request) => {
    const code = failures.shift();
    if (code) throw failure(code);
    return gateway.fetch(...request);
  };
  const { client } = world({ client: { fetch } });
  assert.equal((await client.send("orders", 1)).name, "published");
});

test("an address with a wrong certificate is left for another one, and final if it is alone", async () => {
  const gateway = new FakeGateway();
  const fetch = async (url, init) => {
    if (new URL(url).host === "one.test") throw failure("SELF_SIGNED_CERT_IN_CHAIN");
    return gateway.fetch(url, init);
  };
  const two = world({ url: ["https://one.test", "https://two.test"], client: { fetch } });
  assert.equal((await two.client.send("orders", 1)).name, "published");
  const alone = world({ url: ["https://one.test", "https://one.test"], client: { fetch } });
  const outcome = await alone.client.send("orders", 1);
  assert.deepEqual([outcome.name, outcome.reason, outcome.retryable], ["rejected", "unreachable", false]);
});

test("a token never shows in an error", async () => {
  for (const token of ["SEC\nRET", "SECRÉT", " "]) {
    assert.throws(() => world({ client: { token } }), /^InvalidOptionError: token: it is empty, or not one line/);
    const { client } = world({ client: { token: () => token }, retry: { patienceMs: 0 } });
    const outcome = await client.send("orders", 1);
    assert.equal(outcome.reason, "not_sent");
    assert.ok(!outcome.detail.includes("SEC"));
  }
  const { gateway, client } = world({ client: { token: "SECRET\n" } });
  assert.ok((await client.send("orders", 1)).succeeded);
  assert.equal(gateway.requests[0].headers.get("Authorization"), "Bearer SECRET");
});
