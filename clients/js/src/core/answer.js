/**
 * Reads the gateway's response.
 *
 * The result is one of three: an outcome for each event, a refusal of the whole request, or nothing.
 */

import { Duplicate, Held, Published, Rejected, Spooled, Unchanged, Unknown } from "../outcomes.js";
import { fromBase64 } from "./bytes.js";
import { checkedKey } from "./keys.js";
import { counted } from "./wording.js";

/** @import {Figures, Key, Outcome} from "../outcomes.js" */
/** @import {Hide} from "./headers.js" */

/**
 * @typedef {object} Ended The gateway returned an outcome for each event.
 * @property {"ended"} kind
 * @property {Outcome[]} outcomes
 * @property {boolean} isBypassed The gateway could not check the Idempotency-Key.
 * @property {number} retryAfterMs
 */

/**
 * @typedef {object} Refused The request failed as a whole. This attempt wrote nothing.
 * @property {"refused"} kind
 * @property {string} reason
 * @property {string} detail
 * @property {boolean} retryable
 * @property {number | null} status
 * @property {number} retryAfterMs
 * @property {Figures} figures Fields of `Rejected` beside these.
 * @property {Key} key Record key, if the response names it.
 */

/**
 * @typedef {object} Lost No usable response: the events may or may not be written.
 * @property {"lost"} kind
 * @property {string} reason `unknown` if the gateway returned that, `unreachable` if there was no
 *   connection, else `no_answer`.
 * @property {string} detail
 * @property {boolean} wasSent False if no byte was sent.
 * @property {boolean} isUnknownHost The name of the host does not resolve.
 * @property {boolean} isFinal Another attempt would fail in the same way.
 * @property {number | null} status
 * @property {number} retryAfterMs
 * @property {string | null} requestId
 */

/** @typedef {Ended | Refused | Lost} Answer */

/** @type {Readonly<Record<string, new (place: import("../outcomes.js").Place) => Outcome>>} */
const ENDED_WELL = {
  published: Published,
  unchanged: Unchanged,
  duplicate: Duplicate,
  held: Held,
  spooled: Spooled,
};
export const NEW_OUTCOME = "bad_answer"; // reason of an outcome that this version does not know
// How a gateway ends the detail of a missing key: with the header that gives one.
const KEY_HEADERS = [". The header Headgate-Key can also give the key", ": send Headgate-Key"];
const TEMPORARY = [408, 425, 429]; // statuses of proxies that may pass
const SHOWN = 200; // characters of a body
const READ = 10_000; // characters in which secrets are hidden before that
const SECONDS = /^\s*\d{1,9}\s*$/;

/**
 * Return a refusal.
 *
 * @param {string} reason
 * @param {string} detail
 * @param {{retryable: boolean} & Partial<Omit<Refused, "kind" | "reason" | "detail">>} more
 * @returns {Refused}
 */
export function refused(reason, detail, more) {
  const usual = { status: null, retryAfterMs: 0, figures: {}, key: null };
  return { kind: "refused", reason, detail, ...usual, ...more };
}

/**
 * Return a lost answer.
 *
 * @param {string} detail
 * @param {Partial<Omit<Lost, "kind" | "detail">>} more
 * @returns {Lost}
 */
export function lost(detail, more = {}) {
  const usual = { reason: "no_answer", wasSent: true, isUnknownHost: false, isFinal: false };
  const response = { status: null, retryAfterMs: 0, requestId: null };
  return { kind: "lost", detail, ...usual, ...response, ...more };
}

/**
 * @typedef {object} Raw The HTTP response.
 * @property {number} status
 * @property {string} body
 * @property {(name: string) => string | null} header
 */

/**
 * Read the response to a request with so many events.
 *
 * @param {string} topic
 * @param {number} expected
 * @param {Raw} raw
 * @param {number} nowMs Since 1970.
 * @param {Hide} [hide] Removes secrets from a text.
 * @returns {Answer}
 */
