/** Answers, of a gateway and of whatever else may stand in its place. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { readAnswer, retryAfter } from "../src/core/answer.js";
import { Delivery } from "../src/core/delivery.js";
import { encodePart } from "../src/core/encode.js";
import { HeadgateEvent, Held, Published, Rejected, Unknown } from "../src/index.js";
import { limitsOf, retryOf } from "../src/settings.js";

const NOW_MS = Date.parse("2026-01-02T03:04:05Z");

function read(body, { expected = 1, status = 200, headers = {} } = {}) {
  const text = typeof body === "string" ? body : JSON.stringify(body);
  const header = (name) => headers[name] ?? null;
  return readAnswer("orders", expected, { status, body: text, header }, NOW_MS);
}

test("a published event has its place", () => {
  const { outcomes } = read({ outcome: "published", partition: 4, offset: 17, key: "a", records: 1 });
  assert(outcomes[0] instanceof Published);
  assert.deepEqual([outcomes[0].partition, outcomes[0].offset, outcomes[0].isWritten], [4, 17, true]);
  assert.equal(outcomes[0].throwIfFailed(), outcomes[0]);
});

test("a held event has no place yet", () => {
  const { outcomes } = read({ outcome: "held", partition: null, offset: null });
  assert(outcomes[0] instanceof Held);
  assert.equal(outcomes[0].isWritten, false);
});

test("keys that are no text come as bytes", () => {
  const { outcomes } = read({ outcome: "published", key_base64: "/w==" });
  assert.deepEqual(outcomes[0].key, new Uint8Array([255]));
});

test("the failures of a batch are outcomes", () => {
  const { outcomes } = read(
    {
      outcomes: [
        { outcome: "rejected", reason: "overloaded", status: 503, retryable: true, detail: "full" },
        { outcome: "unknown", reason: "unknown", status: 504, retryable: true, detail: "late" },
      ],
    },
    { expected: 2, status: 207 },
  );
  assert(outcomes[0] instanceof Rejected && outcomes[0].retryable);
  assert(outcomes[1] instanceof Unknown && outcomes[1].isWritten === null);
  assert.throws(() => outcomes[0].throwIfFailed(), { name: "RejectedError" });
  assert.throws(() => outcomes[1].throwIfFailed(), { name: "UnknownOutcomeError" });
});

for (const fields of [{ outcome: "parked" }, { outcome: "parked", reason: "full" }, {}]) {
  test(`an outcome of a newer gateway may be written: ${JSON.stringify(fields)}`, () => {
    const end = { partition: 1, offset: 7, key: "a", event_id: "e", retryable: true, ...fields };
    const parts = [1, 2].map((value) => {
      return encodePart(new HeadgateEvent(value, { key: "a" }), JSON.stringify, null);
    });
    const chances = { share: () => 0, newKey: () => "k" };
    const delivery = new Delivery("orders", parts, { retry: retryOf(), limits: limitsOf(), chances }, 9e9);
    delivery.post();
    const step = delivery.answered(read({ outcomes: [end, end] }, { expected: 2 }), 0);
    assert.equal(step.waitMs, null); // without Redis, a repeat would be a second record
    for (const found of delivery.outcomes) {
      assert(found instanceof Unknown);
      assert.deepEqual([found.reason, found.key, found.eventId], ["bad_answer", "a", "e"]);
      assert.match(found.detail, /does not know the outcome/);
    }
    if ("outcome" in fields) assert(read(end).outcomes[0] instanceof Unknown);
  });
}

const TOO_LARGE = {
  size_bytes: 2_000_000,
  limit_bytes: 1_000_000,
  largest_paths: [{ path: "/photos/0", bytes: 1_900_000 }],
};
const VIOLATION = { path: "/total", schema_path: "/type", detail: "a text" };
const headers = { "x-request-id": "request-1" };

for (const [form, expected] of [
  ["alone", 1],
  ["batch", 1],
  ["request", 2],
]) {
  test(`a rejected event has the figures of the answer: ${form}`, () => {
    const end = (document) => {
      const failure = { outcome: "rejected", reason: "too_large", detail: "why", ...document };
      const { outcome: _, ...problem } = failure;
      const body = { alone: failure, batch: { outcomes: [failure] }, request: problem }[form];
      const part = encodePart(new HeadgateEvent(1), JSON.stringify, null);
      const chances = { share: () => 1, newKey: null };
      const rules = { retry: retryOf({ patienceMs: 0 }), limits: limitsOf(), chances };
      const delivery = new Delivery("orders", [part], rules, 0);
      delivery.post();
      delivery.answered(read(body, { status: 413, expected, headers }), 0);
      return delivery.outcomes[0];
    };
    const large = end(TOO_LARGE);
    assert(large instanceof Rejected);
    assert.deepEqual(
      [large.sizeBytes, large.limitBytes, large.largestPaths, large.violations, large.requestId],
      [2_000_000, 1_000_000, TOO_LARGE.largest_paths, [], "request-1"],
    );
    const { violations } = end({ violations: [VIOLATION] });
    assert.deepEqual(violations, [{ path: "/total", schemaPath: "/type", detail: "a text" }]);
    const { key } = end({ key: "12" });
    assert.equal(key, expected === 1 ? "12" : null);
    const bare = end({});
    assert.deepEqual([bare.sizeBytes, bare.limitBytes, bare.largestPaths], [null, null, []]);
  });
}

test("an answer of no gateway has the id that there is", () => {
  assert.equal(read("<html>", { status: 400, headers }).figures.requestId, "request-1");
  assert.equal(read("<html>", { status: 503, headers }).requestId, "request-1");
});

test("a problem is of the whole request", () => {
  const problem = { reason: "overloaded", detail: "full", status: 503, retryable: true };
  const answer = read(problem, { status: 503, expected: 3, headers: { "retry-after": "2" } });
  assert.equal(answer.kind, "refused");
  assert.deepEqual([answer.reason, answer.retryable, answer.retryAfterMs], ["overloaded", true, 2000]);
});

test("504 unknown of a request leaves its events in doubt", () => {
  const answer = read({ reason: "unknown", detail: "late", retryable: true }, { status: 504 });
  assert.deepEqual([answer.kind, answer.reason, answer.wasSent], ["lost", "unknown", true]);
});

for (const [status, body, kind, retryable] of [
  [502, "<html>", "lost", undefined],
  [200, "hello", "lost", undefined],
  [200, "{}", "lost", undefined],
  [404, "<html>", "refused", false],
  [429, "slow down", "refused", true],
  [301, "", "refused", false],
]) {
  test(`${status} ${body} of something that is no gateway`, () => {
    const answer = read(body, { status });
    assert.deepEqual([answer.kind, answer.retryable], [kind, retryable]);
  });
}

test("too few outcomes say nothing of any", () => {
  assert.equal(read({ outcomes: [{ outcome: "published" }] }, { expected: 2 }).kind, "lost");
});

for (const [value, ms] of [
  [null, 0],
  ["3", 3000],
  ["Fri, 02 Jan 2026 03:04:15 GMT", 10_000],
  ["Fri, 02 Jan 2026 03:04:00 GMT", 0],
  ["soon", 0],
  ["-1", 0],
]) {
  test(`Retry-After: ${value}`, () => assert.equal(retryAfter(value, NOW_MS), ms));
}
