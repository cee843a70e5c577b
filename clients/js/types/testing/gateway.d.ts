/** The next request fails as a whole, for this reason. */
export class Refuse {
    /**
     * @param {string} reason
     * @param {{retryAfterS?: number}} [options]
     */
    constructor(reason: string, options?: {
        retryAfterS?: number;
    });
    reason: string;
    retryAfterS: number;
}
/** The connection drops before the response. */
export class Lose {
    /** @param {{isWritten: boolean}} options isWritten: whether the events are written. */
    constructor(options: {
        isWritten: boolean;
    });
    isWritten: boolean;
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
    constructor(reason: string, options?: {
        which?: Which | undefined;
        retryAfterS?: number | undefined;
        isWritten?: boolean | undefined;
        isAnswered?: boolean | undefined;
    });
    reason: string;
    which: Which;
    retryAfterS: number;
    isWritten: boolean;
    isAnswered: boolean;
}
/** Some events of the next request succeed without a new record. */
export class Succeed {
    /**
     * @param {WithoutRecord} outcome `unchanged`, with the place of the newest record of the key (offset
     *   0 without one); or `held` or `spooled`, without a place.
     * @param {object} [options]
     * @param {Which} [options.which] Selects these events by their record and position in the request.
     */
    constructor(outcome: WithoutRecord, options?: {
        which?: Which | undefined;
    });
    outcome: WithoutRecord;
    which: Which;
}
/** Takes events as a gateway does, and keeps them. */
export class FakeGateway {
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
    constructor(options?: {
        keyOf?: KeyOf | undefined;
        dedupe?: boolean | undefined;
        maxBytes?: number | undefined;
    });
    /** @readonly */
    readonly url: "http://headgate.test";
    /** @type {FakeRequest[]} All requests, in their order. */
    requests: FakeRequest[];
    /**
     * Fail the next requests, each by one of these faults.
     *
     * @param {...Fault} faults
     */
    next(...faults: Fault[]): void;
    /** Forget the Idempotency-Keys, as if Redis lost its data: repeats are written again. */
    forget(): void;
    /**
     * Return the records of a topic in their order; all are in partition 0.
     *
     * @param {string} topic
     * @returns {readonly FakeRecord[]}
     */
    records(topic: string): readonly FakeRecord[];
    /**
     * The `fetch` of this gateway, for the client's option of that name.
     *
     * @type {typeof globalThis.fetch}
     */
    fetch: typeof globalThis.fetch;
    #private;
}
/**
 * In the form of the gateway.
 */
export type Outcome = Record<string, unknown>;
export type Fault = Refuse | Lose | FailEvents | Succeed;
export type Which = (record: FakeRecord, place: number) => boolean;
export type KeyOf = (topic: string, value: any) => string | number | bigint | boolean | null | undefined;
export type WithoutRecord = "unchanged" | "held" | "spooled";
import type { FakeRequest } from "./requests.js";
import type { FakeRecord } from "./requests.js";
