/**
 * Finds events of a request that ended in the wrong order, if only the newest state counts.
 *
 * An older state gets behind a newer one in two ways. Either the older one alone is sent again: then
 * it is dropped. Or a repeated request writes the older one after an earlier attempt had written only
 * the newer one. That shows only afterwards, because the answer of that attempt was lost or the
 * gateway has forgotten the request. Then the newer one is written once more.
 */

import { Rejected, Unknown } from "../outcomes.js";

/** @import {Outcome} from "../outcomes.js" */

/**
 * @typedef {object} End The outcomes of the event at a position of a delivery.
 * @property {number} at
 * @property {string | null} lane
 * @property {Outcome} now In this answer.
 * @property {Outcome} best In all answers.
 * @property {Outcome | null} before In an earlier request, if the event was sent again because an
 *   older one may be behind that record.
 */

/**
 * @typedef {object} Disorder The corrections, by position.
 * @property {Map<number, Outcome>} leftOut Events to drop, because a newer one was written or their
 *   event id is written only once.
 * @property {Map<number, Outcome>} behind Events to send again, because an older one may have been
 *   written after them.
 */

/**
 * Compare each event with the newest written one of its key.
 *
 * @param {readonly End[]} ends In their order.
 * @param {boolean} isRepeat
 * @returns {Disorder}
 */
export function disorderOf(ends, isRepeat) {
  /** @type {Disorder} */
  const found = { leftOut: new Map(), behind: new Map() };
  /** @type {Map<string, End>} */
  const newest = new Map();
  for (const end of [...ends].reverse()) {
    const { at, lane, now, best, before } = end;
    if (before && isNoNewer(now, before)) found.leftOut.set(at, outOfOrder(best));
    if (lane === null) continue; // without a key there is no order
    const newer = newest.get(lane);
    if (!newer) {
      if (best.succeeded) newest.set(lane, end);
      continue;
    }
    if (!best.succeeded && best.retryable) {
      const detail = `a later event of its key got through; before that: ${best.detail}`;
      found.leftOut.set(at, failedAs(best, { reason: "overtaken", detail }));
    }
    if (isRepeat && mayBeBehind(now, newer)) found.behind.set(newer.at, outOfOrder(newer.best));
  }
  return found;
}

/**
 * Whether a repeat may have written the older one behind the newer one.
 *
 * @param {Outcome} older
 * @param {End} newer
 */
function mayBeBehind(older, { now, best }) {
  // both ended in this answer, in their order
  if (now.succeeded && now.name !== "duplicate") return false;
  if (older.name !== "duplicate") return older.name !== "rejected";
  return isBehind(older, best); // an attempt before wrote it, that was not answered
}

/**
 * Whether an event that was sent again still has its earlier record.
 *
 * @param {Outcome} now
 * @param {Outcome} before
 */
function isNoNewer(now, before) {
  return now.name === "duplicate" && now.offset !== null && !isBehind(now, before);
}

/**
 * Whether one is known to be behind the other one.
 *
 * @param {Outcome} one
 * @param {Outcome} other
 */
function isBehind(one, other) {
  if (!one.succeeded || !other.succeeded || one.partition !== other.partition) return false;
  return one.offset !== null && other.offset !== null && one.offset > other.offset;
}

/** @param {Outcome} written */
function outOfOrder({ topic, key, eventId }) {
  const detail = "it is written, and an older event of its key may be behind it";
  return new Unknown({ topic, key, eventId, reason: "out_of_order", detail });
}

/**
 * Return the same failure with another text.
 *
 * @param {Rejected | Unknown} outcome
 * @param {{reason: string, detail: string}} words
 */
function failedAs(outcome, words) {
  const why = { ...outcome, ...words };
  if (outcome instanceof Unknown) return new Unknown(why);
  return new Rejected({ ...why, retryable: outcome.retryable });
}
