/**
 * Some events of a topic on their way: what to post now, what an answer means, when to give up.
 *
 * What may have been written goes again as it was, the same bytes under the same Idempotency-Key.
 * What was certainly not written goes again without the others, under a new key, before anything
 * that is behind it.
 */

import { Rejected } from "../outcomes.js";
import { waitMs } from "../settings.js";
import { lost } from "./answer.js";
import { bodyOf } from "./encode.js";
import { laneOf } from "./keys.js";
import { Ledger, TOO_MUCH } from "./ledger.js";
import { disorderOf } from "./order.js";

/** @import {Outcome} from "../outcomes.js" */
/** @import {Limits, Retry} from "../settings.js" */
/** @import {Answer, Ended, Lost, Refused} from "./answer.js" */
/** @import {Headers, Part} from "./encode.js" */

/**
 * @typedef {object} Post What to post.
 * @property {string} topic
 * @property {Headers} headers
 * @property {Uint8Array} content
 * @property {number} events
 * @property {number} attempt 1 for the first time that these bytes go.
 */

/**
 * @typedef {object} Step What an answer has changed.
 * @property {readonly number[]} ended The places of events that have their outcome now.
 * @property {number | null} waitMs Until the next post; null if all have ended.
 */

/**
 * @typedef {object} Chances Where randomness comes from.
 * @property {() => number} share 0 to 1.
 * @property {(() => string) | null} newKey Of a request; null sends none.
 */

/**
 * @typedef {object} Rules
 * @property {Readonly<Retry>} retry
 * @property {Readonly<Limits>} limits
 * @property {Chances} chances
 */

const CONFLICT = "idempotency_conflict";

/** Events of one topic until each has ended. Call `post`, then `answered`, until nothing waits. */
export class Delivery {
  #parts;
  #rules;
  #endMs;
  #ownKey;
  #ledger;
  /** @type {number[]} */
  #current = [];
  /** @type {Post | null} */
  #kept = null;
  #attempt = 0;
  /** @type {Map<number, Outcome>} Of `#current`, as far as there are outcomes. */
  #latest = new Map();
  /** @type {Map<number, Outcome>} They are written, and have to be written again. */
  #before = new Map();
  /** @type {Refused | Lost} */
  #last = lost("it was never tried", { wasSent: false });

  /**
   * @param {string} topic
   * @param {readonly Part[]} parts
   * @param {Rules} rules
   * @param {number} endMs When to give up, by the clock that `answered` is told.
   * @param {string | null} ownKey An Idempotency-Key of the caller, for all of the events in one
   *   request: it is repeated as a whole, until there is something that must not go with it.
   */
  constructor(topic, parts, rules, endMs, ownKey = null) {
    /** @readonly */
    this.topic = topic;
    this.#parts = parts;
    this.#rules = rules;
    this.#endMs = endMs;
    this.#ownKey = ownKey;
    this.#ledger = new Ledger(topic, parts);
  }

  /** @returns {readonly (Outcome | null)[]} */
  get outcomes() {
    return this.#ledger.outcomes;
  }

  /**
   * Return the request to make now.
   *
   * @returns {Post}
   */
  post() {
    if (this.#kept !== null) {
      this.#kept = { ...this.#kept, attempt: this.#kept.attempt + 1 };
      return this.#kept;
    }
    this.#current = this.#next();
    this.#latest = new Map();
    const { headers, content } = bodyOf(this.#current.map((at) => this.#part(at)));
    const key = this.#ownKey ?? this.#rules.chances.newKey?.() ?? null;
    this.#kept = {
      topic: this.topic,
      headers: key === null ? headers : [...headers, ["Idempotency-Key", key]],
      content,
      events: this.#current.length,
      attempt: 1,
    };
    return this.#kept;
  }

