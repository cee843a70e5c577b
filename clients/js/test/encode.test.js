/** Events as bytes: what is on the wire, and what is refused before that. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { bodyOf, checkTopic, encodeAlone, encodePart } from "../src/core/encode.js";
import { uuid7 } from "../src/core/ids.js";
import { CloudEvent, HeadgateEvent, RawJson, TOMBSTONE } from "../src/index.js";

const text = (bytes) => new TextDecoder().decode(bytes);
const part = (event) => encodePart(event, JSON.stringify, null);
const member = (event) => JSON.parse(text(part(event).text));
const alone = (event) => encodeAlone(event, JSON.stringify, null);

test("a value that is sent by itself is the body", () => {
  const found = alone({ a: "ü" });
  assert.equal(text(found.text), '{"a":"ü"}');
  assert.deepEqual(found.headers, [["Content-Type", "application/json"]]);
});

test("an array that is sent by itself is one event", () => {
  assert.deepEqual(alone(new RawJson(" [1]")).headers[1], ["Headgate-Batch", "false"]);
});

test("headers carry key, id, timestamp and record headers", () => {
  const event = new HeadgateEvent(1, { key: "ключ 'é'*", id: "e-1", timestamp: 17, headers: { author: "Ada", traceparent: "00-1-2-01" } });
  assert.deepEqual(alone(event).headers, [
    ["traceparent", "00-1-2-01"],
    ["Content-Type", "application/json"],
    ["Headgate-Key*", "UTF-8''%D0%BA%D0%BB%D1%8E%D1%87%20%27%C3%A9%27%2A"],
    ["Headgate-Event-Id", "e-1"],
    ["Headgate-Timestamp", "17"],
    ["Headgate-Header-author", "Ada"],
  ]);
});

for (const [what, event] of [
  ["a value beyond ASCII", { value: 1, headers: { author: "Zoë" } }],
  ["a line break", { value: 1, headers: { author: "a\nb" } }],
  ["a key of bytes", { value: 1, key: new Uint8Array([0xff]) }],
  ["an id with spaces around", { value: 1, id: " x " }],
  ["a content type of JSON", { value: 1, contentType: "application/x+json" }],
  ["two headers that differ in case", { value: 1, headers: { A: "1", a: "2" } }],
  ["a header's name with a capital, which HTTP does not keep", { value: 1, headers: { Author: "Ada" } }],
]) {
  test(`what headers cannot carry goes into an envelope: ${what}`, () => {
    const { value, ...fields } = event;
    assert.equal(alone(new HeadgateEvent(value, fields)).form, "envelope");
  });
}

test("the envelope has everything that an event has", () => {
  const fields = { key: "k", id: "i", timestamp: 5, headers: { a: "b" } };
  assert.deepEqual(member(new HeadgateEvent([1], fields)), {
    value: [1],
    key: "k",
    id: "i",
    timestamp_ms: 5,
    headers: { a: "b" },
  });
  assert.deepEqual(member(new HeadgateEvent(TOMBSTONE, { key: new Uint8Array([255]) })), {
    key_base64: "/w==",
    tombstone: true,
  });
  assert.deepEqual(member(new Uint8Array([1, 2])), {
    value_base64: "AQI=",
    headers: { "content-type": "application/octet-stream" },
  });
});

test("the trace context is a header of the request, in an envelope, too", () => {
  const headers = { Author: "Ada", TraceParent: "00-1-2-01", tracestate: "" };
  const event = new HeadgateEvent(1, { headers });
  assert.deepEqual(JSON.parse(text(alone(event).text)).headers, { Author: "Ada" });
  assert.deepEqual(bodyOf([alone(event)]).headers.at(-1), ["traceparent", "00-1-2-01"]);
});

test("bytes are copied, so that they may change while they wait", () => {
  const value = new Uint8Array([1]);
  const { text: kept } = alone(value);
  value[0] = 2;
  assert.deepEqual(kept, new Uint8Array([1]));
});

test("a key of bytes that are UTF-8 is in the lane of its text", () => {
  const bytes = new TextEncoder().encode("ключ");
  const [one, other] = [bytes, "ключ"].map((key) => part(new HeadgateEvent(1, { key })));
  assert.equal(one.lane, other.lane);
  const binary = part(new HeadgateEvent(1, { key: new Uint8Array([0xff, 0xfe]) }));
  assert.notEqual(binary.lane, part(new HeadgateEvent(1, { key: "//4=" })).lane);
});

test("ready JSON stands as it is", () => {
  const { text: found } = part(new RawJson('{"total": 35.50}'));
  assert.equal(text(found), '{"value":{"total": 35.50}}');
});

test("a CloudEvent goes structured; its key is partitionkey, then subject", () => {
  const event = new CloudEvent({ id: "1", source: "/s", type: "t", subject: "x", data: { a: 1 } });
  const found = part(event);
  assert.equal(
    text(bodyOf([found, found]).content.subarray(0, 91)),
    '[{"specversion":"1.0","id":"1","source":"/s","type":"t","subject":"x","data":{"a":1}},{"spe',
  );
  assert.equal(found.key, "x");
  const keyed = { id: "1", source: "/s", type: "t", subject: "x", partitionkey: "p" };
  assert.equal(part(new CloudEvent(keyed)).key, "p");
  const bytes = new CloudEvent({ id: "1", source: "/s", type: "t", data: new Uint8Array([1]) });
  const octets = { datacontenttype: "application/octet-stream", data_base64: "AQ==" };
  assert.deepEqual(member(bytes), { specversion: "1.0", ...bytes.attributes, ...octets });
  const base64 = { id: "1", source: "/s", type: "t", data_base64: "AQ==" };
  assert.deepEqual(member(new CloudEvent(base64)), member(bytes));
  const image = { id: "1", source: "/s", type: "t", datacontenttype: "image/png" };
  const typed = new CloudEvent({ ...image, data: new Uint8Array([1]) });
  assert.equal(member(typed).datacontenttype, "image/png");
});

const cloud = (more) => () => part(new CloudEvent({ id: "1", source: "/s", type: "t", ...more }));
for (const [what, wrong, words] of [
  ["undefined", () => part(undefined), /undefined is not JSON; check that the value is set$/],
  ["a function", () => part(() => 1), /function is not JSON; use an object, a text or a number$/],
  ["an error", () => part({ error: new Error("e") }), /JSON has no Error.*error.message/],
  ["an event of the platform", () => part(new Event("click")), /JSON has no Event/],
  ["headers as value", () => part(new Headers({ a: "b" })), /JSON has no Headers.*fromEntries/],
  ["an object as RawJson", () => new RawJson({ a: 1 }), /RawJson: use JSON text or its bytes/],
  ["a bigint", () => part(1n), /BigInt/],
  ["a lone surrogate as key", () => part(new HeadgateEvent(1, { key: "\ud800" })), /lone/],
  ["an empty key", () => part(new HeadgateEvent(1, { key: "" })), /leave it out/],
  ["a number as key", () => part(new HeadgateEvent(1, { key: 7 })), /String\(key\)/],
  ["an empty id", () => part(new HeadgateEvent(1, { id: "" })), /id: use a string/],
  ["a long id", () => part(new HeadgateEvent(1, { id: "é".repeat(129) })), /256 bytes/],
  ["a header of ours", () => part(new HeadgateEvent(1, { headers: { "hg-a": "" } })), /reserves/],
  ["a trace context in a batch", () => part(new HeadgateEvent(1, { headers: { traceparent: "00" } })), /traceparent: .* use send/],
  ["a trace context that HTTP cannot carry", () => alone(new HeadgateEvent(1, { headers: { traceparent: "é" } })), /visible ASCII/],
  ["headers of fetch", () => part(new HeadgateEvent(1, { headers: new Headers({ a: "b" }) })), /Object.fromEntries/],
  ["headers that are a list", () => alone(new HeadgateEvent(1, { headers: [["a", "b"]] })), /object of strings/],
  ["a number as id", () => alone(new HeadgateEvent(1, { id: 5 })), /String\(id\)/],
  ["a promise", () => alone({ total: Promise.resolve({ a: 1 }) }), /await/],
  ["a header's name", () => part(new HeadgateEvent(1, { headers: { "a b": "" } })), /name/],
  ["a header's value", () => part(new HeadgateEvent(1, { headers: { a: 1 } })), /must be a string/],
  ["a date as timestamp", () => part(new HeadgateEvent(1, { timestamp: 1.5 })), /whole/],
  ["a member that is none", () => new HeadgateEvent(1, { timestampMs: 1 }), /unknown option .timestampMs.. Did you mean .timestamp./],
  ["text that is no JSON", () => new RawJson("{},{}"), /not a JSON document/],
  ["bytes that are no JSON", () => new RawJson(new Uint8Array([0xff])), /not a JSON document/],
  ["a CloudEvent without type", cloud({ type: "" }), /type missing/],
  ["a CloudEvent of old", cloud({ specversion: "0.3" }), /not 1.0/],
  ["a CloudEvent's extension", cloud({ "trace-id": "x" }), /trace-id/],
  ["a topic", () => checkTopic("a/b"), /topic "a\/b"/],
  ["two dots as topic", () => checkTopic(".."), /topic/],
]) {
  test(`refused before anything is sent: ${what}`, () => {
    assert.throws(wrong, (error) => {
      assert.match(error.name, /^Invalid(?:Event|Option)Error$/);
      assert.match(error.message, words);
      return true;
    });
  });
}

test("ids are UUIDs of version 7", () => {
  const id = uuid7(0x017f22e279b0, new Uint8Array(10).fill(0xff));
  assert.equal(id, "017f22e2-79b0-7fff-bfff-ffffffffffff");
});
