/** Mistakes of a caller: each has a clear text, and no text shows a secret. */

import assert from "node:assert/strict";
import { test } from "node:test";

import {
  BufferedProducer,
  Client,
  CloudEvent,
  HeadgateEvent,
  RawJson,
  TOMBSTONE,
  VERSION,
} from "../src/index.js";
import { RESERVED } from "../src/core/headers.js";
import { FailEvents, FakeGateway, Refuse } from "../src/testing.js";

const URL_ = "http://headgate.test";
const SECRET = "S3cr.et+to/ken==";
const ONCE = { patienceMs: 0 };
// Texts that are no header value: a line feed, a control character, a letter beyond ASCII.
const NO_HEADER_VALUES = ["SEC\nRET", "SEC\rRET", "SEC\0RET", "SEC\x7fRET", "SECRÉT", "SEC\u2028RET"];

/** Send an event; return all that a program or its log sees of the failure. */
async function textsOf(options, requestOptions = {}) {
  const texts = [];
  const log = { warn: (...words) => texts.push(...words), error: (...words) => texts.push(...words) };
  const observer = { onAttempt: ({ detail }) => texts.push(detail) };
  const client = new Client(URL_, { retry: ONCE, log, observer, ...options });
  const outcome = await client.send("orders", 1, requestOptions);
  assert.equal(outcome.name, "rejected");
  texts.push(outcome.detail);
  assert.throws(
    () => outcome.throwIfFailed(),
    (error) => texts.push(error.message) > 0,
  );
  return texts.join("\n");
}

/** A proxy whose page shows the headers of the request, behind a text of any length. */
function echo(quote) {
  return async (_, { headers }) => {
    const head = "x".repeat(Number(headers.get("X-Length")));
    const shown = [...headers].map(([name, value]) => `${name}: ${quote(value)}\n`).join("");
    return new Response(`<html>${head}${shown}</html>`, { status: 400 });
  };
}

const entities = (text) => text.replace(/\W/g, (char) => `&#${char.charCodeAt(0)};`);

const jsonText = (text) => JSON.stringify(text).replaceAll("/", "\\/").replaceAll("+", "\\u002b");

for (const quote of [String, encodeURIComponent, entities, jsonText]) {
  test(`a page that shows the request shows no secret: ${quote.name}`, async () => {
    for (const length of ["0", "80", "90", "100", "120", "130", "140"]) {
      const fetch = echo(quote);
      const requestHeaders = { "X-Length": length, "X-Api-Key": SECRET };
      const basic = { ...requestHeaders, Authorization: `Basic ${SECRET}` };
      for (const [options, ofCall] of [
        [{ fetch, requestHeaders, token: SECRET }],
        [{ fetch, requestHeaders, token: async () => SECRET }],
        [{ fetch, requestHeaders: basic }],
        [{ fetch }, { requestHeaders: basic }],
      ]) {
        const text = await textsOf(options, ofCall);
        assert.match(text, /not a response of Headgate/);
        assert(!text.includes("S3cr"), text);
      }
    }
  });
}

test("an error of fetch shows no secret", async () => {
  const fetch = async (_, { headers }) => {
    throw new TypeError(`bad value ${headers.get("Authorization")}`);
  };
  const retry = { ...ONCE, repeatUnknown: false };
  const client = new Client(URL_, { fetch, retry, token: SECRET, log: null });
  const { detail } = await client.send("orders", 1);
  const hint = "this may not be the port of a Headgate gateway";
  assert.equal(detail, `${URL_}: TypeError: bad value Bearer ***; ${hint}`);
});

test("an error of the token function shows its type alone", async () => {
  const token = async () => {
    throw new RangeError(`no token at http://issuer/?secret=${SECRET}\n${SECRET}`);
  };
  const text = await textsOf({ token, fetch: new FakeGateway().fetch });
  assert.match(text, /token: the function threw RangeError/);
  assert(!text.includes("S3cr"));
});