  /**
   * Take the answer to the last post.
   *
   * @param {Answer} answer
   * @param {number} nowMs
   * @returns {Step}
   */
  answered(answer, nowMs) {
    this.#attempt += 1;
    if (answer.kind === "ended") return this.#afterOutcomes(answer, nowMs);
    this.#last = answer;
    if (answer.kind === "lost") return this.#afterLost(answer, nowMs);
    if (answer.reason === CONFLICT) this.#ledger.doubt(this.#current);
    if (answer.retryable) return this.#again(answer, nowMs);
    if (TOO_MUCH.includes(answer.reason) && this.#current.length > 1 && this.#ownKey === null) {
      const maxEvents = Math.ceil(this.#current.length / 2);
      this.#rules = { ...this.#rules, limits: { ...this.#rules.limits, maxEvents } };
      this.#kept = null;
      return { ended: [], waitMs: 0 };
    }
    return this.#nextStep(this.#endAll(this.#current));
  }

  /**
   * End whatever is open, with what is known of it; return the places.
   *
   * @param {boolean} isPosted A request is under way.
   */
  giveUp(isPosted) {
    if (isPosted) {
      this.#ledger.doubt(this.#current);
      this.#last = lost("it was given up before there was an answer");
    }
    return this.#endAll(this.#ledger.open);
  }

  /** The open events that go into one request: those of one form, in their order. */
  #next() {
    const { maxEvents, maxBytes } = this.#rules.limits;
    /** @type {number[]} */
    const taken = [];
    /** @type {string | null} */
    let form = null;
    let size = 0;
    for (const at of this.#ledger.open) {
      const part = this.#part(at);
      size += part.text.length;
      const isFull = taken.length >= maxEvents || size > maxBytes;
      if (taken.length && this.#ownKey === null && isFull) break;
      if (taken.length && (part.form === "single" || part.form !== form)) break;
      form = part.form;
      taken.push(at);
    }
    return taken;
  }

  /**
   * @param {Lost} answer
   * @param {number} nowMs
   */
  #afterLost(answer, nowMs) {
    if (answer.wasSent) {
      this.#ledger.doubt(this.#current);
      if (!this.#rules.retry.repeatUnknown) return this.#nextStep(this.#endAll(this.#current));
    }
    return this.#again(answer, nowMs);
  }

  /**
   * @param {Ended} answer
   * @param {number} nowMs
   * @returns {Step}
   */
  #afterOutcomes(answer, nowMs) {
    for (const [index, outcome] of answer.outcomes.entries()) {
      const at = /** @type {number} */ (this.#current[index]);
      if (outcome.name === "unknown" || isConflict(outcome)) this.#ledger.doubt([at]);
      // the first good end has the place
      if (!this.#latest.get(at)?.succeeded) this.#latest.set(at, outcome);
    }
    const { leftOut, behind } = this.#disorder(answer);
    for (const at of behind.keys()) this.#before.set(at, this.#latestOf(at));
    for (const [at, outcome] of [...leftOut, ...behind]) this.#latest.set(at, outcome);
    if (leftOut.size || behind.size) {
      // As a whole, the request would bring back what was left out, and would not write again what
      // has to be the last. A state twice does no harm.
      this.#ownKey = null;
      this.#ledger.doubt(behind.keys());
    }
    const again = new Set();
    let isWhole = this.#ownKey !== null;
    for (const [at, outcome] of this.#latest) {
      const isUnknown = outcome.name === "unknown";
      if (leftOut.has(at) || !outcome.retryable) continue;
      if (isUnknown && !this.#rules.retry.repeatUnknown) continue;
      again.add(at);
      isWhole ||= isUnknown && !leftOut.size && !behind.size;
    }
    if (again.size && isWhole) return this.#again(answer, nowMs);
    const ended = this.#endAll(this.#current.filter((at) => !again.has(at)));
    if (!again.size) return this.#nextStep(ended);
    const wait = this.#waitMs(answer);
    if (nowMs + wait > this.#endMs) {
      return { ended: [...ended, ...this.#endAll(this.#ledger.open)], waitMs: null };
    }
    this.#kept = null; // those that are left go without the others
    return { ended, waitMs: wait };
  }

  /**
   * What an answer says of the order of states, where those are what is sent.
   *
   * @param {Ended} answer
   */
  #disorder(answer) {
    if (this.#rules.retry.overtaken !== "leave_out") return disorderOf([], false);
    const ends = this.#current.map((at, index) => {
      const now = /** @type {Outcome} */ (answer.outcomes[index]);
      const lane = this.#part(at).lane ?? laneOf(now.key);
      return { at, lane, now, best: this.#latestOf(at), before: this.#before.get(at) ?? null };
    });
    return disorderOf(ends, (this.#kept?.attempt ?? 1) > 1);
  }

  /**
   * Keep the request, unless it is too late for that.
   *
   * @param {Answer} answer
   * @param {number} nowMs
   * @returns {Step}
   */
  #again(answer, nowMs) {
    const wait = this.#waitMs(answer);
    if (nowMs + wait <= this.#endMs) return { ended: [], waitMs: wait };
    return { ended: this.#endAll(this.#ledger.open), waitMs: null };
  }

  /** @param {Answer} answer */
  #waitMs(answer) {
    const { retry, chances } = this.#rules;
    return waitMs(retry, this.#attempt, answer.retryAfterMs, chances.share());
  }

  /**
   * @param {readonly number[]} ended
   * @returns {Step}
   */
  #nextStep(ended) {
    this.#kept = null;
    this.#attempt = 0;
    return { ended, waitMs: this.#ledger.open.size ? 0 : null };
  }

  /**
   * End these events with what is known of each, and return the places.
   *
   * @param {Iterable<number>} places
   */
  #endAll(places) {
    const ending = [...places].filter((at) => this.#ledger.open.has(at));
    const current = new Set(this.#current);
    for (const at of ending) {
      const own = current.has(at) ? this.#last : null;
      this.#ledger.end(at, this.#latest.get(at) ?? this.#ledger.failure(at, own, this.#last));
    }
    return ending;
  }

  /** @param {number} at */
  #latestOf(at) {
    return /** @type {Outcome} */ (this.#latest.get(at));
  }

  /** @param {number} at */
  #part(at) {
    return /** @type {Part} */ (this.#parts[at]);
  }
}

/** @param {Outcome} outcome */
function isConflict(outcome) {
  return outcome instanceof Rejected && outcome.reason === CONFLICT;
}
