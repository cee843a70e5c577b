/** A producer's core against a gateway that does everything wrong, in a time of its own. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { encodePart } from "../src/core/encode.js";
import { Outbox } from "../src/core/outbox.js";
import { HeadgateEvent } from "../src/events.js";
import { bufferingOf, limitsOf, retryOf } from "../src/settings.js";
import { ModelGateway } from "./model.js";
import { Random } from "./random.js";

const SEEDS = Number(process.env.HEADGATE_SEEDS ?? 100);
const FIRST = Number(process.env.HEADGATE_SEED ?? 1);
const EVENTS = 60;
const LONGEST_RETRY_AFTER_MS = 2000; // of the model
const HOUR_MS = 3_600_000;

/** Plays one history: events come, requests go, answers come back. */
class History {
  nowMs = 0;
  taken = []; // {key, n, outcome}
  #timeline = []; // [time, what]
  #counts = new Map();
  #posting = 0;

  constructor(random, { retry, buffering, gateway }) {
    this.random = random;
    this.buffering = bufferingOf({ maxEvents: 25, inFlight: 3, ...buffering });
    let keys = 0;
    const chances = { share: () => random.share(), newKey: () => `request-${(keys += 1)}` };
    const limits = limitsOf({ maxEvents: 1 + random.below(8), maxBytes: 40 + random.below(400) });
    this.outbox = new Outbox({ retry: retryOf(retry), limits, chances }, this.buffering);
    this.gateway = new ModelGateway(random, gateway);
  }

  play() {
    for (let count = 0; count < EVENTS; count += 1) {
      this.#at(this.random.below(5000), () => this.#send());
    }
    while (this.#timeline.length) {
      this.#timeline.sort(([one], [other]) => other - one);
      const [time, what] = this.#timeline.pop();
      this.nowMs = Math.max(this.nowMs, time);
      what();
      this.#pump();
    }
    return this;
  }

  #at(time, what) {
    this.#timeline.push([time, what]);
  }

  #send() {
    const key = `k${this.random.below(5)}`;
    const n = (this.#counts.get(key) ?? 0) + 1;
    const part = encodePart(new HeadgateEvent({ key, n }, { key }), JSON.stringify, null);
    if (!this.outbox.hasRoom(part)) return; // as when a program has nothing to wait for
    this.#counts.set(key, n);
    const one = { key, n, outcome: null, sentMs: this.nowMs };
    this.taken.push(one);
    this.outbox.add("t", part, part.lane, this.nowMs, (outcome) => {
      assert.equal(one.outcome, null, "an event ends once");
      one.outcome = outcome;
      one.endedMs = this.nowMs;
    });
    assert(this.outbox.events <= this.buffering.maxEvents);
    if (this.random.is(0.1)) this.outbox.flush();
  }

  #pump() {
    while (this.#posting < this.buffering.inFlight) {
      const taken = this.outbox.take(this.nowMs);
      if (typeof taken === "number") {
        if (taken !== Infinity) this.#at(this.nowMs + Math.max(taken, 0.01), () => {});
        return;
      }
      this.#post(taken);
    }
  }

  #post(load) {
    this.#posting += 1;
    const post = load.delivery.post();
    this.gateway.begin(post);
    this.#at(this.nowMs + this.random.below(500), () => {
      const answer = this.gateway.answer(post, this.nowMs);
      this.#posting -= 1;
      const ended = this.outbox.answered(load, answer, this.nowMs);
      for (const [entry, outcome] of ended) entry.done(outcome);
    });
  }

  /** What is true of every history. */
  judge({ copiesAllowed = 1 } = {}) {
    for (const { key, n, outcome } of this.taken) {
      assert(outcome, `${key} ${n} has no outcome`);
      const copies = (this.gateway.log.get(key) ?? []).filter((written) => written === n).length;
      assert(copies <= copiesAllowed, `${key} ${n} is written twice`);
      if (outcome.succeeded) assert(copies, `${key} ${n} is lost: ${outcome.name}`);
      if (outcome.name === "rejected") assert.equal(copies, 0, `${key} ${n}: ${outcome.detail}`);
    }
    assert.deepEqual([this.outbox.events, this.outbox.bytes], [0, 0]);
  }

  /** An event is given up at the end of the patience, or earlier if Retry-After is later. */
  judgePatience(patienceMs) {
    for (const { key, n, outcome, sentMs, endedMs } of this.taken) {
      const isOver = endedMs - sentMs + LONGEST_RETRY_AFTER_MS >= patienceMs - 10;
      assert(!outcome.retryable || isOver, `${key} ${n} ended too early: ${outcome.reason}`);
    }
  }

  judgeOrder() {
    for (const [key, written] of this.gateway.log) {
      assert.deepEqual(written, [...written].sort((one, other) => one - other), `order of ${key}`);
    }
  }
}

function histories(name, options, judge) {
  test(name, () => {
    for (let seed = FIRST; seed < FIRST + SEEDS; seed += 1) {
      const history = new History(new Random(seed), options);
      try {
        judge(history.play());
      } catch (error) {
        error.message = `seed ${seed}: ${error.message}`;
        throw error;
      }
    }
  });
}

const PATIENT = { patienceMs: 20 * HOUR_MS };
const MUCH = { faultiness: 0.7, areKeysWhole: true };

histories("nothing is lost, twice or out of order", { retry: PATIENT, gateway: MUCH }, (history) => {
  history.judge();
  history.judgeOrder();
  for (const { outcome } of history.taken) {
    assert(outcome.succeeded || outcome.reason === "malformed", JSON.stringify(outcome));
  }
});

histories(
  "who gives up says what is known",
  { retry: { patienceMs: 3000 }, gateway: MUCH },
  (history) => {
    history.judge();
    history.judgeOrder();
    history.judgePatience(3000);
  },
);

histories(
  "with one event of a key in a request no failure changes the order",
  {
    retry: PATIENT,
    buffering: { onePerKey: true },
    gateway: { faultiness: 0.7, areKeysWhole: false },
  },
  (history) => {
    history.judge();
    history.judgeOrder();
  },
);

const STATES = { retry: { ...PATIENT, overtaken: "leave_out" } };

/** The newest of each key is the last, unless what became of a newer one is unknown. */
function judgeStates(history) {
  history.judge({ copiesAllowed: Infinity });
  for (const [key, written] of history.gateway.log) {
    const ended = history.taken.filter((one) => one.key === key && one.outcome.succeeded);
    const newest = Math.max(...ended.map(({ n }) => n));
    const isInDoubt = history.taken.some(
      ({ outcome, ...one }) => one.key === key && one.n > newest && outcome.name === "unknown",
    );
    if (!isInDoubt) assert.equal(written.at(-1), newest, `the state of ${key}: ${written}`);
  }
}

histories(
  "of states the newest that ended well is the last",
  { ...STATES, gateway: { ...MUCH, areKeysWhole: false } },
  judgeStates,
);

histories(
  "of states the newest is the last, whatever a repeat has written that nobody could know",
  { ...STATES, gateway: { ...MUCH, areKeysWhole: false, isForgetful: true } },
  judgeStates,
);
