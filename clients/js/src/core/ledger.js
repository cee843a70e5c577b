/** The state of each event of a delivery. */

import { Rejected, Unknown } from "../outcomes.js";

/** @import {Outcome} from "../outcomes.js" */
/** @import {Lost, Refused} from "./answer.js" */
/** @import {Part} from "./encode.js" */

export const TOO_MUCH = ["too_large", "too_many_events"];
// Reasons of the event itself: an earlier attempt would have failed as well.
const OF_THE_EVENT = [
  ...TOO_MUCH,
  "malformed",
  "missing_key",
  "invalid_key",
  "schema_violation",
  "headers_too_large",
  "unsupported_encoding",
  "needs_native_api",
  "idempotency_mismatch",
];
const DOUBT = "an earlier attempt may have been written";

/** Outcomes of the events of a delivery, and the events that may be written already. */
export class Ledger {
  /** @type {(Outcome | null)[]} */
  outcomes;
  /** @type {Set<number>} The places of events without an outcome, in their order. */
  open;
  #topic;
  #parts;
  /** @type {Set<number>} An attempt that was not answered may have written them. */
  #doubtful = new Set();

  /**
   * @param {string} topic
   * @param {readonly Part[]} parts
   */
  constructor(topic, parts) {
    this.#topic = topic;
    this.#parts = parts;
    this.outcomes = parts.map(() => null);
    this.open = new Set(parts.keys());
  }

  /**
   * Note that these events may be written already.
   *
   * @param {Iterable<number>} places
   */
  doubt(places) {
    for (const at of places) this.#doubtful.add(at);
  }

  /**
   * Note an outcome. An event that may be written already is not rejected but unknown.
   *
   * @param {number} at
   * @param {Outcome} outcome
   */
  end(at, outcome) {
    const isInDoubt = this.#doubtful.has(at);
    this.outcomes[at] = isInDoubt && outcome instanceof Rejected ? doubted(outcome) : outcome;
    this.open.delete(at);
  }

  /**
   * Return the outcome of one event after an answer that had no outcomes.
   *
   * @param {number} at
   * @param {Refused | Lost | null} own The answer to the request that the event was in.
   * @param {Refused | Lost} last The last answer of all, for its text.
   * @returns {Outcome}
   */
  failure(at, own, last) {
    const { key, eventId } = /** @type {Part} */ (this.#parts[at]);
    const { reason, detail, status } = last;
    const about = { topic: this.#topic, detail, key, eventId };
    if (own?.kind === "refused") {
      const why = { reason, status, retryable: own.retryable, key: key ?? own.key };
      return new Rejected({ ...about, ...own.figures, ...why });
    }
    if (this.#doubtful.has(at)) {
      const why = last.kind === "lost" && last.wasSent ? reason : "no_answer";
      const requestId = last.kind === "lost" ? last.requestId : (last.figures.requestId ?? null);
      return new Unknown({ ...about, reason: why, status, requestId });
    }
    return new Rejected({ ...about, reason: own ? "unreachable" : "not_sent", retryable: true });
  }
}

/**
 * Return the outcome of a rejected event that an earlier attempt may have written.
 *
 * @param {Rejected} outcome
 */
function doubted(outcome) {
  if (OF_THE_EVENT.includes(outcome.reason)) return outcome;
  return new Unknown({ ...outcome, detail: `${outcome.detail}; ${DOUBT}` });
}