test("a token function that fails after a refusal loses nothing", async () => {
  const tokens = ["old", Error(SECRET), "new"];
  const token = async () => {
    const given = tokens.shift();
    if (given instanceof Error) throw given;
    return given;
  };
  const gateway = new FakeGateway();
  gateway.next(new Refuse("unauthenticated"));
  const retry = { firstWaitMs: 0 };
  const client = new Client(URL_, { fetch: gateway.fetch, token, retry, log: null });
  assert.equal((await client.send("orders", 1)).name, "published");
});

test("a value that is no header text is refused without its value", async () => {
  for (const value of [...NO_HEADER_VALUES, "", " ", 5, null]) {
    for (const [options, named] of [
      [{ token: value }, "token"],
      [{ producer: value }, "producer"],
      [{ requestHeaders: { "X-Key": value } }, 'requestHeaders: the value of "X-Key"'],
    ]) {
      if (options.token === null || (value === "" && options.requestHeaders)) continue;
      assert.throws(() => new Client(URL_, options), (error) => {
        assert.equal(error.name, "InvalidOptionError");
        assert(error.message.startsWith(named), error.message);
        assert.match(error.message, /visible ASCII/);
        assert(!error.message.includes("SEC"));
        return true;
      });
    }
  }
  for (const producer of ["a".repeat(101), "shop\n", " shop"]) {
    assert.throws(() => new Client(URL_, { producer }), /producer: use 1 to 100 visible ASCII/);
  }
});

for (const [requestHeaders, named] of [
  [{ "X Key": "SECRET" }, '"X Key" is not a header name'],
  [{ "X\nKey": "SECRET" }, '"X\\nKey" is not a header name'],
  [{ Ключ: "SECRET" }, '"Ключ" is not a header name'],
  [new Headers({ "X-Key": "SECRET" }), "use an object of strings; try Object.fromEntries(headers)"],
  [new Map([["X-Key", "SECRET"]]), "use an object of strings; try Object.fromEntries(headers)"],
  [[["X-Key", "SECRET"]], "use an object of strings; try Object.fromEntries(headers)"],
  ["X-Key: SECRET", "use an object of strings"],
  [{ "X-Key": "SECRET", "x-key": "1" }, '"x-key" is in it twice, in other letters'],
]) {
  test(`headers of requests are checked: ${named}`, async () => {
    const isRight = (name) => (error) => {
      assert.equal(error.name, name);
      assert(error.message.includes(named), error.message);
      assert(!error.message.includes("SECRET"));
      return true;
    };
    assert.throws(() => new Client(URL_, { requestHeaders }), isRight("InvalidOptionError"));
    const client = new Client(URL_);
    await assert.rejects(client.send("orders", 1, { requestHeaders }), isRight("InvalidEventError"));
  });
}

for (const name of [
  ...Object.keys(RESERVED).map((name) => name.replace("-*", "-Team")),
  "idempotency-KEY",
  "headgate-key*",
]) {
  test(`a request header that the client sets is refused with the option: ${name}`, async () => {
    const isRight = (kind) => (error) => {
      assert.equal(error.name, kind);
      const text = `requestHeaders: the client sets ${JSON.stringify(name)} itself: `;
      assert(error.message.startsWith(text), error.message);
      return !error.message.includes("SECRET");
    };
    const gateway = new FakeGateway();
    const requestHeaders = { [name]: "SECRET" };
    assert.throws(() => new Client(URL_, { requestHeaders }), isRight("InvalidOptionError"));
    const client = new Client(URL_, { fetch: gateway.fetch });
    const wrong = isRight("InvalidEventError");
    await assert.rejects(client.send("orders", 1, { requestHeaders }), wrong);
    await assert.rejects(client.sendBatch("orders", [1], { requestHeaders }), wrong);
    assert.deepEqual(gateway.requests, []);
  });
}

