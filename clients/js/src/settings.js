/** Options of retries, request sizes and buffers. */

import { checkNames, checkNumber, checkType } from "./core/names.js";
import { InvalidOptionError } from "./errors.js";

/**
 * @typedef {object} Retry When an event is sent again, and when the client gives up.
 * @property {number} patienceMs Total time for an event. It begins with the call of `send`. After
 *   it, the event is not sent again.
 * @property {number} firstWaitMs Base of the random wait. The wait before attempt n + 1 is at most
 *   `firstWaitMs * 2**n`, after the time that Retry-After asks for.
 * @property {number} longestWaitMs Upper limit of the random wait, `firstWaitMs` or more.
 * @property {boolean} repeatUnknown False does not send an event again if it may be written. Use it
 *   only if the gateway has no Redis and a duplicate does harm.
 * @property {"send" | "leave_out"} overtaken Action for a failed event after a later event of its key
 *   was written. "send" writes it behind. "leave_out", for states (only the newest counts), drops it
 *   with the reason `overtaken`.
 */

/**
 * @typedef {object} Limits Size of one request. The gateway has limits of its own
 *   (`http.batch_max_events`, `http.body_max_bytes`).
 * @property {number} maxEvents Events in one request.
 * @property {number} maxBytes Bytes of one request before compression. A larger event is sent alone.
 */

/**
 * @typedef {object} Buffering Buffer of a producer.
 * @property {number} lingerMs Time that an event waits for others, to be sent in one request.
 * @property {number} maxEvents Events in the buffer that have no outcome yet.
 * @property {number} maxBytes Approximate memory of these events: the bytes of each, and 1,200 more.
 * @property {number} inFlight Concurrent requests.
 * @property {boolean} onePerKey Never put two events of a key into one request. No event can then be
 *   overtaken, and each event of a key costs a round trip.
 */

// The gateway remembers an Idempotency-Key for a day (`redis.idempotency_ttl_ms`). A later retry may
// write the event twice.
const LONGEST_PATIENCE_MS = 23 * 3_600_000;

/** @type {Readonly<Retry>} */
const RETRY = {
  patienceMs: 120_000,
  firstWaitMs: 200,
  longestWaitMs: 30_000,
  repeatUnknown: true,
  overtaken: "send",
};
/** @type {Readonly<Limits>} */
const LIMITS = { maxEvents: 500, maxBytes: 1_000_000 };
/** @type {Readonly<Buffering>} */
const BUFFERING = {
  lingerMs: 20,
  maxEvents: 50_000,
  maxBytes: 64_000_000,
  inFlight: 4,
  onePerKey: false,
};

/**
 * Return all options, with defaults for those that are missing. Throws InvalidOptionError.
 *
 * @param {Partial<Retry>} [given]
 * @returns {Readonly<Retry>}
 */
export function retryOf(given = {}) {
  const all = filled("retry", RETRY, given);
  checkNumber("retry.patienceMs", all.patienceMs, 0, LONGEST_PATIENCE_MS);
  checkNumber("retry.firstWaitMs", all.firstWaitMs, 0);
  checkNumber("retry.longestWaitMs", all.longestWaitMs, 0);
  if (all.longestWaitMs < all.firstWaitMs) {
    throw new InvalidOptionError(
      `retry.longestWaitMs: use firstWaitMs (${all.firstWaitMs}) or more, not ${all.longestWaitMs}`,
    );
  }
  checkType("retry.repeatUnknown", all.repeatUnknown, "boolean", "true or false");
  if (all.overtaken !== "send" && all.overtaken !== "leave_out") {
    throw new InvalidOptionError('retry.overtaken: use "send" or "leave_out"');
  }
  return all;
}

/**
 * Return all options, with defaults for those that are missing. Throws InvalidOptionError.
 *
 * @param {Partial<Limits>} [given]
 * @returns {Readonly<Limits>}
 */
export function limitsOf(given = {}) {
  const all = filled("limits", LIMITS, given);
  checkCounts("limits", { maxEvents: all.maxEvents, maxBytes: all.maxBytes });
  return all;
}

/**
 * Return all options, with defaults for those that are missing. Throws InvalidOptionError.
 *
 * @param {Partial<Buffering>} [given]
 * @returns {Readonly<Buffering>}
 */
export function bufferingOf(given = {}) {
  const all = filled("buffering", BUFFERING, given);
  const { maxEvents, maxBytes, inFlight } = all;
  checkNumber("buffering.lingerMs", all.lingerMs, 0);
  checkCounts("buffering", { maxEvents, maxBytes, inFlight });
  checkType("buffering.onePerKey", all.onePerKey, "boolean", "true or false");
  return all;
}

/**
 * Return the wait after attempt 1, 2, ...
 *
 * @param {Readonly<Retry>} retry
 * @param {number} attempt
 * @param {number} retryAfterMs
 * @param {number} share Random, 0 to 1.
 */
export function waitMs(retry, attempt, retryAfterMs, share) {
  const doubled = retry.firstWaitMs * 2 ** Math.min(attempt, 60);
  return retryAfterMs + share * Math.min(retry.longestWaitMs, doubled);
}

/**
 * @template {object} T
 * @param {string} owner
 * @param {T} usual
 * @param {Partial<T>} given
 * @returns {Readonly<T>}
 */
function filled(owner, usual, given) {
  checkNames(owner, given, Object.keys(usual));
  const set = Object.entries(given).filter(([, value]) => value !== undefined);
  return Object.freeze({ ...usual, ...Object.fromEntries(set) });
}

/**
 * @param {string} owner
 * @param {Readonly<Record<string, unknown>>} counts
 */
function checkCounts(owner, counts) {
  for (const [name, value] of Object.entries(counts)) {
    checkNumber(`${owner}.${name}`, value, 1, Infinity, true);
  }
}
