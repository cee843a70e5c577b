/** @import {FakeRecord, FakeRequest} from "./requests.js" */
/** @typedef {Record<string, unknown>} Outcome As the gateway writes it. */
/** @typedef {Refuse | Lose | FailEvents} Fault */
/** The next request fails as a whole, for this reason. */
export class Refuse {
    /**
     * @param {string} reason
     * @param {{retryAfterS?: number}} [options]
     */
    constructor(reason: string, { retryAfterS }?: {
        retryAfterS?: number;
    });
    reason: string;
    retryAfterS: number;
}
/** The connection drops before the answer. */
export class Lose {
    /** @param {{isWritten: boolean}} options Whether the events are in the log. */
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
     * @param {(record: FakeRecord, place: number) => boolean} [options.which]
     * @param {number} [options.retryAfterS]
     * @param {boolean} [options.isWritten] They are in the log all the same, which only `unknown` may
     *   say.
     */
    constructor(reason: string, { which, retryAfterS, isWritten }?: {
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
     * @param {(topic: string, value: unknown) => string | null} [options.keyOf] The key of an event
     *   that brings none; null is `missing_key`.
     * @param {boolean} [options.dedupe] Whether an event id is written once (`dedupe_ttl_s`).
     */
    constructor({ keyOf, dedupe }?: {
        keyOf?: ((topic: string, value: unknown) => string | null) | undefined;
        dedupe?: boolean | undefined;
    });
    /** @readonly */
    readonly url: "http://headgate.test";
    /** @type {FakeRequest[]} All that came, in their order. */
    requests: FakeRequest[];
    /**
     * Have the next requests fail, each by one of these.
     *
     * @param {...Fault} faults
     */
    next(...faults: Fault[]): void;
    /**
     * Return what was written to a topic, in its order; all of it is in partition 0.
     *
     * @param {string} topic
     * @returns {readonly FakeRecord[]}
     */
    records(topic: string): readonly FakeRecord[];
    /**
     * For the client's option of this name.
     *
     * @type {typeof globalThis.fetch}
     */
    fetch: typeof globalThis.fetch;
    #private;
}
/**
 * As the gateway writes it.
 */
export type Outcome = Record<string, unknown>;
export type Fault = Refuse | Lose | FailEvents;
import type { FakeRecord } from "./requests.js";
import type { FakeRequest } from "./requests.js";