test("Authorization is refused beside a token alone", async () => {
  const gateway = new FakeGateway();
  const requestHeaders = { authorization: "Basic own" };
  const fix = /"authorization" itself: leave out this header or the option token/;
  const options = { fetch: gateway.fetch, token: SECRET };
  assert.throws(() => new Client(URL_, { ...options, requestHeaders }), fix);
  await assert.rejects(new Client(URL_, options).send("orders", 1, { requestHeaders }), fix);
  const free = { ...requestHeaders, "Headgate-Force": "true", traceparent: "00-1" };
  const client = new Client(URL_, { fetch: gateway.fetch, requestHeaders: free });
  assert.equal((await client.send("orders", 1)).name, "published");
});

test("an Idempotency-Key is taken if the gateway takes it", async () => {
  const gateway = new FakeGateway();
  const client = new Client(URL_, { fetch: gateway.fetch });
  for (const idempotencyKey of ["a b", '"a b"', '""', "a".repeat(256), `"${"a".repeat(256)}"`]) {
    await assert.rejects(client.send("orders", 1, { idempotencyKey }), /ASCII characters, without spaces/);
  }
  for (const idempotencyKey of ["a", '"', '"a\\"b"', "a".repeat(255), `"${"a".repeat(255)}"`]) {
    assert.equal((await client.send("orders", 1, { idempotencyKey })).name, "published");
  }
});

test("arguments of a call that are no header text are refused", async () => {
  const gateway = new FakeGateway();
  const client = new Client(URL_, { fetch: gateway.fetch });
  for (const value of [...NO_HEADER_VALUES, "", " ", 5]) {
    const wrong = (named) => (error) => {
      assert.equal(error.name, "InvalidEventError");
      assert(error.message.startsWith(named), error.message);
      return !error.message.includes("SEC");
    };
    const key = { idempotencyKey: value };
    await assert.rejects(client.send("orders", 1, key), wrong("idempotencyKey: "));
    await assert.rejects(client.sendBatch("orders", [1], key), wrong("idempotencyKey: "));
    if (value === "") continue;
    const headers = { requestHeaders: { "X-A": value } };
    await assert.rejects(client.send("orders", 1, headers), wrong("requestHeaders: "));
    await assert.rejects(client.sendBatch("orders", [1], headers), wrong("requestHeaders: "));
  }
  assert.equal(gateway.requests.length, 0);
});

for (const [kind, events] of [
  ["Object", { order_id: 1 }],
  ["Object", { length: 1, 0: "a" }],
  ["String", "text"],
  ["Uint8Array", new Uint8Array([1])],
  ["ArrayBuffer", new ArrayBuffer(1)],
  ["Map", new Map([["a", 1]])],
  ["HeadgateEvent", new HeadgateEvent(1)],
  ["CloudEvent", new CloudEvent({ id: "1", source: "/s", type: "t" })],
  ["Symbol", TOMBSTONE],
  ["null", null],
  ["undefined", undefined],
  ["Number", 5],
]) {
  test(`one event in place of a list is refused with the fix: ${kind}`, async () => {
    const gateway = new FakeGateway();
    const client = new Client(URL_, { fetch: gateway.fetch });
    await assert.rejects(client.sendBatch("orders", events), {
      name: "InvalidEventError",
      message: `events: use a list, not ${kind}; for one event call send() or use [event]`,
    });
    assert.equal(gateway.requests.length, 0);
  });
}

test("an async iterable and topicMessages are refused with the fix", async () => {
  const client = new Client(URL_, { fetch: new FakeGateway().fetch });
  const events = (async function* () {})();
  await assert.rejects(client.sendBatch("orders", events), /not an async iterable; collect .* for await/);
  await assert.rejects(client.sendBatch({ topicMessages: [] }), /sendBatch\(topic, events\) for each/);
});

test("every iterable of events is taken", async () => {
  const client = new Client(URL_, { fetch: new FakeGateway().fetch });
  const more = function* () {
    yield* [1, 2];
  };
  for (const events of [[1, 2], new Set([1, 2]), more()]) {
    assert.equal((await client.sendBatch("orders", events)).length, 2);
  }
});

