/** The gateway in memory; testing.js shows how to use it. */

import { encodeUtf8, isBytes, toBase64 } from "../core/bytes.js";
import { checkNames, checkNumber, checkType, didYouMean } from "../core/names.js";
import { InvalidOptionError } from "../errors.js";
import { keyBytes, laneOf } from "../core/keys.js";
import { FAKE_URL } from "../wire.js";
import { REASONS } from "./reasons.js";
import { RefusedError, checkRequest, faultOf, identityOf, isSame, readRequest, recordsOf } from "./requests.js";

/** @import {FakeRecord, FakeRequest} from "./requests.js" */

/** @typedef {Record<string, unknown>} Outcome In the form of the gateway. */
/** @typedef {Refuse | Lose | FailEvents | Succeed} Fault */
/** @typedef {(record: FakeRecord, place: number) => boolean} Which */
/**
 * @typedef {(topic: string, value: any) => string | number | bigint | boolean | null | undefined} KeyOf
 */
/** @typedef {"unchanged" | "held" | "spooled"} WithoutRecord */

const WITHOUT_RECORD = ["unchanged", "held", "spooled"];
/** @type {Readonly<Record<string, number>>} Of one event; others have 200. */
const STATUSES = { published: 201, held: 202, spooled: 202 };
const KEY_MAX_BYTES = 4096; // http.key_max_bytes
const LARGEST = 5; // paths of an event that is too large

/** @param {unknown} reason */
function checkReason(reason) {
  const names = Object.keys(REASONS);
  if (typeof reason === "string" && names.includes(reason)) return;
  const hint = didYouMean(String(reason), names);
  throw new InvalidOptionError(
    `reason: no gateway has the reason '${reason}'.${hint} The reasons are ${names.join(", ")}.`,
  );
}

/** The next request fails as a whole, for this reason. */
export class Refuse {
  /**
   * @param {string} reason
   * @param {{retryAfterS?: number}} [options]
   */
  constructor(reason, options = {}) {
    checkReason(reason);
    checkNames("Refuse", options, ["retryAfterS"]);
    const { retryAfterS = 0 } = options;
    this.reason = reason;
    this.retryAfterS = retryAfterS;
  }
}

/** The connection drops before the response. */
export class Lose {
  /** @param {{isWritten: boolean}} options isWritten: whether the events are written. */
  constructor(options) {
    checkNames("Lose", options, ["isWritten"]);
    if (typeof options.isWritten !== "boolean") {
      throw new InvalidOptionError("Lose: use { isWritten: true } or { isWritten: false }");
    }
    this.isWritten = options.isWritten;
  }
}

/** Some events of the next request fail. */
export class FailEvents {
  /**
   * @param {string} reason
   * @param {object} [options]
   * @param {Which} [options.which] Selects the events that fail by their record and position in the
   *   request.
   * @param {number} [options.retryAfterS]
   * @param {boolean} [options.isWritten] The events are written in spite of the failure; only for
   *   `unknown`.
   * @param {boolean} [options.isAnswered] False drops the connection, so that the client does not
   *   know which failed.
   */
  constructor(reason, options = {}) {
    checkReason(reason);
    checkNames("FailEvents", options, ["which", "retryAfterS", "isWritten", "isAnswered"]);
    const { which = () => true, retryAfterS = 0, isWritten = false, isAnswered = true } = options;
    checkType("which", which, "function", "a function of a record and its position");
    if (isWritten && reason !== "unknown") {
      throw new InvalidOptionError("isWritten: only events that fail as 'unknown' are written");
    }
    this.reason = reason;
    this.which = which;
    this.retryAfterS = retryAfterS;
    this.isWritten = isWritten;
    this.isAnswered = isAnswered;
  }
}

/** Some events of the next request succeed without a new record. */
export class Succeed {
  /**
   * @param {WithoutRecord} outcome `unchanged`, with the place of the newest record of the key (offset
   *   0 without one); or `held` or `spooled`, without a place.
   * @param {object} [options]
   * @param {Which} [options.which] Selects these events by their record and position in the request.
   */
  constructor(outcome, options = {}) {
    if (!WITHOUT_RECORD.includes(outcome)) {
      const hint = didYouMean(String(outcome), WITHOUT_RECORD);
      throw new InvalidOptionError(
        `outcome: use one of ${WITHOUT_RECORD.join(", ")}, not '${outcome}'.${hint}`,
      );
    }
    checkNames("Succeed", options, ["which"]);
    const { which = () => true } = options;
    checkType("which", which, "function", "a function of a record and its position");
    this.outcome = outcome;
    this.which = which;
  }
}

