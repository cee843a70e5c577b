/**
 * Outcomes of events: one class for each outcome of the gateway.
 *
 * Every event has exactly one outcome. Failures are returned like the rest, so that a program can
 * look at a batch as a whole. `throwIfFailed()` turns a failure into an error.
 */

import { RejectedError, UnknownOutcomeError } from "./errors.js";

/**
 * @typedef {string | Uint8Array | null} Key Text, or bytes that are not UTF-8.
 * @typedef {Published | Unchanged | Duplicate | Held | Spooled} Success
 * @typedef {Rejected | Unknown} Failure
 * @typedef {Success | Failure} Outcome
 */

/**
 * @typedef {object} Place Fields of a successful outcome.
 * @property {string} topic Kafka topic.
 * @property {Key} [key] Record key as text, or as bytes if it is not UTF-8. Null if there is none, or
 *   if only the gateway knows it.
 * @property {string | null} [eventId] Id of the event, null without one.
 * @property {number | null} [partition] Partition of the record, null if it has none yet.
 * @property {number | null} [offset] Offset of the record, null if it has none yet.
 * @property {number} [records] Number of records that were written for this event.
 * @property {string | null} [oversize] Form of an event that was too large (`claim-check`, `split`,
 *   ...).
 */

/** Base class of successful outcomes. */
class Succeeded {
  /** @readonly */
  succeeded = /** @type {const} */ (true);
  /** @readonly */
  retryable = /** @type {const} */ (false);

  /** @param {Place} place */
  constructor({
    topic,
    key = null,
    eventId = null,
    partition = null,
    offset = null,
    records = 0,
    oversize = null,
  }) {
    /** @readonly */
    this.topic = topic;
    /** @readonly */
    this.key = key;
    /** @readonly */
    this.eventId = eventId;
    /** @readonly */
    this.partition = partition;
    /** @readonly */
    this.offset = offset;
    /** @readonly */
    this.records = records;
    /** @readonly */
    this.oversize = oversize;
  }

  /** Whether a record of the topic has this content, and its offset is known. */
  get isWritten() {
    return this.offset !== null;
  }

  /** Return this outcome: it is successful. */
  throwIfFailed() {
    return this;
  }
}

/** The record is in Kafka, acknowledged by all in-sync replicas. */
export class Published extends Succeeded {
  /** @readonly */
  name = /** @type {const} */ ("published");
}

/** The event was not written: the newest record of its key has the same content. */
export class Unchanged extends Succeeded {
  /** @readonly */
  name = /** @type {const} */ ("unchanged");
}

/** The event was written before, with the same event id or Idempotency-Key. */
export class Duplicate extends Succeeded {
  /** @readonly */
  name = /** @type {const} */ ("duplicate");
}

/** The event is durable on a topic that coalesces; the newest of its key is published later. */
export class Held extends Succeeded {
  /** @readonly */
  name = /** @type {const} */ ("held");
}

/** The event is on the gateway's disk, and is published when Kafka recovers. */
export class Spooled extends Succeeded {
  /** @readonly */
  name = /** @type {const} */ ("spooled");
}

/**
 * @typedef {object} Why Fields of a failure.
 * @property {string} topic
 * @property {string} reason A reason of the gateway, or one of this library: `not_sent`,
 *   `unreachable`, `overtaken`, `bad_answer`, `no_answer` or `out_of_order`.
 * @property {string} detail Text that explains the reason.
 * @property {number | null} [status] HTTP status of the response, null without one.
 * @property {Key} [key]
 * @property {string | null} [eventId]
 * @property {string | null} [requestId] Id of the request in the gateway's log, null without a
 *   response.
 */

/**
 * @typedef {{path: string, bytes: number}} LargePath
 * @typedef {{path: string, schemaPath: string, detail: string}} Violation
 */

/**
 * @typedef {object} Figures Fields of `Rejected` that few answers have.
 * @property {number | null} [sizeBytes] Size of an event that is too large.
 * @property {number | null} [limitBytes] The limit that the event exceeds.
 * @property {readonly LargePath[]} [largestPaths] Largest parts of an event that is too large, with
 *   `path` and `bytes`.
 * @property {readonly Violation[]} [violations] Places that do not fit the schema, with `path`,
 *   `schemaPath` and `detail`.
 * @property {string | null} [requestId]
 */

/** Base class of both failures. */
class Failed {
  /** @readonly */
  succeeded = /** @type {const} */ (false);

  /** @param {Why} why */
  constructor({ topic, reason, detail, status = null, key = null, eventId = null, requestId = null }) {
    /** @readonly */
    this.topic = topic;
    /** @readonly */
    this.reason = reason;
    /** @readonly */
    this.detail = detail;
    /** @readonly */
    this.status = status;
    /** @readonly */
    this.key = key;
    /** @readonly */
    this.eventId = eventId;
    /** @readonly */
    this.requestId = requestId;
  }
}

/**
 * The event was certainly not written.
 *
 * `reason` is a reason of the gateway, or `not_sent`, `unreachable`, `overtaken` or `bad_answer` of
 * this library. `retryable` says whether the same event may succeed later.
 */
export class Rejected extends Failed {
  /** @readonly */
  name = /** @type {const} */ ("rejected");

  /** @param {Why & Figures & {retryable: boolean}} why */
  constructor(why) {
    super(why);
    const { retryable, sizeBytes = null, limitBytes = null, largestPaths = [], violations = [] } = why;
    /** @readonly */
    this.retryable = retryable;
    /** @readonly */
    this.sizeBytes = sizeBytes;
    /** @readonly */
    this.limitBytes = limitBytes;
    /** @readonly */
    this.largestPaths = largestPaths;
    /** @readonly */
    this.violations = violations;
  }

  /** @returns {false} */
  get isWritten() {
    return false;
  }

  /**
   * Throw RejectedError.
   *
   * @returns {never}
   */
  throwIfFailed() {
    throw new RejectedError(this);
  }
}

/**
 * The event may or may not be written, now or later.
 *
 * `reason` is `unknown` if the gateway returned that, `no_answer` if the last response was lost,
 * `bad_answer` if a newer gateway returned an outcome that this version does not know, and
 * `out_of_order` if the event is written and an older one of its key may be behind it. If
 * an earlier attempt may have written the event, it can also be the reason of the last refusal.
 */
export class Unknown extends Failed {
  /** @readonly */
  name = /** @type {const} */ ("unknown");
  /** @readonly */
  retryable = /** @type {const} */ (true);

  /** @returns {null} */
  get isWritten() {
    return null;
  }

  /**
   * Throw UnknownOutcomeError.
   *
   * @returns {never}
   */
  throwIfFailed() {
    throw new UnknownOutcomeError(this);
  }
}