test("an ordering key is that of the gateway's key rule", async () => {
  // The value with a key in it waits for the event with that key: they are in one lane.
  for (const [named, key] of [["a", "a"], [new Uint8Array([97]), "a"], [12, "12"], [12n, "12"], [true, "true"]]) {
    const gateway = new FakeGateway();
    const client = new Client(URL_, { fetch: gateway.fetch, log: null, limits: { maxEvents: 1 } });
    const producer = new BufferedProducer(client, { orderingKey: () => named });
    const first = producer.send("orders", 1, { key });
    const second = producer.send("orders", 2);
    assert.equal(gateway.requests.length, 0);
    await first;
    assert.equal(gateway.requests.length, 1);
    await second;
    await producer.close();
  }
});

test("an event without an ordering key is taken", async () => {
  for (const named of [null, undefined]) {
    const client = new Client(URL_, { fetch: new FakeGateway().fetch });
    const producer = new BufferedProducer(client, { orderingKey: () => named });
    const pending = producer.send("orders", 1);
    await producer.close();
    assert.equal((await pending).name, "published");
  }
});

test("an ordering key of another kind is refused", async () => {
  const client = new Client(URL_, { fetch: new FakeGateway().fetch });
  for (const named of ["", new Uint8Array(), 1.5, NaN, 2 ** 60, ["a"], { a: 1 }, "\ud800"]) {
    const producer = new BufferedProducer(client, { orderingKey: () => named });
    const wrong = { name: "InvalidEventError", message: /^orderingKey: / };
    assert.throws(() => producer.send("orders", 1), wrong);
    await assert.rejects(producer.sendWhenRoom("orders", 1), wrong);
    assert.equal(producer.events, 0);
    await producer.close();
  }
  const producer = new BufferedProducer(client, { orderingKey: (_, value) => value.order.id });
  assert.throws(() => producer.send("orders", {}), /orderingKey: the function threw TypeError/);
  await producer.close();
  const wrong = { name: "InvalidOptionError", message: /orderingKey: use a function/ };
  assert.throws(() => new BufferedProducer(client, { orderingKey: "order_id" }), wrong);
});

for (const [url, text] of [
  [null, "give the URL of a gateway, such as http://127.0.0.1:8080, not null"],
  [undefined, "not undefined"],
  [5, "not 5"],
  [{}, "not an object of options"],
  [[null], "not null"],
  [new Map(), "such as http://127.0.0.1:8080"],
  ["http://x/v1/topics", "leave out /v1/topics: the client adds it"],
  ["http://x/v1/topics/", "leave out /v1/topics: the client adds it"],
  ["http://x/v1/topics/orders/events", "leave out /v1/topics/orders/events"],
  ["http://x?a=1", "leave out ?a=1"],
  ["http://x/#a", "leave out #a"],
  ["http://user:SECRET@x", "user or password"],
  ["http://user:SECRET@[x", "***@[x"],
  ["ftp://user:SECRET@x", "http://host:port"],
]) {
  test(`a URL that cannot be meant is refused: ${text}`, () => {
    assert.throws(() => new Client(url), (error) => {
      assert.equal(error.name, "InvalidOptionError");
      assert(error.message.startsWith("url: "));
      assert(error.message.includes(text), error.message);
      return !error.message.includes("SECRET");
    });
  });
}

test("URL objects are taken, and a gateway behind a path", async () => {
  for (const [url, path] of [
    [new URL("http://headgate.test/"), "/"],
    [" http://headgate.test/\n", "/"],
    [[new URL("http://headgate.test"), "http://other.test"], "/"],
    ["http://headgate.test/kafka/", "/kafka/"],
  ]) {
    const asked = [];
    const gateway = new FakeGateway();
    const fetch = (address, init) => {
      asked.push(address);
      return gateway.fetch(address, init);
    };
    await new Client(url, { fetch, retry: ONCE, log: null }).send("orders", 1);
    assert.deepEqual(asked, [`http://headgate.test${path}v1/topics/orders/events`]);
  }
});

