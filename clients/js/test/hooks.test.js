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
  reports.attempt(attempt, true);
  reports.attempt(attempt, false); // its outcome is logged instead
  reports.outcomes([new Rejected({ topic: "deals", reason: "bad_answer", detail, retryable: false })]);
  assert.deepEqual(lines.length, 2);
  for (const line of lines) {
    assert.doesNotMatch(line, /[\p{Cc}\p{Cf}]/u);
    assert.match(line, /a\\u\{1b\}\[31m\\u\{a\}b\\u\{202e\}\\u\{9b\}/);
  }
});
