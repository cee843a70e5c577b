/** How patient a client is, and how much a producer keeps. */

import { checkNames } from "./core/names.js";
import { InvalidEventError } from "./errors.js";

/**
 * @typedef {object} Retry When an event is sent again, and when that ends.
 * @property {number} patienceMs After this time nothing is tried again. It counts from the call, in
 *   a producer from when the event was taken.
 * @property {number} firstWaitMs Before attempt n + 1 there is a random wait of up to
 *   `firstWaitMs * 2**n`, behind what Retry-After asks for.
 * @property {number} longestWaitMs The longest of these random waits.
 * @property {boolean} repeatUnknown False leaves alone what may be written already; right only where
 *   the gateway has no Redis and a repeat does harm.
 * @property {"send" | "leave_out"} overtaken What becomes of a failed event when a later one of its
 *   key has got through: "send" writes it behind that one, "leave_out" ends it as `overtaken` (right
 *   for states, of which the newest counts).
 */

/**
 * @typedef {object} Limits The largest request. The gateway's own limits are
 *   `http.batch_max_events` and `http.body_max_bytes`.
 * @property {number} maxEvents
 * @property {number} maxBytes Before compression; a larger event goes alone.
 */

/**
 * @typedef {object} Buffering What a producer keeps, and for how long.
 * @property {number} lingerMs How long an event waits for others to go with.
 * @property {number} maxEvents Of all events that have not ended; there is no room beyond.
 * @property {number} maxBytes Of the same.
 * @property {number} inFlight Requests at the same time.
 * @property {boolean} onePerKey Never two events of a key in one request, so that none can be
 *   overtaken; each event of a key then costs a round trip.
 */

// The gateway remembers an Idempotency-Key for a day (`redis.idempotency_ttl_ms`): who repeats later
// may write twice.
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
 * Return all options, the usual ones for those that are not given. Throws InvalidEventError.
 *
 * @param {Partial<Retry>} [given]
 * @returns {Readonly<Retry>}
 */
export function retryOf(given = {}) {
  const all = filled("retry", RETRY, given);
  if (!(all.patienceMs >= 0 && all.patienceMs <= LONGEST_PATIENCE_MS)) {
    throw new InvalidEventError(`retry.patienceMs: 0 to ${LONGEST_PATIENCE_MS}`);
  }
  checkLeast("retry", all, { firstWaitMs: 0, longestWaitMs: 0 });
  if (all.overtaken !== "send" && all.overtaken !== "leave_out") {
    throw new InvalidEventError('retry.overtaken: "send" or "leave_out"');
  }
  return all;
}

/**
 * Return all options, the usual ones for those that are not given. Throws InvalidEventError.
 *
 * @param {Partial<Limits>} [given]
 * @returns {Readonly<Limits>}
 */
export function limitsOf(given = {}) {
  const all = filled("limits", LIMITS, given);
  checkLeast("limits", all, { maxEvents: 1, maxBytes: 1 });
  return all;
}

/**
 * Return all options, the usual ones for those that are not given. Throws InvalidEventError.
 *
 * @param {Partial<Buffering>} [given]
 * @returns {Readonly<Buffering>}
 */
export function bufferingOf(given = {}) {
  const all = filled("buffering", BUFFERING, given);
  checkLeast("buffering", all, { lingerMs: 0, maxEvents: 1, maxBytes: 1, inFlight: 1 });
  return all;
}

/**
 * Return how long to wait behind attempt 1, 2, ...
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
 * @param {string} what
 * @param {T} usual
 * @param {Partial<T>} given
 * @returns {Readonly<T>}
 */
function filled(what, usual, given) {
  checkNames(what, given, Object.keys(usual));
  const set = Object.entries(given).filter(([, value]) => value !== undefined);
  return Object.freeze({ ...usual, ...Object.fromEntries(set) });
}

/**
 * @template {object} T
 * @param {string} what
 * @param {T} options
 * @param {Partial<Record<keyof T, number>>} least
 */
function checkLeast(what, options, least) {
  for (const [name, bound] of Object.entries(least)) {
    const value = options[/** @type {keyof T} */ (name)];
    if (typeof value !== "number" || !(value >= bound)) {
      throw new InvalidEventError(`${what}.${name}: ${bound} or more`);
    }
  }
}