test("a refused connection is called unreachable with its URL", async () => {
  const lines = { warn: [], error: [] };
  const log = { warn: (line) => lines.warn.push(line), error: (line) => lines.error.push(line) };
  const fetch = async () => {
    throw new TypeError("fetch failed", { cause: Object.assign(Error("no"), { code: "ECONNREFUSED" }) });
  };
  const retry = { firstWaitMs: 2, patienceMs: 20 };
  const client = new Client(`${URL_}/`, { fetch, retry, log });
  const outcome = await client.send("orders", 1);
  const detail = `${URL_}: TypeError: fetch failed (ECONNREFUSED); check that the gateway runs, and that this is its data port`;
  assert.deepEqual(
    [outcome.name, outcome.reason, outcome.retryable, outcome.detail],
    ["rejected", "unreachable", true, detail],
  );
  const begin = `headgate: orders: 1 event, attempt 1 failed: unreachable (${detail}); more failed `;
  assert(lines.warn.length === 1 && lines.warn[0].startsWith(begin), lines.warn.join());
  assert.deepEqual(lines.error, [`headgate: orders: 1 event rejected: unreachable (${detail})`]);
});

for (const [options, text] of [
  [{ timeoutMs: "3000" }, 'timeoutMs: use a number, 1 to 3600000, not the string "3000": leave out the quotes'],
  [{ timeoutMs: null }, "timeoutMs: use a number, 1 to 3600000, not null"],
  [{ timeoutMs: 0 }, "timeoutMs: use 1 to 3600000, not 0"],
  [{ idempotency: "no" }, "idempotency: use true or false, not string"],
  [{ eventIds: 1 }, "eventIds: use true or false, not 1"],
  [{ stringify: "json" }, "stringify: use a function such as JSON.stringify, not string"],
  [{ fetch: "fetch" }, "fetch: use a function such as fetch, not string"],
  [{ observer: () => {} }, "observer: use an object with onAttempt or onOutcomes, not function"],
  [{ log: true }, "log: use null or an object with warn and error, not boolean"],
  [{ token: "Bearer S3cret" }, "token: leave out the word Bearer; the client adds it"],
  [{ retry: 3 }, "retry: use an object of options such as { patienceMs: ... }, not 3"],
  [{ retry: { patienceMs: "3" } }, 'retry.patienceMs: use a number, 0 to 82800000, not the string "3"'],
  [{ retry: { repeatUnknown: "no" } }, "retry.repeatUnknown: use true or false, not string"],
  [{ limits: { maxEvents: 1.5 } }, "limits.maxEvents: use a whole number, 1 or more, not 1.5"],
  [{ patienceMs: 1 }, "Use new Client(url, { retry: { patienceMs } })."],
  [{ lingerMs: 1 }, "Use new BufferedProducer(client, { buffering: { lingerMs } })."],
  [{ brokers: [] }, "The first argument is the URL of the gateway"],
  [{ acks: 1 }, "The gateway always waits for all in-sync replicas."],
  ["me", "Client: use an object of options such as { producer: ... }, not string"],
]) {
  test(`an option of another type or place is refused: ${text}`, () => {
    assert.throws(() => new Client(URL_, options), (error) => {
      assert.equal(error.name, "InvalidOptionError");
      assert(error.message.includes(text), error.message);
      return !error.message.includes("S3cret");
    });
  });
}

