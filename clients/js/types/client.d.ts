/** Sends events and returns the outcome of each. */
export class Client {
    /**
     * Throws InvalidOptionError.
     *
     * @param {Url | Iterable<Url>} url URL of the gateway, or several. If one gateway is unavailable or
     *   drains, the client uses the next one.
     * @param {ClientOptions} [options]
     */
    constructor(url: Url | Iterable<Url>, options?: ClientOptions);
    /** @internal */
    wire: Wire;
    /** @internal */
    rules: {
        retry: Readonly<Retry>;
        limits: Readonly<Limits>;
        chances: {
            share: () => number;
            newKey: typeof newId | null;
        };
    };
    /**
     * Send one event and return its outcome. Throws InvalidEventError, InvalidOptionError or
     * ClosedError; then nothing was sent.
     *
     * @param {string} topic
     * @param {unknown} value A JSON value, `RawJson`, bytes or `TOMBSTONE`; or a `HeadgateEvent` or
     *   `CloudEvent`, which has its own key, id, headers and timestamp.
     * @param {SendOptions} [options]
     * @returns {Promise<Outcome>}
     */
    send(topic: string, value: unknown, options?: SendOptions): Promise<Outcome>;
    /**
     * Send events and return an outcome for each, in their order. Many events are sent in several
     * requests. Throws the errors of `send`.
     *
     * @param {string} topic
     * @param {Iterable<unknown>} events Values, `HeadgateEvent` or `CloudEvent` objects.
     * @param {RequestOptions} [options]
     * @returns {Promise<Outcome[]>}
     */
    sendBatch(topic: string, events: Iterable<unknown>, options?: RequestOptions): Promise<Outcome[]>;
    /** Take no more events. Events under way end with the best knowledge, also in producers. */
    close(): void;
    /**
     * Encode an event as a member of a batch.
     *
     * @internal
     * @param {unknown} event
     */
    part(event: unknown): Part;
    #private;
}
export type OwnOptions = {
    /**
     * Retries and their time limit.
     */
    retry?: Partial<Retry> | undefined;
    /**
     * Size of one request.
     */
    limits?: Partial<Limits> | undefined;
    /**
     * False sends no Idempotency-Key. A retry may then write an event
     * twice.
     */
    idempotency?: boolean | undefined;
    /**
     * Give each event without an id a new one. A topic with
     * `dedupe_ttl_s` then writes each event once, also if it arrives in several requests.
     */
    eventIds?: boolean | undefined;
    /**
     * Function that encodes values as JSON.
     */
    stringify?: Stringify | undefined;
};
export type ClientOptions = WireOptions & OwnOptions;
export type RequestOptions = {
    /**
     * Idempotency-Key of the request, if other programs may send the
     * same request. The default is a new one. All events are then in one request.
     */
    idempotencyKey?: string | undefined;
    /**
     * HTTP headers of the request, such as
     * `Headgate-Force`.
     */
    requestHeaders?: Readonly<Record<string, string>> | undefined;
    /**
     * Gives up early, with the best knowledge of each event.
     */
    signal?: AbortSignal | undefined;
};
export type SendOptions = EventFields & RequestOptions;
import { Wire } from "./wire.js";
import type { Retry } from "./settings.js";
import type { Limits } from "./settings.js";
declare function newId(): string;
import type { Outcome } from "./outcomes.js";
import type { Part } from "./core/encode.js";
import type { Url } from "./wire.js";
import type { Stringify } from "./core/json.js";
import type { WireOptions } from "./wire.js";
import type { EventFields } from "./events.js";
export {};