/** Takes events as a gateway does, and keeps them. */
export class FakeGateway {
  /** @readonly */
  url = FAKE_URL;
  /** @type {FakeRequest[]} All requests, in their order. */
  requests = [];
  #keyOf;
  #dedupe;
  #maxBytes;
  /** @type {Fault[]} */
  #faults = [];
  /** @type {Map<string, FakeRecord[]>} */
  #log = new Map();
  /** @type {Map<string, {content: Uint8Array, outcomes: (Outcome | null)[]}>} */
  #remembered = new Map();
  /** @type {Map<string, {offset: number, content: string}>} By topic, owner of the id, and event id. */
  #ids = new Map();

  /**
   * @param {object} [options]
   * @param {KeyOf} [options.keyOf] The topics' key rule: returns the key of an event without one. As
   *   in a gateway, a key is a string, a whole number or a boolean (`12` and `"12"` are the same key).
   *   Null, undefined or "" fails the event with `missing_key`, another type with `invalid_key`. Bytes
   *   and tombstones need a key. Without the function, only tombstones do.
   * @param {boolean} [options.dedupe] Write each event id once (`dedupe_ttl_s`). An id with
   *   other content fails with `idempotency_mismatch`.
   * @param {number} [options.maxBytes] Size limit of a value, in bytes. A larger event fails with
   *   `too_large`, and with the figures of a gateway. The default has no limit.
   */
  constructor(options = {}) {
    checkNames("FakeGateway", options, ["keyOf", "dedupe", "maxBytes"]);
    const { keyOf, dedupe = false, maxBytes = Infinity } = options;
    checkType("keyOf", keyOf, "function", "a function of topic and value");
    checkType("dedupe", dedupe, "boolean", "true or false");
    checkNumber("maxBytes", maxBytes, 1);
    this.#maxBytes = maxBytes;
    this.#keyOf = keyOf;
    this.#dedupe = dedupe;
  }

  /**
   * Fail the next requests, each by one of these faults.
   *
   * @param {...Fault} faults
   */
  next(...faults) {
    for (const fault of faults) {
      if (![Refuse, Lose, FailEvents, Succeed].some((Kind) => fault instanceof Kind)) {
        const kind = fault === null ? "null" : typeof fault;
        throw new InvalidOptionError(
          `next: use Refuse, Lose, FailEvents or Succeed objects, not ${kind}`,
        );
      }
    }
    this.#faults.push(...faults);
  }

  /** Forget the Idempotency-Keys, as if Redis lost its data: repeats are written again. */
  forget() {
    this.#remembered.clear();
  }

  /**
   * Return the records of a topic in their order; all are in partition 0.
   *
   * @param {string} topic
   * @returns {readonly FakeRecord[]}
   */
  records(topic) {
    return [...(this.#log.get(topic) ?? [])];
  }

  /**
   * The `fetch` of this gateway, for the client's option of that name.
   *
   * @type {typeof globalThis.fetch}
   */
  fetch = async (url, init = {}) => {
    init.signal?.throwIfAborted();
    try {
      const request = await readRequest(String(url), init);
      this.requests.push(request);
      return this.#answer(request, this.#faults.shift() ?? null);
    } catch (error) {
      if (error instanceof RefusedError) return problem(error);
      throw error;
    }
  };

  /**
   * @param {FakeRequest} request
   * @param {Fault | null} fault
   */
  #answer(request, fault) {
    if (fault instanceof Refuse) {
      throw new RefusedError(fault.reason, "as the test wants it", fault.retryAfterS);
    }
    const dropped = new TypeError("the connection dropped");
    if (fault instanceof Lose && !fault.isWritten) throw dropped;
    checkRequest(request.headers);
    const records = recordsOf(request);
    const name = request.headers.get("Idempotency-Key");
    const before = this.#rememberedOf(request, name);
    const remembered = [...before];
    const outcomes = records.map((record, place) => {
      const seen = before[place] ?? null;
      const isSelecting = fault instanceof FailEvents || fault instanceof Succeed;
      const own = isSelecting && !seen && fault.which(record, place) ? fault : null;
      /** @type {Outcome | null} */
      let end = null;
      if (own instanceof Succeed) end = this.#withoutRecord(record, own.outcome);
      else if (own === null || own.isWritten) end = this.#end(record, seen);
      remembered[place] = end === null || "reason" in end ? null : end;
      return own instanceof FailEvents ? this.#failed(record, own.reason) : end ?? {};
    });
    if (name !== null) this.#remembered.set(name, { content: request.content, outcomes: remembered });
    const failing = fault instanceof FailEvents ? fault : null;
    if (fault instanceof Lose || failing?.isAnswered === false) throw dropped;
    const isBatch = (request.headers.get("Content-Type") ?? "").includes("batch");
    return answerOf(outcomes, isBatch, failing?.retryAfterS ?? 0);
  }

  /**
   * Return the good outcomes of an earlier request with the same key.
   *
   * @param {FakeRequest} request
   * @param {string | null} name
   */
  #rememberedOf({ content }, name) {
    const known = name === null ? undefined : this.#remembered.get(name);
    if (known && !isSame(known.content, content)) {
      throw new RefusedError("idempotency_mismatch", "the key is of another request");
    }
    return known?.outcomes ?? [];
  }