test("the options of a producer and of a call are checked too", async () => {
  const client = new Client(URL_, { fetch: new FakeGateway().fetch });
  for (const [options, text] of [
    [{ buffering: { lingerMs: "1" } }, /buffering.lingerMs: use a number/],
    [{ buffering: { onePerKey: 1 } }, /buffering.onePerKey: use true or false, not 1/],
    [{ flushWhenHidden: "no" }, /flushWhenHidden: use true or false/],
  ]) {
    assert.throws(() => new BufferedProducer(client, options), text);
  }
  const producer = new BufferedProducer(client);
  const quoted = { timeoutMs: "30" };
  for (const call of [
    () => producer.flush(quoted),
    () => producer.close(quoted),
    () => producer.sendWhenRoom("orders", 1, quoted),
  ]) {
    await assert.rejects(call(), /timeoutMs: use a number of milliseconds, not the string "30"/);
  }
  assert((await producer.send("orders", 1)).succeeded);
  await producer.close();
  assert.throws(() => new BufferedProducer(URL_), /client: use new Client\(url\), not a string/);
  await assert.rejects(client.send("orders", 1, "key"), /send: use an object .* { key: ... }/);
  await assert.rejects(client.send("orders", 1, { partition: 1 }), /chooses it by the key: use key/);
  await assert.rejects(client.send({}, 1), /topic: it is an object; use send\(topic, value\)/);
});

test("null, a Map and a Set are refused as values", async () => {
  const client = new Client(URL_, { fetch: new FakeGateway().fetch });
  const fix = /^(?:events.0.: )?value: null could .* TOMBSTONE to delete the key, or new RawJson\("null"\)/;
  for (const event of [null, new HeadgateEvent(null, { key: "k" })]) {
    const wrong = { name: "InvalidEventError", message: fix };
    await assert.rejects(client.send("orders", event), wrong);
    await assert.rejects(client.sendBatch("orders", [event]), wrong);
  }
  assert((await client.send("orders", new RawJson("null"))).succeeded);
  for (const value of [new Map([["a", 1]]), { deep: [new Map()] }]) {
    await assert.rejects(client.send("orders", value), /JSON has no Map.*Object.fromEntries\(map\)/);
  }
  await assert.rejects(client.send("orders", new Set([1])), /JSON has no Set.*\[...set\]/);
  assert((await client.send("orders", { at: new Date(), empty: {} })).succeeded);
});

test("a mistake in a token function ends the event at once", async () => {
  for (const [token, text] of [
    [() => undefined, "token: the function returned nothing; return the token as a string"],
    [async () => null, "token: the function returned nothing"],
    [() => 5, "token: the function returned number"],
    [() => "Bearer S3cret", "token: leave out the word Bearer"],
    [() => undefined.token, "token: the function threw TypeError"],
  ]) {
    const client = new Client(URL_, { fetch: new FakeGateway().fetch, token, log: null });
    const { reason, retryable, detail } = await client.send("orders", 1);
    assert.deepEqual([reason, retryable], ["not_sent", false]);
    assert(detail.includes(text), detail);
  }
});

test("an error of the program is not retried as a fault of the network", async () => {
  let attempts = 0;
  const fetch = async () => {
    attempts += 1;
    return undefined.status;
  };
  const outcome = await new Client(URL_, { fetch, log: null }).send("orders", 1);
  assert.equal(attempts, 1);
  assert.deepEqual([outcome.name, outcome.isWritten], ["unknown", null]);
  assert.match(outcome.detail, /TypeError: Cannot read .*; this is an error of the program/);
});

/** Return a client of a gateway in memory, and the lines of its log. */
function logged(options) {
  const lines = [];
  const log = { warn: (line) => lines.push(line), error: (line) => lines.push(line) };
  const gateway = new FakeGateway();
  return { gateway, lines, client: new Client(URL_, { fetch: gateway.fetch, log, ...options }) };
}

test("a batch names the event that is wrong", async () => {
  const { client, gateway } = logged();
  const wrong = client.sendBatch("orders", [1, 2, new HeadgateEvent(3, { key: 4 })]);
  await assert.rejects(wrong, /^InvalidEventError: events\[2\]: key: use a string or bytes/);
  assert.equal(gateway.requests.length, 0);
});

