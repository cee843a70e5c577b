/** In Kafka, acknowledged by all in-sync replicas. */
export class Published extends Succeeded {
    /** @readonly */
    readonly name: "published";
}
/** Not written again: the newest record of the key has the same content. */
export class Unchanged extends Succeeded {
    /** @readonly */
    readonly name: "unchanged";
}
/** Done before, under the same event id or Idempotency-Key. */
export class Duplicate extends Succeeded {
    /** @readonly */
    readonly name: "duplicate";
}
/** Durable, on a topic that coalesces: the newest event of the key is published later. */
export class Held extends Succeeded {
    /** @readonly */
    readonly name: "held";
}
/** A later event of the key was published instead. */
export class Superseded extends Succeeded {
    /** @readonly */
    readonly name: "superseded";
}
/** On the gateway's disk: it is published when Kafka is back. */
export class Spooled extends Succeeded {
    /** @readonly */
    readonly name: "spooled";
}
/**
 * Certainly not written.
 *
 * reason: a word of the gateway's table of reasons; `not_sent`, `unreachable`, `overtaken` and
 * `bad_answer` are this library's.  retryable: whether the same event may succeed later.
 */
export class Rejected extends Failed {
    /** @param {Why & {retryable: boolean}} why */
    constructor(why: Why & {
        retryable: boolean;
    });
    /** @readonly */
    readonly name: "rejected";
    /** @readonly */
    readonly retryable: boolean;
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
 * Nobody can tell: it may be written, or may still be written later.
 *
 * reason: `unknown` if the gateway said so, `no_answer` if the last answer was lost, `out_of_order`
 * if it is written and an older event of its key may be behind it.
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
 * Text, or bytes that are no UTF-8.
 */
export type Key = string | Uint8Array | null;
export type Success = Published | Unchanged | Duplicate | Held | Superseded | Spooled;
export type Failure = Rejected | Unknown;
export type Outcome = Success | Failure;
/**
 * Where an event went.
 */
export type Place = {
    topic: string;
    key?: Key | undefined;
    eventId?: string | null | undefined;
    /**
     * None where there is no record yet.
     */
    partition?: number | null | undefined;
    offset?: number | null | undefined;
    /**
     * How many records were written for this event.
     */
    records?: number | undefined;
    /**
     * What an event that was too large became.
     */
    oversize?: string | null | undefined;
};
export type Why = {
    topic: string;
    reason: string;
    detail: string;
    /**
     * That of the answer, null where there was none.
     */
    status?: number | null | undefined;
    key?: Key | undefined;
    eventId?: string | null | undefined;
};
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
    /** Whether the event, or one that is equal to it, is in the topic at a known place. */
    get isWritten(): boolean;
    /** Return this outcome: it ended well. */
    throwIfFailed(): this;
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
declare class Failed {
    /** @param {Why} why */
    constructor({ topic, reason, detail, status, key, eventId }: Why);
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
}
export {};
