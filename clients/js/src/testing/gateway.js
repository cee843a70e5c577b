/** The gateway in memory; testing.js shows how to use it. */

import { toBase64 } from "../core/bytes.js";
import { checkNames } from "../core/names.js";
import { REASONS } from "./reasons.js";
import { RefusedError, isSame, readRequest, recordsOf } from "./requests.js";

/** @import {FakeRecord, FakeRequest} from "./requests.js" */

/** @typedef {Record<string, unknown>} Outcome In the form of the gateway. */
/** @typedef {Refuse | Lose | FailEvents} Fault */

/** The next request fails as a whole, for this reason. */
export class Refuse {
  /**
   * @param {string} reason
   * @param {{retryAfterS?: number}} [options]
   */
  constructor(reason, options = {}) {
    checkNames("Refuse", options, ["retryAfterS"]);
    const { retryAfterS = 0 } = options;
    this.reason = reason;
    this.retryAfterS = retryAfterS;
  }
}

/** The connection drops before the response. */
export class Lose {
  /** @param {{isWritten: boolean}} options isWritten: whether the events are written. */
  constructor({ isWritten }) {
    this.isWritten = isWritten;
  }
}

/** Some events of the next request fail. */
export class FailEvents {
  /**
   * @param {string} reason
   * @param {object} [options]
   * @param {(record: FakeRecord, place: number) => boolean} [options.which] Selects the events that
   *   fail by their record and position in the request.
   * @param {number} [options.retryAfterS]
   * @param {boolean} [options.isWritten] The events are written in spite of the failure; only for
   *   `unknown`.
   */
  constructor(reason, options = {}) {
    checkNames("FailEvents", options, ["which", "retryAfterS", "isWritten"]);
    const { which = () => true, retryAfterS = 0, isWritten = false } = options;
    this.reason = reason;
    this.which = which;
    this.retryAfterS = retryAfterS;
    this.isWritten = isWritten;
  }
}

const NO_FAULT = new FailEvents("", { which: () => false });

/** Takes events as a gateway does, and keeps them. */
export class FakeGateway {
  /** @readonly */
  url = "http://headgate.test";
  /** @type {FakeRequest[]} All requests, in their order. */
  requests = [];
  #keyOf;
  #dedupe;
  /** @type {Fault[]} */
  #faults = [];
  /** @type {Map<string, FakeRecord[]>} */
  #log = new Map();
  /** @type {Map<string, {content: Uint8Array, outcomes: (Outcome | null)[]}>} */
  #remembered = new Map();
  /** @type {Map<string, number>} Offsets by topic and event id. */
  #ids = new Map();

  /**
   * @param {object} [options]
   * @param {(topic: string, value: unknown) => string | null} [options.keyOf] Returns the key of an
   *   event without one. Null fails the event with `missing_key`.
   * @param {boolean} [options.dedupe] Write each event id once (`dedupe_ttl_s`).
   */
  constructor(options = {}) {
    checkNames("FakeGateway", options, ["keyOf", "dedupe"]);
    const { keyOf = () => "", dedupe = false } = options;
    this.#keyOf = keyOf;
    this.#dedupe = dedupe;
  }

  /**
   * Fail the next requests, each by one of these faults.
   *
   * @param {...Fault} faults
   */
  next(...faults) {
    this.#faults.push(...faults);
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
      return this.#answer(request, this.#faults.shift() ?? NO_FAULT);
    } catch (error) {
      if (error instanceof RefusedError) return problem(error);
      throw error;
    }
  };

  /**
   * @param {FakeRequest} request
   * @param {Fault} fault
   */
  #answer(request, fault) {
    if (fault instanceof Refuse) {
      throw new RefusedError(fault.reason, "as the test wants it", fault.retryAfterS);
    }
    const dropped = new TypeError("the connection dropped");
    if (fault instanceof Lose && !fault.isWritten) throw dropped;
    const failing = fault instanceof FailEvents ? fault : NO_FAULT;
    const records = recordsOf(request);
    const name = request.headers.get("Idempotency-Key");
    const before = this.#rememberedOf(request, name);
    const remembered = [...before];
    const outcomes = records.map((record, place) => {
      const seen = before[place] ?? null;
      const fails = !seen && failing.which(record, place); // what is remembered fails no more
      const end = fails && !failing.isWritten ? null : this.#end(record, seen);
      remembered[place] = end === null || "reason" in end ? null : end;
      return fails || end === null ? failed(record, failing.reason) : end;
    });
    if (name !== null) this.#remembered.set(name, { content: request.content, outcomes: remembered });
    if (fault instanceof Lose) throw dropped;
    const isBatch = (request.headers.get("Content-Type") ?? "").includes("batch");
    return answerOf(outcomes, isBatch, failing.retryAfterS);
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
    const key = given.key ?? this.#keyOf(given.topic, given.value);
    if (key === null) return failed(given, "missing_key");
    const record = { ...given, key: key || null };
    const log = this.#log.get(record.topic) ?? [];
    const name = `${record.topic}/${record.eventId}`;
    const offset = this.#dedupe && record.eventId !== null ? this.#ids.get(name) : undefined;
    if (offset !== undefined) return placed(record, "duplicate", offset, 0);
    this.#log.set(record.topic, [...log, record]);
    this.#ids.set(name, log.length);
    return placed(record, "published", log.length, 1);
  }
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

/**
 * @param {FakeRecord} record
 * @param {string} reason
 * @returns {Outcome}
 */
function failed(record, reason) {
  const [status, retryable] = traits(reason);
  return {
    outcome: reason === "unknown" ? "unknown" : "rejected",
    reason,
    status,
    retryable,
    detail: "as the test wants it",
    ...about(record),
    event_id: record.eventId,
  };
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
  const good = isBatch || first.outcome !== "published" ? 200 : 201;
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