  /**
   * Write an event, unless that was done.
   *
   * @param {FakeRecord} given
   * @param {Outcome | null} seen Its outcome under this Idempotency-Key.
   * @returns {Outcome}
   */
  #end(given, seen) {
    if (seen) return { ...seen, outcome: "duplicate", records: 0 };
    const [record, ...refusal] = this.#keyed(given);
    if (refusal.length) return this.#failed(given, ...refusal);
    if (textOf(record.value).length > this.#maxBytes) return this.#failed(record, "too_large");
    const log = this.#log.get(record.topic) ?? [];
    const { owner, contentType } = identityOf(given);
    const name = JSON.stringify([record.topic, owner, record.eventId]);
    const value = toBase64(textOf(record.value));
    const content = JSON.stringify([laneOf(record.key), value, record.isTombstone, contentType]);
    const first = this.#dedupe && record.eventId !== null ? this.#ids.get(name) : undefined;
    if (first && first.content !== content) {
      const detail = "this event id came before with other content";
      return this.#failed(record, "idempotency_mismatch", detail);
    }
    if (first) return placed(record, "duplicate", first.offset, 0);
    this.#log.set(record.topic, [...log, record]);
    this.#ids.set(name, { offset: log.length, content });
    return placed(record, "published", log.length, 1);
  }

  /**
   * Return a success without a new record.
   *
   * @param {FakeRecord} given
   * @param {WithoutRecord} outcome
   * @returns {Outcome}
   */
  #withoutRecord(given, outcome) {
    const [record, ...refusal] = this.#keyed(given);
    if (refusal.length) return this.#failed(given, ...refusal);
    if (outcome === "unchanged") {
      const lane = laneOf(record.key);
      const log = this.#log.get(record.topic) ?? [];
      const newest = log.map(({ key }) => laneOf(key)).lastIndexOf(lane);
      const end = placed(record, outcome, Math.max(newest, 0), 0);
      return { ...end, event_id: record.eventId }; // no record, so no new id
    }
    const eventId = record.eventId ?? crypto.randomUUID();
    return { outcome, ...about(record), event_id: eventId, records: 0 };
  }

  /**
   * Return the record with its key, and the reason and detail if it is refused.
   *
   * @param {FakeRecord} given
   * @returns {[FakeRecord] | [FakeRecord, string, string]}
   */
  #keyed(given) {
    let key = /** @type {unknown} */ (given.key);
    const fault = faultOf(given);
    if (fault !== null) return [given, "malformed", fault];
    if (key === null && given.isTombstone) {
      return [given, "missing_key", "a tombstone has no value with a key"];
    }
    if (key === null && this.#keyOf === undefined) return [given];
    if (key === null && isBytes(given.value)) {
      return [given, "missing_key", "the value is bytes, so the key rule does not apply"];
    }
    if (key === null) key = this.#rule(given);
    if (key === null || key === undefined || key === "") {
      const shown = key === "" ? '""' : key;
      return [given, "missing_key", `the event has no key, and keyOf returned ${shown}`];
    }
    const isWhole = Number.isInteger(key) && !String(key).includes("e");
    if (isWhole || typeof key === "bigint" || typeof key === "boolean") key = String(key);
    if (typeof key !== "string" && !(key instanceof Uint8Array)) {
      const kind = Array.isArray(key) ? "an array" : `the ${typeof key} ${String(key)}`;
      const fix = "a key is a string, a whole number or a boolean";
      return [given, "invalid_key", `keyOf returned ${kind}; ${fix}`];
    }
    if (keyBytes(key).length > KEY_MAX_BYTES) {
      const detail = `the key is longer than http.key_max_bytes = ${KEY_MAX_BYTES}`;
      return [given, "invalid_key", detail];
    }
    return [{ ...given, key }];
  }

  /**
   * @param {FakeRecord} record
   * @returns {unknown}
   */
  #rule({ topic, value }) {
    try {
      return this.#keyOf?.(topic, value);
    } catch (error) {
      throw new InvalidOptionError(
        `keyOf: the function threw ${error} for the value ${JSON.stringify(value)}; ` +
          "return null if there is no key",
      );
    }
  }

  /**
   * @param {FakeRecord} record
   * @param {string} reason
   * @param {string} [detail]
   * @returns {Outcome}
   */
  #failed(record, reason, detail = "as the test wants it") {
    const [status, retryable] = traits(reason);
    const size = textOf(record.value).length;
    const limit = this.#maxBytes === Infinity ? Math.max(size - 1, 0) : this.#maxBytes;
    const figures = { size_bytes: size, limit_bytes: limit, limit: "max_bytes" };
    const isTooLarge = reason === "too_large";
    const isLongKey = reason === "invalid_key" && detail.includes("key_max_bytes");
    return {
      outcome: reason === "unknown" ? "unknown" : "rejected",
      reason,
      status,
      retryable,
      detail: isTooLarge
        ? `${size} bytes are more than the limit of ${limit} bytes (max_bytes)`
        : detail,
      ...(isLongKey ? { limit_bytes: KEY_MAX_BYTES } : {}),
      ...(isTooLarge ? { ...figures, largest_paths: largestPaths(record.value) } : {}),
      ...about(record),
      event_id: record.eventId,
    };
  }
}

