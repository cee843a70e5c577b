/** The client logs text that a terminal can show. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { Reports } from "../src/hooks.js";
import { Rejected } from "../src/outcomes.js";

test("control characters do not reach the log", () => {
  /** @type {string[]} */
  const lines = [];
  const take = (/** @type {string} */ line) => void lines.push(line);
  const reports = new Reports({}, { warn: take, error: take });
  const detail = "a\u001b[31m\nb\u202e\u009b";
  const attempt = {
    topic: "deals",
    events: 1,
    contentBytes: 1,
    number: 1,
    durationMs: 1,
    result: "bad_answer",
    detail,
    status: null,
    requestId: null,
    isBypassed: false,
  };
  reports.attempt(attempt, true, 0);
  reports.attempt(attempt, false, 1); // its outcome is logged instead
  reports.outcomes([new Rejected({ topic: "deals", reason: "bad_answer", detail, retryable: false })]);
  assert.deepEqual(lines.length, 2);
  for (const line of lines) {
    assert.doesNotMatch(line, /[\p{Cc}\p{Cf}]/u);
    assert.match(line, /a\\u\{1b\}\[31m\\u\{a\}b\\u\{202e\}\\u\{9b\}/);
  }
});

test("an outage of a topic is two lines, however many attempts fail", () => {
  /** @type {string[]} */
  const lines = [];
  /** @type {number[]} */
  const numbers = [];
  const take = (/** @type {string} */ line) => void lines.push(line);
  const observer = { onAttempt: (/** @type {{number: number}} */ { number }) => void numbers.push(number) };
  const reports = new Reports(observer, { warn: take, error: take });
  const usual = { events: 2, contentBytes: 1, durationMs: 500, status: null, requestId: null };
  const common = { ...usual, isBypassed: false };
  const failed = { ...common, result: "unreachable", detail: "why" };
  const ended = { ...common, result: "ended", detail: "", status: 200 };
  for (const topic of ["orders", "deals"]) reports.attempt({ ...ended, topic, number: 1 }, false, 0);
  for (const number of [1, 2, 3]) {
    reports.attempt({ ...failed, topic: "orders", number }, true, 1000 * number);
    reports.attempt({ ...ended, topic: "deals", number: 1 }, false, 1000 * number);
  }
  reports.attempt({ ...failed, topic: "orders", number: 4 }, false, 4000); // an outcome, no answer
  reports.attempt({ ...ended, topic: "orders", number: 5 }, false, 5500);
  reports.attempt({ ...ended, topic: "orders", number: 1 }, false, 6000);
  assert.deepEqual(lines, [
    "headgate: orders: 2 events, attempt 1 failed: unreachable (why); " +
      "more failed attempts are logged at the end of the outage",
    "headgate: orders: the outage ended after 5.0 s and 3 failed attempts",
  ]);
  assert.deepEqual(numbers, [1, 1, 1, 1, 2, 1, 3, 1, 4, 5, 1]);
});
