/** @typedef {{outcome: Promise<Outcome>}} Taken */
/** Takes events at once and sends them in batches, in the order of each key. */
export class BufferedProducer {
    /**
     * @param {Client} client
     * @param {ProducerOptions} [options]
     */
    constructor(client: Client, options?: ProducerOptions);
    /** Number of events that have no outcome yet. */
    get events(): number;
    /** Memory of these events, about. */
    get bytes(): number;
    /**
     * Take one event and return a promise of its outcome. The promise is never rejected: a failure is
     * an outcome, too, and is logged. Throws BufferFullError, InvalidEventError, InvalidOptionError or
     * ClosedError; then the event was not taken.
     *
     * @param {string} topic
     * @param {unknown} value A JSON value, `RawJson`, bytes or `TOMBSTONE`; or a `HeadgateEvent` or
     *   `CloudEvent`, which has its own key, id, headers and timestamp.
     * @param {EventFields} [fields]
     * @returns {Promise<Outcome>}
     */
    send(topic: string, value: unknown, fields?: EventFields): Promise<Outcome>;
    /**
     * Wait for room in the buffer, then take the event. Await it: an event that waits for room is not
     * in the buffer. Throws BufferFullError after the time limit.
     *
     * @param {string} topic
     * @param {unknown} value
     * @param {EventFields & WaitOptions} [options]
     * @returns {Promise<Taken>}
     */
    sendWhenRoom(topic: string, value: unknown, options?: EventFields & WaitOptions): Promise<Taken>;
    /**
     * Send all events that were taken so far, and wait for their outcomes.
     *
     * @param {WaitOptions} [options] Time limit; the default has none.
     * @returns {Promise<boolean>} Whether all of them have their outcomes.
     */
    flush(options?: WaitOptions): Promise<boolean>;
    /**
     * Take no more events, and send those that were taken. Events without an outcome at the time limit
     * end as `Rejected` (`not_sent`), or as `Unknown` if their request is under way.
     *
     * @param {WaitOptions} [options]
     * @returns {Promise<boolean>} Whether all events had their outcomes in time.
     */
    close(options?: WaitOptions): Promise<boolean>;
    #private;
}
export type OrderingKey = string | Uint8Array | number | bigint | boolean | null | undefined;
export type ProducerOptions = {
    /**
     * Size of the buffer and of its requests.
     */
    buffering?: Partial<Buffering> | undefined;
    /**
     * Function of topic and value
     * that returns the key of events without `key`: a string, bytes, a whole number, a boolean, or
     * null. Without the function, these events of a topic are sent one request after another.
     */
    orderingKey?: ((topic: string, value: any) => OrderingKey) | undefined;
    /**
     * In a page: send the waiting events when the page is hidden.
     */
    flushWhenHidden?: boolean | undefined;
};
export type Taken = {
    outcome: Promise<Outcome>;
};
import type { EventFields } from "./events.js";
import type { Outcome } from "./outcomes.js";
import type { WaitOptions } from "./waiting.js";
import { Client } from "./client.js";
import type { Buffering } from "./settings.js";