/**
 * Return the bytes of a value, as the client writes them.
 *
 * @param {unknown} value
 */
function textOf(value) {
  if (isBytes(value)) return new Uint8Array(/** @type {ArrayBuffer} */ (value));
  return value === null ? new Uint8Array() : encodeUtf8(JSON.stringify(value));
}

/**
 * Return the largest members of an object: JSON Pointer and size.
 *
 * @param {unknown} value
 */
function largestPaths(value) {
  if (typeof value !== "object" || value === null || Array.isArray(value) || isBytes(value)) {
    return [];
  }
  const sizes = Object.entries(value).map(([name, member]) => {
    const path = `/${name.replaceAll("~", "~0").replaceAll("/", "~1")}`;
    return { path, bytes: textOf(member).length };
  });
  return sizes.sort((one, other) => other.bytes - one.bytes).slice(0, LARGEST);
}

/**
 * @param {FakeRecord} record
 * @param {string} outcome
 * @param {number} offset
 * @param {number} records
 * @returns {Outcome}
 */
function placed(record, outcome, offset, records) {
  const eventId = record.eventId ?? crypto.randomUUID();
  return { outcome, partition: 0, offset, ...about(record), event_id: eventId, records };
}

/** @param {FakeRecord} record */
function about({ topic, key }) {
  if (key instanceof Uint8Array) return { topic, key_base64: toBase64(key) };
  return key === null ? { topic } : { topic, key };
}

/** @param {string} reason */
function traits(reason) {
  const found = REASONS[reason];
  if (!found) throw new Error(`no gateway has the reason ${reason}`);
  return found;
}

/**
 * @param {readonly Outcome[]} outcomes
 * @param {boolean} isBatch
 * @param {number} waitS
 */
function answerOf(outcomes, isBatch, waitS) {
  const failures = outcomes.filter((one) => "reason" in one);
  const worst = Math.max(...failures.map(({ status }) => Number(status)));
  const [first = {}] = outcomes;
  const some = isBatch && failures.length < outcomes.length ? 207 : worst;
  const good = isBatch ? 200 : (STATUSES[String(first.outcome)] ?? 200);
  return response(failures.length ? some : good, isBatch ? { outcomes } : first, waitS);
}

/** @param {RefusedError} error */
function problem({ reason, message, retryAfterS }) {
  const [status, retryable] = traits(reason);
  const document = { type: `/problems/${reason}`, status, detail: message, reason, retryable };
  return response(status, document, retryAfterS);
}

/**
 * @param {number} status
 * @param {unknown} document
 * @param {number} waitS
 */
function response(status, document, waitS) {
  const headers = new Headers({ "Content-Type": "application/json" });
  if (waitS) headers.set("Retry-After", String(waitS));
  return new Response(JSON.stringify(document), { status, headers });
}