test("a record of KafkaJS is sent as it is, with one warning", async () => {
  const { client, lines } = logged();
  const record = { key: "a", value: "b" };
  await client.sendBatch("orders", [1, { value: 1 }, { value: 1, total: 2 }, record, record]);
  assert.equal(lines.length, 1);
  assert.match(lines[0], /^headgate: orders: events\[3\] has a member "value".*HeadgateEvent\(value/);
});

test("the failure in the log names its event", async () => {
  const { client, gateway, lines } = logged();
  gateway.next(new FailEvents("schema_violation", { which: (record, place) => place > 0 }));
  const last = [new HeadgateEvent(2, { key: "a", id: "i" }), new HeadgateEvent(3, { key: "b" })];
  await client.sendBatch("orders", [1, ...last]);
  gateway.next(new FailEvents("forbidden"));
  await client.send("orders", 2, { key: new Uint8Array([0xff]) });
  const text = "(as the test wants it)";
  assert.deepEqual(lines, [
    `headgate: orders: 2 events rejected: schema_violation ${text}; first: events[1], key a, id i`,
    `headgate: orders: 1 event rejected: forbidden ${text}; key ff`,
  ]);
});

test("the detail of an event that the signal ended says so", async () => {
  const { client, gateway } = logged({ retry: { firstWaitMs: 60_000, longestWaitMs: 60_000 } });
  gateway.next(new Refuse("overloaded"));
  const abort = new AbortController();
  setTimeout(() => abort.abort(new Error("the caller left")), 20);
  const outcome = await client.send("orders", 1, { signal: abort.signal });
  assert.match(outcome.detail, /as the test wants it; the signal was aborted \(the caller left\)$/);
});

test("a full buffer names its limit", async () => {
  const { client } = logged();
  const few = new BufferedProducer(client, { buffering: { maxEvents: 1 } });
  const small = new BufferedProducer(client, { buffering: { maxBytes: 2000 } });
  for (const [producer, limit] of [[few, "maxEvents = 1"], [small, "maxBytes = 2000, 1200 for each event"]]) {
    void producer.send("orders", 1);
    assert.throws(() => producer.send("orders", 1), (error) => error.message.includes(`(${limit} of buffering)`));
    await producer.close();
  }
});

test("options of the client are not those of a producer", async () => {
  const { client } = logged();
  const producer = new BufferedProducer(client);
  assert.throws(() => producer.send("orders", 1, { idempotencyKey: "k" }), /Use client.send/);
  assert.throws(() => producer.send("orders", 1, { requestHeaders: {} }), /Use new Client\(url, { requestH/);
  await producer.close();
  const short = () => new Client(URL_, { retry: { firstWaitMs: 2, longestWaitMs: 1 } });
  assert.throws(short, /retry.longestWaitMs: use firstWaitMs \(2\) or more, not 1/);
});

test("an answer without a token or a key names the option", async () => {
  for (const [reason, detail, fix] of [
    ["unauthenticated", "this gateway wants `Authorization: Bearer <token>`", /the option token\)$/],
    ["missing_key", "no key: send Headgate-Key", /^no key; send the event with { key }$/],
    [
      "missing_key",
      "no key at '/id'. The header Headgate-Key can also give the key",
      /^no key at '\/id'; send the event with { key }$/,
    ],
  ]) {
    const answer = JSON.stringify({ reason, detail, retryable: false });
    const { client } = logged({ fetch: async () => new Response(answer, { status: 401 }) });
    assert.match((await client.send("orders", 1)).detail, fix);
  }
});

for (const [name, ofClient, ofProducer] of [
  ["connect", /not needed: the client connects/, /not needed: the client connects/],
  ["disconnect", /use close\(\)/, /use close\(\)/],
  ["produce", /use send\(topic, value, { key }\)/, /use send\(topic, value, { key }\)/],
  ["poll", /use new BufferedProducer\(client\)/, /not needed: promises/],
  ["transaction", /there are no transactions/, /there are no transactions/],
]) {
  test(`a method of another library names the right one: ${name}`, async () => {
    const { client } = logged();
    const producer = new BufferedProducer(client);
    for (const [owner, kind, fix] of [
      [client, "Client", ofClient],
      [producer, "BufferedProducer", ofProducer],
    ]) {
      assert.throws(() => owner[name](), (error) => {
        assert(error instanceof TypeError && error.message.startsWith(`${kind} has no ${name}(): `));
        return fix.test(error.message);
      });
      assert(!Object.keys(owner).includes(name));
    }
    assert.throws(() => client.flush(), /Client has no flush\(\): .*new BufferedProducer/);
    assert.throws(() => client.producer(), /use new BufferedProducer\(client\)/);
    assert.throws(() => producer.sendBatch(), /use send for each event/);
    await producer.close();
  });
}

test("a call of KafkaJS names the call of this library", async () => {
  const { client } = logged();
  const producer = new BufferedProducer(client);
  const record = { topic: "orders", messages: [{ key: "a", value: "b" }] };
  const fix = /topic: it is an object of KafkaJS; use send\(topic, value, { key }\) for each message/;
  await assert.rejects(client.send(record), fix);
  await assert.rejects(client.sendBatch(record, []), fix);
  assert.throws(() => producer.send(record), fix);
  await producer.close();
});

test("options in the place of the URL are refused with the fix", () => {
  for (const options of [{ brokers: ["b:9092"] }, { clientId: "shop", sasl: { password: "SECRET" } }]) {
    assert.throws(() => new Client(options), (error) => {
      assert.match(error.message, /^url: give the URL of a gateway, such as http:.*, not an object of op/);
      return !error.message.includes("SECRET");
    });
  }
});

test("options of KafkaJS name the place", () => {
  for (const [name, fix] of [
    ["sasl", /Use token: the gateway has/],
    ["ssl", /Use an https URL/],
    ["idempotent", /Did you mean 'idempotency'/],
    ["transactionalId", /There are no transactions/],
  ]) {
    assert.throws(() => new Client(URL_, { [name]: true }), fix);
  }
});

test("a value that JSON does not have names the fix", async () => {
  const { client } = logged();
  for (const value of [12n, { id: 12n }]) {
    await assert.rejects(client.send("orders", value), /BigInt\); use String\(number\), new RawJson/);
  }
  const circle = {};
  circle.own = circle;
  await assert.rejects(client.send("orders", circle), /JSON\); a value must not contain itself/);
});

