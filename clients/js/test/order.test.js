/** What is done about states that ended in the wrong order. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { lost } from "../src/core/answer.js";
import { Delivery } from "../src/core/delivery.js";
import { encodePart } from "../src/core/encode.js";
import { HeadgateEvent } from "../src/events.js";
import { Duplicate, Published, Rejected, Unknown } from "../src/outcomes.js";
import { limitsOf, retryOf } from "../src/settings.js";

const at = (offset, key = "a") => ({ topic: "t", key, partition: 0, offset });
const written = (offset, key) => new Published(at(offset, key));
const done = (offset, key) => new Duplicate(at(offset, key));
const failed = (key = "a") =>
  new Rejected({ topic: "t", key, reason: "kafka_unavailable", detail: "why", retryable: true });
const unknown = (key = "a") => new Unknown({ topic: "t", key, reason: "unknown", detail: "why" });
const ended = (...outcomes) => ({ kind: "ended", outcomes, bypassed: false, retryAfterMs: 0 });

/** A delivery, and what it posted. */
class Try {
  posts = [];
  nowMs = 0;

  constructor(keys, { ownKey = null, patienceMs = 60_000 } = {}) {
    const parts = [...keys].map((key, n) =>
      encodePart(new HeadgateEvent(n, { key }), JSON.stringify, null),
    );
    const retry = retryOf({ overtaken: "leave_out", patienceMs });
    const chances = { share: () => 1, newKey: () => `key-${this.posts.length + 1}` };
    const rules = { retry, limits: limitsOf({}), chances };
    this.delivery = new Delivery("t", parts, rules, patienceMs, ownKey);
  }

  /** Post, and have this answered; return the wait. */
  answer(answer) {
    this.posts.push(this.delivery.post());
    const { waitMs } = this.delivery.answered(answer, this.nowMs);
    this.nowMs += waitMs ?? 0;
    return waitMs;
  }

  get ends() {
    return this.delivery.outcomes.map((one) => one.reason ?? one.name);
  }

  get keys() {
    return this.posts.map(({ headers }) => new Map(headers).get("Idempotency-Key"));
  }
}

test("the last attempt is at the end of the patience", () => {
  const tried = new Try("a", { patienceMs: 1000 });
  const waits = [1, 2, 3].map(() => tried.answer(lost("no", { wasSent: false })));
  assert.deepEqual(waits, [400, 600, null]);
  assert.deepEqual(tried.ends, ["unreachable"]);
});

test("a port that never answers in HTTP may be another one", () => {
  const hint = "closed; this may not be the port of a Headgate gateway";
  for (const [status, expected] of /** @type {const} */ ([
    [null, hint],
    [502, "closed"],
  ])) {
    const tried = new Try("a", { patienceMs: 400 });
    tried.answer(lost("closed", { status }));
    assert.equal(tried.answer(lost("closed")), null);
    const [{ reason, detail }] = tried.delivery.outcomes;
    assert.deepEqual([reason, detail], ["no_answer", expected]);
  }
});

test("an event that may be written is not called unreachable", () => {
  const tried = new Try("a", { patienceMs: 400 });
  tried.answer(lost("reset"));
  assert.equal(tried.answer(lost("refused", { wasSent: false, reason: "unreachable" })), null);
  const [{ name, reason, detail }] = tried.delivery.outcomes;
  assert.deepEqual([name, reason, detail], ["unknown", "no_answer", "refused"]);
});

for (const [name, repeat] of Object.entries({
  "the older one failed before, and nobody saw the answer": [written(5), done(4)],
  "the older one may be written now": [unknown(), done(4)],
  "two answers were lost": [done(5), done(4)],
  "the gateway has forgotten the request": [written(5), failed()],
})) {
  test(`a newer state goes again when ${name}`, () => {
    const tried = new Try("aab");
    assert(tried.answer(ended(written(2), written(4), unknown("b"))));
    assert(tried.answer(ended(...repeat, written(0, "b"))));
    assert.equal(tried.answer(ended(written(6))), null);
    assert.deepEqual(
      tried.posts.map(({ events }) => events),
      [3, 3, 1],
    );
    assert.deepEqual(tried.keys, ["key-1", "key-1", "key-3"]);
    assert.deepEqual(tried.ends, ["published", "published", "published"]);
  });
}

test("a newer state stays where nothing can be behind it", () => {
  for (const repeat of [
    [done(1), done(2)],
    [written(1), written(2)],
    [failed(), written(2)],
    [failed(), done(2)],
  ]) {
    const tried = new Try("aa");
    assert(tried.answer(lost("it broke")));
    assert.equal(tried.answer(ended(...repeat)), null);
    assert.equal(tried.posts.length, 2);
  }
});

test("a state that may have an older one behind it is not called written", () => {
  const tried = new Try("aa", { patienceMs: 400 });
  assert(tried.answer(lost("it broke")));
  assert.equal(tried.answer(ended(written(5), done(4))), null);
  assert.deepEqual(tried.ends, ["published", "out_of_order"]);
  assert.equal(tried.delivery.outcomes[1].name, "unknown");
});

test("an event id that is written once leaves the newer state where it was", () => {
  const tried = new Try("aa");
  assert(tried.answer(lost("it broke")));
  assert(tried.answer(ended(written(5), done(4))));
  assert.equal(tried.answer(ended(done(4))), null);
  assert.deepEqual(tried.ends, ["published", "out_of_order"]);
});

test("an older state does not come back under a key of the caller's", () => {
  const tried = new Try("aba", { ownKey: "mine" });
  assert(tried.answer(ended(failed(), failed("b"), written(1))));
  assert.equal(tried.answer(ended(written(0, "b"))), null);
  assert.deepEqual(tried.keys, ["mine", "key-2"]);
  assert.deepEqual(tried.ends, ["overtaken", "published", "published"]);
});
