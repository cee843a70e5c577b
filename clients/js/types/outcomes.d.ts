/** The record is in Kafka, acknowledged by all in-sync replicas. */
export class Published extends Succeeded {
    /** @readonly */
    readonly name: "published";
}
/** The event was not written: the newest record of its key has the same content. */
export class Unchanged extends Succeeded {
    /** @readonly */
    readonly name: "unchanged";
}
/** The event was written before, with the same event id or Idempotency-Key. */
export class Duplicate extends Succeeded {
    /** @readonly */
    readonly name: "duplicate";
}
/** The event is durable on a topic that coalesces; the newest of its key is published later. */
export class Held extends Succeeded {
    /** @readonly */
    readonly name: "held";
}
/** The event is on the gateway's disk, and is published when Kafka recovers. */
export class Spooled extends Succeeded {
    /** @readonly */
    readonly name: "spooled";
}
/**
 * The event was certainly not written.
 *
 * `reason` is a reason of the gateway, or `not_sent`, `unreachable`, `overtaken` or `bad_answer` of
 * this library. `retryable` says whether the same event may succeed later.
 */
export class Rejected extends Failed {
    /** @param {Why & Figures & {retryable: boolean}} why */
    constructor(why: Why & Figures & {
        retryable: boolean;
    });
    /** @readonly */
    readonly name: "rejected";
    /** @readonly */
    readonly retryable: boolean;
    /** @readonly */
    readonly sizeBytes: number | null;
    /** @readonly */
    readonly limitBytes: number | null;
    /** @readonly */
    readonly largestPaths: readonly LargePath[];
    /** @readonly */
    readonly violations: readonly Violation[];
    /** @returns {false} */
    get isWritten(): false;
    /**
     * Throw RejectedError.
     *
     * @returns {never}
     */
    throwIfFailed(): never;
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
    readonly name: "unknown";
    /** @readonly */
    readonly retryable: true;
    /** @returns {null} */
    get isWritten(): null;
    /**
     * Throw UnknownOutcomeError.
     *
     * @returns {never}
     */
    throwIfFailed(): never;
}
/**
 * Text, or bytes that are not UTF-8.
 */
export type Key = string | Uint8Array | null;
export type Success = Published | Unchanged | Duplicate | Held | Spooled;
export type Failure = Rejected | Unknown;
export type Outcome = Success | Failure;
/**
 * Fields of a successful outcome.
 */
export type Place = {
    /**
     * Kafka topic.
     */
    topic: string;
    /**
     * Record key as text, or as bytes if it is not UTF-8. Null if there is none, or
     * if only the gateway knows it.
     */
    key?: Key | undefined;
    /**
     * Id of the event, null without one.
     */
    eventId?: string | null | undefined;
    /**
     * Partition of the record, null if it has none yet.
     */
    partition?: number | null | undefined;
    /**
     * Offset of the record, null if it has none yet.
     */
    offset?: number | null | undefined;
    /**
     * Number of records that were written for this event.
     */
    records?: number | undefined;
    /**
     * Form of an event that was too large (`claim-check`, `split`,
     * ...).
     */
    oversize?: string | null | undefined;
};
/**
 * Fields of a failure.
 */
export type Why = {
    topic: string;
    /**
     * A reason of the gateway, or one of this library: `not_sent`,
     * `unreachable`, `overtaken`, `bad_answer`, `no_answer` or `out_of_order`.
     */
    reason: string;
    /**
     * Text that explains the reason.
     */
    detail: string;
    /**
     * HTTP status of the response, null without one.
     */
    status?: number | null | undefined;
    key?: Key | undefined;
    eventId?: string | null | undefined;
    /**
     * Id of the request in the gateway's log, null without a
     * response.
     */
    requestId?: string | null | undefined;
};
export type LargePath = {
    path: string;
    bytes: number;
};
export type Violation = {
    path: string;
    schemaPath: string;
    detail: string;
};
/**
 * Fields of `Rejected` that few answers have.
 */
export type Figures = {
    /**
     * Size of an event that is too large.
     */
    sizeBytes?: number | null | undefined;
    /**
     * The limit that the event exceeds.
     */
    limitBytes?: number | null | undefined;
    /**
     * Largest parts of an event that is too large, with
     * `path` and `bytes`.
     */
    largestPaths?: readonly LargePath[] | undefined;
    /**
     * Places that do not fit the schema, with `path`,
     * `schemaPath` and `detail`.
     */
    violations?: readonly Violation[] | undefined;
    requestId?: string | null | undefined;
};
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
declare class Succeeded {
    /** @param {Place} place */
    constructor({ topic, key, eventId, partition, offset, records, oversize, }: Place);
    /** @readonly */
    readonly succeeded: true;
    /** @readonly */
    readonly retryable: false;
    /** @readonly */
    readonly topic: string;
    /** @readonly */
    readonly key: Key;
    /** @readonly */
    readonly eventId: string | null;
    /** @readonly */
    readonly partition: number | null;
    /** @readonly */
    readonly offset: number | null;
    /** @readonly */
    readonly records: number;
    /** @readonly */
    readonly oversize: string | null;
    /** Whether a record of the topic has this content, and its offset is known. */
    get isWritten(): boolean;
    /** Return this outcome: it is successful. */
    throwIfFailed(): this;
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
declare class Failed {
    /** @param {Why} why */
    constructor({ topic, reason, detail, status, key, eventId, requestId }: Why);
    /** @readonly */
    readonly succeeded: false;
    /** @readonly */
    readonly topic: string;
    /** @readonly */
    readonly reason: string;
    /** @readonly */
    readonly detail: string;
    /** @readonly */
    readonly status: number | null;
    /** @readonly */
    readonly key: Key;
    /** @readonly */
    readonly eventId: string | null;
    /** @readonly */
    readonly requestId: string | null;
}
export {};
