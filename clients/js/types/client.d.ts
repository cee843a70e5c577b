/** Sends events to a gateway, or to several that are alike. */
export class Client {
    /**
     * @param {string | readonly string[]} url Of the gateway, or of several: another one is asked when
     *   one is away or drains.
     * @param {ClientOptions} [options]
     */
    constructor(url: string | readonly string[], options?: ClientOptions);
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
     * Send one event: a JSON value, a `HeadgateEvent` or a `CloudEvent`. Throws InvalidEventError, and
     * then nothing was sent, and ClosedError.
     *
     * @param {string} topic
     * @param {unknown} event
     * @param {SendOptions} [options]
     * @returns {Promise<Outcome>}
     */
    send(topic: string, event: unknown, options?: SendOptions): Promise<Outcome>;
    /**
     * Send events; return an outcome for each, in their order. Many are sent in parts. Throws what
     * `send` throws.
     *
     * @param {string} topic
     * @param {Iterable<unknown>} events
     * @param {SendOptions} [options]
     * @returns {Promise<Outcome[]>}
     */
    sendBatch(topic: string, events: Iterable<unknown>, options?: SendOptions): Promise<Outcome[]>;
    /** End what is under way with what is known of it, also in producers; take no more events. */
    close(): void;
    /**
     * Write an event as a member of a batch.
     *
     * @internal
     * @param {unknown} event
     */
    part(event: unknown): Part;
    #private;
}
export type OwnOptions = {
    retry?: Partial<Retry> | undefined;
    limits?: Partial<Limits> | undefined;
    /**
     * False sends no Idempotency-Keys.
     */
    idempotency?: boolean | undefined;
    /**
     * Give an id to each event that has none; on topics with
     * `dedupe_ttl_s` it is then written once, whatever request brings it.
     */
    eventIds?: boolean | undefined;
    /**
     * Makes JSON of values.
     */
    stringify?: Stringify | undefined;
};
export type ClientOptions = WireOptions & OwnOptions;
export type SendOptions = {
    /**
     * Yours, where the same request may come from elsewhere, too;
     * there is one without it. All events are then in one request.
     */
    idempotencyKey?: string | undefined;
    /**
     * Of this request, as `Headgate-Force`.
     */
    headers?: Readonly<Record<string, string>> | undefined;
    /**
     * Gives up early: what is known by then is the outcome.
     */
    signal?: AbortSignal | undefined;
};
import { Wire } from "./wire.js";
import type { Retry } from "./settings.js";
import type { Limits } from "./settings.js";
declare function newId(): string;
import type { Outcome } from "./outcomes.js";
import type { Part } from "./core/encode.js";
import type { Stringify } from "./core/json.js";
import type { WireOptions } from "./wire.js";
export {};
