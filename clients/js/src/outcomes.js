/**
 * How an event ended: one class for each outcome of the gateway.
 *
 * Every event ends in exactly one of them. What did not end well is returned like the rest, so that
 * a batch can be looked at as a whole; `throwIfFailed()` is there for who prefers exceptions.
 */

import { RejectedError, UnknownOutcomeError } from "./errors.js";

/**
 * @typedef {string | Uint8Array | null} Key Text, or bytes that are no UTF-8.
 * @typedef {Published | Unchanged | Duplicate | Held | Superseded | Spooled} Success
 * @typedef {Rejected | Unknown} Failure
 * @typedef {Success | Failure} Outcome
 */

/**
 * @typedef {object} Place Where an event went.
 * @property {string} topic
 * @property {Key} [key]
 * @property {string | null} [eventId]
 * @property {number | null} [partition] None where there is no record yet.
 * @property {number | null} [offset]
 * @property {number} [records] How many records were written for this event.
 * @property {string | null} [oversize] What an event that was too large became.
 */

/** What all outcomes that ended well have. */
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

  /** Whether the event, or one that is equal to it, is in the topic at a known place. */
  get isWritten() {
    return this.offset !== null;
  }

  /** Return this outcome: it ended well. */
  throwIfFailed() {
    return this;
  }
}

/** In Kafka, acknowledged by all in-sync replicas. */
export class Published extends Succeeded {
  /** @readonly */
  name = /** @type {const} */ ("published");
}

/** Not written again: the newest record of the key has the same content. */
export class Unchanged extends Succeeded {
  /** @readonly */
  name = /** @type {const} */ ("unchanged");
}

/** Done before, under the same event id or Idempotency-Key. */
export class Duplicate extends Succeeded {
  /** @readonly */
  name = /** @type {const} */ ("duplicate");
}

/** Durable, on a topic that coalesces: the newest event of the key is published later. */
export class Held extends Succeeded {
  /** @readonly */
  name = /** @type {const} */ ("held");
}

/** A later event of the key was published instead. */
export class Superseded extends Succeeded {
  /** @readonly */
  name = /** @type {const} */ ("superseded");
}

/** On the gateway's disk: it is published when Kafka is back. */
export class Spooled extends Succeeded {
  /** @readonly */
  name = /** @type {const} */ ("spooled");
}

/**
 * @typedef {object} Why
 * @property {string} topic
 * @property {string} reason
 * @property {string} detail
 * @property {number | null} [status] That of the answer, null where there was none.
 * @property {Key} [key]
 * @property {string | null} [eventId]
 */

/** What both failures have. */
class Failed {
  /** @readonly */
  succeeded = /** @type {const} */ (false);

  /** @param {Why} why */
  constructor({ topic, reason, detail, status = null, key = null, eventId = null }) {
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
  }
}

/**
 * Certainly not written.
 *
 * reason: a word of the gateway's table of reasons; `not_sent`, `unreachable`, `overtaken` and
 * `bad_answer` are this library's.  retryable: whether the same event may succeed later.
 */
export class Rejected extends Failed {
  /** @readonly */
  name = /** @type {const} */ ("rejected");

  /** @param {Why & {retryable: boolean}} why */
  constructor(why) {
    super(why);
    /** @readonly */
    this.retryable = why.retryable;
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
 * Nobody can tell: it may be written, or may still be written later.
 *
 * reason: `unknown` if the gateway said so, `no_answer` if the last answer was lost, `out_of_order`
 * if it is written and an older event of its key may be behind it.
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
