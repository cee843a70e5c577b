/**
 * From the gateway's answer to outcomes.
 *
 * An answer is one of three: outcomes for each event, a refusal of the request as a whole, or none.
 */

import {
  Duplicate,
  Held,
  Published,
  Rejected,
  Spooled,
  Superseded,
  Unchanged,
  Unknown,
} from "../outcomes.js";
import { fromBase64 } from "./bytes.js";
import { checkedKey } from "./keys.js";

/** @import {Key, Outcome} from "../outcomes.js" */

/**
 * @typedef {object} Ended The gateway says how each event ended.
 * @property {"ended"} kind
 * @property {Outcome[]} outcomes
 * @property {boolean} isBypassed It could not look the request's Idempotency-Key up.
 * @property {number} retryAfterMs
 */

/**
 * @typedef {object} Refused The request failed as a whole, and this attempt wrote nothing.
 * @property {"refused"} kind
 * @property {string} reason
 * @property {string} detail
 * @property {boolean} retryable
 * @property {number | null} status
 * @property {number} retryAfterMs
 */

/**
 * @typedef {object} Lost There is no answer that says what became of the events.
 * @property {"lost"} kind
 * @property {string} reason `unknown` if the gateway said so, else `no_answer`.
 * @property {string} detail
 * @property {boolean} wasSent False if no byte of the request has left.
 * @property {number | null} status
 * @property {number} retryAfterMs
 */

/** @typedef {Ended | Refused | Lost} Answer */

/** @type {Readonly<Record<string, new (place: import("../outcomes.js").Place) => Outcome>>} */
const ENDED_WELL = {
  published: Published,
  unchanged: Unchanged,
  duplicate: Duplicate,
  held: Held,
  superseded: Superseded,
  spooled: Spooled,
};
const TEMPORARY = [408, 425, 429]; // what something before the gateway says that may end
const SHOWN = 200;
const SECONDS = /^\s*\d{1,9}\s*$/;

/**
 * Return an answer of this kind.
 *
 * @param {string} reason
 * @param {string} detail
 * @param {{retryable: boolean, status?: number | null, retryAfterMs?: number}} more
 * @returns {Refused}
 */
export function refused(reason, detail, { retryable, status = null, retryAfterMs = 0 }) {
  return { kind: "refused", reason, detail, retryable, status, retryAfterMs };
}

/**
 * Return an answer of this kind.
 *
 * @param {string} detail
 * @param {{wasSent?: boolean, reason?: string, status?: number | null, retryAfterMs?: number}} more
 * @returns {Lost}
 */
export function lost(detail, more = {}) {
  const { wasSent = true, reason = "no_answer", status = null, retryAfterMs = 0 } = more;
  return { kind: "lost", reason, detail, wasSent, status, retryAfterMs };
}

/**
 * @typedef {object} Raw An answer as HTTP has it.
 * @property {number} status
 * @property {string} body
 * @property {(name: string) => string | null} header
 */

/**
 * Read an answer to a request with so many events.
 *
 * @param {string} topic
 * @param {number} expected
 * @param {Raw} raw
 * @param {number} nowMs Since 1970.
 * @returns {Answer}
 */
export function readAnswer(topic, expected, { status, body, header }, nowMs) {
  const retryAfterMs = retryAfter(header("retry-after"), nowMs);
  const document = parsed(body);
  if (document === null) return foreign(status, body, retryAfterMs);
  const isBypassed = header("idempotency-bypassed") !== null;
  const { outcomes, reason } = document;
  if (Array.isArray(outcomes)) {
    if (outcomes.length !== expected || !outcomes.every(isObject)) {
      return lost(`${outcomes.length} outcomes for ${expected} events`, { status });
    }
    const all = outcomes.map((one) => outcomeOf(topic, one));
    return { kind: "ended", outcomes: all, isBypassed, retryAfterMs };
  }
  if ("outcome" in document && expected === 1) {
    return { kind: "ended", outcomes: [outcomeOf(topic, document)], isBypassed, retryAfterMs };
  }
  if (typeof reason !== "string") return foreign(status, body, retryAfterMs);
  const failure = outcomeOf(topic, { outcome: "rejected", ...document });
  if (expected === 1 && "event_id" in document) {
    return { kind: "ended", outcomes: [failure], isBypassed, retryAfterMs }; // not of the request
  }
  if (failure instanceof Rejected) {
    const { detail, retryable } = failure;
    return refused(reason, detail, { retryable, status, retryAfterMs });
  }
  return lost(String(document.detail ?? ""), { reason, status, retryAfterMs });
}

/**
 * Read the outcome of one event.
 *
 * @param {string} topic
 * @param {Readonly<Record<string, unknown>>} found
 * @returns {Outcome}
 */
export function outcomeOf(topic, found) {
  const { outcome: name, reason = "bad_answer", detail = "" } = found;
  const about = { topic, key: keyOf(found), eventId: textOf(found.event_id) };
  const Kind = typeof name === "string" && Object.hasOwn(ENDED_WELL, name) ? ENDED_WELL[name] : null;
  if (Kind) {
    return new Kind({
      ...about,
      partition: wholeOf(found.partition),
      offset: wholeOf(found.offset),
      records: wholeOf(found.records) ?? 0,
      oversize: textOf(found.oversize),
    });
  }
  const why = {
    ...about,
    reason: String(reason),
    detail: String(detail ?? ""),
    status: wholeOf(found.status),
  };
  if (name === "unknown" || reason === "unknown") return new Unknown(why);
  return new Rejected({ ...why, retryable: found.retryable === true });
}

/**
 * Return the milliseconds of a Retry-After, which has seconds or a date; 0 where it has neither.
 *
 * @param {string | null} value
 * @param {number} nowMs Since 1970.
 */
export function retryAfter(value, nowMs) {
  if (value === null) return 0;
  if (SECONDS.test(value)) return Number(value) * 1000;
  const date = Date.parse(value);
  return Number.isNaN(date) ? 0 : Math.max(0, date - nowMs);
}

/**
 * @param {string} body
 * @returns {Record<string, unknown> | null}
 */
function parsed(body) {
  try {
    const found = JSON.parse(body);
    return isObject(found) ? found : null;
  } catch {
    return null;
  }
}

/**
 * @param {unknown} value
 * @returns {value is Record<string, unknown>}
 */
function isObject(value) {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/**
 * Something else than a gateway has answered: a proxy, or another server.
 *
 * @param {number} status
 * @param {string} body
 * @param {number} retryAfterMs
 */
function foreign(status, body, retryAfterMs) {
  const detail = `status ${status} and no answer of Headgate: ${JSON.stringify(body.slice(0, SHOWN))}`;
  if (status >= 500 || (status >= 200 && status < 300)) {
    return lost(detail, { status, retryAfterMs });
  }
  return refused("bad_answer", detail, {
    retryable: TEMPORARY.includes(status),
    status,
    retryAfterMs,
  });
}

/**
 * @param {Readonly<Record<string, unknown>>} found
 * @returns {Key}
 */
function keyOf({ key, key_base64: encoded }) {
  if (typeof encoded !== "string") return textOf(key);
  try {
    return checkedKey(fromBase64(encoded));
  } catch {
    return null;
  }
}

/** @param {unknown} value */
function textOf(value) {
  return typeof value === "string" ? value : null;
}

/** @param {unknown} value */
function wholeOf(value) {
  return Number.isInteger(value) ? /** @type {number} */ (value) : null;
}