export function readAnswer(topic, expected, { status, body, header }, nowMs, hide = String) {
  const requestId = header("x-request-id");
  const retryAfterMs = retryAfter(header("retry-after"), nowMs);
  const document = parsed(body);
  const about = { status, retryAfterMs, requestId };
  if (document === null) return foreign(hide(body.slice(0, READ)), about);
  const isBypassed = header("idempotency-bypassed") !== null;
  const { outcomes, reason } = document;
  if (Array.isArray(outcomes)) {
    if (outcomes.length !== expected || !outcomes.every(isObject)) {
      const detail = `${counted(outcomes.length, "outcome")} for ${counted(expected, "event")}`;
      return lost(detail, { status, requestId });
    }
    const all = outcomes.map((one) => outcomeOf(topic, one, requestId, hide));
    return { kind: "ended", outcomes: all, isBypassed, retryAfterMs };
  }
  if ("outcome" in document && expected === 1) {
    const outcome = outcomeOf(topic, document, requestId, hide);
    return { kind: "ended", outcomes: [outcome], isBypassed, retryAfterMs };
  }
  if (typeof reason !== "string") return foreign(hide(body.slice(0, READ)), about);
  const failure = outcomeOf(topic, { outcome: "rejected", ...document }, requestId, hide);
  if (expected === 1 && "event_id" in document) {
    return { kind: "ended", outcomes: [failure], isBypassed, retryAfterMs }; // not of the request
  }
  if (failure instanceof Rejected) {
    const { detail, retryable } = failure;
    const key = expected === 1 ? failure.key : null;
    const figures = figuresOf(document, requestId);
    return refused(reason, detail, { retryable, status, retryAfterMs, figures, key });
  }
  return lost(hide(String(document.detail ?? "")), { reason, ...about });
}

/**
 * Read the outcome of one event.
 *
 * @param {string} topic
 * @param {Readonly<Record<string, unknown>>} found
 * @param {string | null} requestId
 * @param {Hide} hide
 * @returns {Outcome}
 */
function outcomeOf(topic, found, requestId, hide) {
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
    detail: withFix(String(reason), hide(String(detail ?? ""))),
    status: wholeOf(found.status),
    requestId,
  };
  if (name !== "rejected" && name !== "unknown") {
    const newer =
      `this version of the client does not know the outcome ${JSON.stringify(name)}, so the event ` +
      "may be written: update headgate-client";
    return new Unknown({ ...why, reason: NEW_OUTCOME, detail: newer });
  }
  if (name === "unknown" || reason === "unknown") return new Unknown(why);
  return new Rejected({ ...why, ...figuresOf(found, requestId), retryable: found.retryable === true });
}

/**
 * Return a detail that names the option of this library: the fixes of a gateway are headers.
 *
 * @param {string} reason
 * @param {string} detail
 */
function withFix(reason, detail) {
  if (reason === "missing_key") {
    const header = KEY_HEADERS.find((end) => detail.endsWith(end)) ?? "";
    return `${detail.slice(0, detail.length - header.length)}; send the event with { key }`;
  }
  const isTokenMissing = reason === "unauthenticated" && detail.includes("Authorization: Bearer");
  return isTokenMissing ? `${detail} (in the JavaScript client: the option token)` : detail;
}

/**
 * Return the fields of `Rejected` that few answers have.
 *
 * @param {Readonly<Record<string, any>>} found
 * @param {string | null} requestId
 * @returns {Figures}
 */
function figuresOf({ size_bytes, limit_bytes, largest_paths, violations }, requestId) {
  return {
    requestId,
    sizeBytes: wholeOf(size_bytes),
    limitBytes: wholeOf(limit_bytes),
    largestPaths: Array.isArray(largest_paths) ? largest_paths : [],
    violations: (Array.isArray(violations) ? violations : []).map(
      ({ path, schema_path: schemaPath, detail }) => ({ path, schemaPath, detail }),
    ),
  };
}

/**
 * Return the milliseconds of a Retry-After, which has seconds or a date; else 0.
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
 * Return the answer for a response of a proxy or another server.
 *
 * @param {string} text The begin of its body.
 * @param {{status: number, retryAfterMs: number, requestId: string | null}} about
 */
function foreign(text, { status, retryAfterMs, requestId }) {
  const shown = JSON.stringify(text.slice(0, SHOWN));
  const detail = `status ${status}, not a response of Headgate: ${shown}`;
  if (status >= 500 || (status >= 200 && status < 300)) {
    return lost(detail, { status, retryAfterMs, requestId });
  }
  return refused("bad_answer", detail, {
    retryable: TEMPORARY.includes(status),
    status,
    retryAfterMs,
    figures: { requestId },
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
