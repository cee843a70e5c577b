/** A gateway as a model: a log for each key, a memory of requests, and every fault there is. */

import assert from "node:assert/strict";

import { lost, readAnswer, refused } from "../src/core/answer.js";

const FAULTS = ["lost_before", "lost_after", "refused", "conflict", "failed", "unknown"];
// Behind these nobody can know what a repeat will write.
const UNSEEN = ["failed_lost", "unknown_lost", "forgotten"];

/** Values are `{key, n}`; n counts up for each key, and each ninth is no event that it takes. */
export class ModelGateway {
  /** What was written, in order, by key. */
  log = new Map();
  /** Request headers by Idempotency-Key: what was sent and which events ended well. */
  #memory = new Map();
  #underWay = new Set();
  #random;
  #faultiness;
  #areKeysWhole;
  #faults;

  /**
   * faultiness: how likely a request meets a fault.  areKeysWhole: where an event fails that may
   * be tried again, the later ones of its key in the request do, too.  isForgetful: answers about
   * events that failed are lost, too, and the memory of requests.
   */
  constructor(random, { faultiness, areKeysWhole, isForgetful = false }) {
    this.#random = random;
    this.#faultiness = faultiness;
    this.#areKeysWhole = areKeysWhole;
    this.#faults = isForgetful ? [...FAULTS, ...UNSEEN] : FAULTS;
  }

  /** A request leaves the client. */
  begin(post) {
    for (const { key } of eventsOf(post)) {
      assert(!this.#underWay.has(key), `two requests with ${key} at the same time`);
    }
    for (const { key } of eventsOf(post)) this.#underWay.add(key);
  }

  /** It arrives; return the answer that the client will get. */
  answer(post, nowMs) {
    const events = eventsOf(post);
    for (const { key } of events) this.#underWay.delete(key);
    const fault = this.#random.is(this.#faultiness) ? this.#random.of(this.#faults) : "none";
    const retryAfterMs = this.#random.below(3) * 1000;
    if (fault === "lost_before") return lost("it broke", { wasSent: this.#random.is(0.5) });
    if (fault === "refused") {
      return refused("overloaded", "full", { retryable: true, status: 503, retryAfterMs });
    }
    if (fault === "conflict") {
      return refused("idempotency_conflict", "runs", { retryable: true, status: 409, retryAfterMs });
    }
    if (fault === "forgotten") this.#memory.clear();
    const [failure] = fault.split("_");
    const outcomes = this.#run(post, events, failure);
    if (fault.endsWith("_lost") || fault === "lost_after") return lost("it broke");
    const raw = { status: 207, body: JSON.stringify({ outcomes }), header: () => null };
    return readAnswer(post.topic, events.length, raw, nowMs);
  }

  #run(post, events, fault) {
    const name = new Map(post.headers).get("Idempotency-Key");
    const content = new TextDecoder().decode(post.content);
    const known = this.#memory.get(name) ?? { content, done: new Map() };
    assert.equal(known.content, content, "other bytes under a known Idempotency-Key");
    this.#memory.set(name, known);
    const stopped = new Set();
    const missing = new Set();
    return events.map((event, at) => {
      const { key, n } = event;
      if (known.done.has(at)) {
        return { outcome: "duplicate", key, partition: 0, offset: known.done.get(at) };
      }
      if (n % 9 === 0) {
        return { outcome: "rejected", key, reason: "malformed", retryable: false };
      }
      const isHit = stopped.has(key) || this.#random.is(0.3);
      if (isHit && ["failed", "unknown"].includes(fault)) {
        if (this.#areKeysWhole) stopped.add(key);
        return this.#failure(fault, event, missing, (offset) => known.done.set(at, offset));
      }
      const offset = this.#write(key, n);
      known.done.set(at, offset);
      return { outcome: "published", key, partition: 0, offset };
    });
  }

  #failure(fault, { key, n }, missing, remember) {
    if (fault === "failed") {
      return { outcome: "rejected", key, reason: "kafka_unavailable", retryable: true };
    }
    // Kafka has it, and answers late; or it never gets it, nor what is behind it.
    if (missing.has(key) || this.#random.is(0.5)) {
      missing.add(key);
    } else {
      remember(this.#write(key, n));
    }
    return { outcome: "unknown", key, reason: "unknown", retryable: true };
  }

  #write(key, n) {
    const written = [...(this.log.get(key) ?? []), n];
    this.log.set(key, written);
    return written.length - 1; // each key counts for itself
  }
}

/** The values in a request. */
export function eventsOf(post) {
  return JSON.parse(new TextDecoder().decode(post.content)).events.map(({ value }) => value);
}
