/** @import {FakeRecord, FakeRequest} from "./requests.js" */
/** @typedef {Record<string, unknown>} Outcome In the form of the gateway. */
/** @typedef {Refuse | Lose | FailEvents} Fault */
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
    constructor({ isWritten }: {
        isWritten: boolean;
    });
    isWritten: boolean;
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
    constructor(reason: string, options?: {
        which?: ((record: FakeRecord, place: number) => boolean) | undefined;
        retryAfterS?: number | undefined;
        isWritten?: boolean | undefined;
    });
    reason: string;
    which: (record: FakeRecord, place: number) => boolean;
    retryAfterS: number;
    isWritten: boolean;
}
/** Takes events as a gateway does, and keeps them. */
export class FakeGateway {
    /**
     * @param {object} [options]
     * @param {(topic: string, value: unknown) => string | null} [options.keyOf] Returns the key of an
     *   event without one. Null fails the event with `missing_key`.
     * @param {boolean} [options.dedupe] Write each event id once (`dedupe_ttl_s`).
     */
    constructor(options?: {
        keyOf?: ((topic: string, value: unknown) => string | null) | undefined;
        dedupe?: boolean | undefined;
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
export type Fault = Refuse | Lose | FailEvents;
import type { FakeRecord } from "./requests.js";
import type { FakeRequest } from "./requests.js";