test("a host that is unknown names the fix, and the gateway in memory its fetch", async () => {
  const fetch = () => {
    const cause = Object.assign(new Error("getaddrinfo ENOTFOUND"), { code: "ENOTFOUND" });
    return Promise.reject(new TypeError("fetch failed", { cause }));
  };
  const send = async (url, options) => {
    const client = new Client(url, { log: null, retry: ONCE, ...options });
    return (await client.send("orders", 1)).detail;
  };
  const memory = /URL of a FakeGateway: give the client { fetch: gateway.fetch }/;
  const other = await send("http://gateway.example", { fetch });
  assert.match(other, /check the host name, and that this machine or container resolves it/);
  assert.doesNotMatch(other, memory);
  const real = globalThis.fetch;
  globalThis.fetch = fetch;
  try {
    const detail = await send(URL_);
    assert.match(detail, memory);
    assert.doesNotMatch(detail, /check the host name/);
  } finally {
    globalThis.fetch = real;
  }
});

test("the User-Agent names the library, unless the program has one", async () => {
  const agents = [];
  for (const requestHeaders of [{}, { "user-agent": "shop/1" }]) {
    const { client, gateway } = logged({ requestHeaders });
    await client.send("orders", 1);
    agents.push(gateway.requests[0].headers.get("User-Agent"));
  }
  assert.deepEqual(agents, [`headgate-client-js/${VERSION}`, "shop/1"]);
});
