/**
 * Delivery of some events of a topic: requests, the meaning of answers, and when to give up.
 *
 * Events that may have been written are sent again as the same bytes with the same Idempotency-Key.
 * Events that were certainly not written are sent again without the others, with a new key, before
 * all events behind them.
 */

import { Rejected } from "../outcomes.js";
import { waitMs } from "../settings.js";
import { NEW_OUTCOME, lost, refused } from "./answer.js";
import { bodyOf } from "./encode.js";
import { laneOf } from "./keys.js";
import { Ledger, TOO_MUCH } from "./ledger.js";
import { disorderOf } from "./order.js";

/** @import {Outcome} from "../outcomes.js" */
/** @import {Limits, Retry} from "../settings.js" */
/** @import {Answer, Ended, Lost, Refused} from "./answer.js" */
/** @import {Headers, Part} from "./encode.js" */

/**
 * @typedef {object} Post One request.
 * @property {string} topic
 * @property {Headers} headers
 * @property {Uint8Array} content
 * @property {number} events
 * @property {number} attempt 1 for the first request with these bytes.
 */

/**
 * @typedef {object} Step Result of an answer.
 * @property {readonly number[]} ended Positions of the events that now have their outcome.
 * @property {number | null} waitMs Time until the next post; null if all events have ended.
 */

/**
 * @typedef {object} Chances Sources of randomness.
 * @property {() => number} share 0 to 1.
 * @property {(() => string) | null} newKey Idempotency-Keys; null sends none.
 */

/**
 * @typedef {object} Rules
 * @property {Readonly<Retry>} retry
 * @property {Readonly<Limits>} limits
 * @property {Chances} chances
 */

const CONFLICT = "idempotency_conflict";
const LEAST_MS = 5; // of patience, for another attempt: a timer may be early
const NOT_A_GATEWAY = "this may not be the port of a Headgate gateway";
const UNKNOWN_HOST_TRIES = 5; // in a row; then the host is taken for one that does not exist

/** Events of one topic until each has ended. Repeat `post` and `answered` until no event waits. */
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
  #unknownHosts = 0; // tries in a row
  #wasAnswered = false; // in HTTP
  /** @type {Map<number, Outcome>} Outcomes of `#current`, if there are any. */
  #latest = new Map();
  /** @type {Map<number, Outcome>} Written events that must be written again. */
  #before = new Map();
  /** @type {Refused | Lost} */
  #last = lost("it was never tried", { wasSent: false, reason: "unreachable" });

  /**
   * @param {string} topic
   * @param {readonly Part[]} parts
   * @param {Rules} rules
   * @param {number} endMs Time to give up, by the clock of `answered`.
   * @param {string | null} ownKey The caller's Idempotency-Key for all events in one request. That
   *   request is repeated as a whole, until an event must not be in it.
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
   * Return the next request.
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
   * @param {Answer} given
   * @param {number} nowMs
   * @returns {Step}
   */
  answered(given, nowMs) {
    this.#attempt += 1;
    const answer = this.#withoutHopeless(given);
    this.#wasAnswered ||= answer.kind === "ended" || answer.status !== null;
    if (answer.kind === "ended") return this.#afterOutcomes(answer, nowMs);
    this.#last = this.#withPortHint(answer);
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
   * End all open events with the best knowledge of each; return their positions.
   *
   * @param {boolean} isPosted A request is under way.
   * @param {string} [why]
   */
  giveUp(isPosted, why) {
    if (why !== undefined) this.#last = { ...this.#last, detail: `${this.#last.detail}; ${why}` };
    if (isPosted) {
      this.#ledger.doubt(this.#current);
      this.#last = lost("it was given up before there was an answer");
    }
    return this.#endAll(this.#ledger.open);
  }

  /**
   * Turn an unknown host into a refusal after some tries: waiting does not help.
   *
   * @param {Answer} answer
   * @returns {Answer}
   */
  #withoutHopeless(answer) {
    const isUnknown = answer.kind === "lost" && answer.isUnknownHost;
    this.#unknownHosts = isUnknown ? this.#unknownHosts + 1 : 0;
    if (answer.kind !== "lost" || this.#unknownHosts < UNKNOWN_HOST_TRIES) return answer;
    const detail = `${answer.detail}; the host is unknown after ${UNKNOWN_HOST_TRIES} tries`;
    return refused("unreachable", detail, { retryable: false });
  }

  /**
   * Add a hint about the port if no request was ever answered in HTTP.
   *
   * @param {Refused | Lost} answer
   * @returns {Refused | Lost}
   */
  #withPortHint(answer) {
    if (this.#wasAnswered || answer.kind !== "lost") return answer;
    if (answer.isFinal || !answer.wasSent) return answer;
    return { ...answer, detail: `${answer.detail}; ${NOT_A_GATEWAY}` };
  }

  /** Return the open events of the next request: those of one form, in their order. */
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
      const isLast = answer.isFinal || !this.#rules.retry.repeatUnknown;
      if (isLast) return this.#nextStep(this.#endAll(this.#current));
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
      if (outcome.name === "unknown" && outcome.reason === NEW_OUTCOME) {
        continue; // a gateway without Redis would write it once more
      }
      if (isUnknown && !this.#rules.retry.repeatUnknown) continue;
      again.add(at);
      isWhole ||= isUnknown && !leftOut.size && !behind.size;
    }
    if (again.size && isWhole) return this.#again(answer, nowMs);
    const ended = this.#endAll(this.#current.filter((at) => !again.has(at)));
    if (!again.size) return this.#nextStep(ended);
    const wait = this.#waitMs(answer, nowMs);
    if (wait === null) {
      return { ended: [...ended, ...this.#endAll(this.#ledger.open)], waitMs: null };
    }
    this.#kept = null; // those that are left go without the others
    return { ended, waitMs: wait };
  }

  /**
   * Return the events that the answer shows to be in the wrong order (states only).
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
   * Repeat the request, unless it is too late.
   *
   * @param {Answer} answer
   * @param {number} nowMs
   * @returns {Step}
   */
  #again(answer, nowMs) {
    const wait = this.#waitMs(answer, nowMs);
    if (wait !== null) return { ended: [], waitMs: wait };
    return { ended: this.#endAll(this.#ledger.open), waitMs: null };
  }

  /**
   * Return the wait, which ends with the patience; null if it is too late for an attempt.
   *
   * @param {Answer} answer
   * @param {number} nowMs
   */
  #waitMs(answer, nowMs) {
    const { retry, chances } = this.#rules;
    const leftMs = this.#endMs - nowMs;
    if (answer.retryAfterMs > leftMs || leftMs < LEAST_MS) return null;
    return Math.min(waitMs(retry, this.#attempt, answer.retryAfterMs, chances.share()), leftMs);
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
   * End these events with the best knowledge of each, and return their positions.
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
