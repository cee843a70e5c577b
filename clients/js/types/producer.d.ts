/** @import {Client} from "./client.js" */
/** @import {EndedEntry} from "./core/outbox.js" */
/** @import {Outcome} from "./outcomes.js" */
/** @import {Buffering} from "./settings.js" */
/** @import {WaitOptions} from "./waiting.js" */
/**
 * @typedef {object} ProducerOptions
 * @property {Partial<Buffering>} [buffering]
 * @property {(topic: string, event: unknown) => string | Uint8Array | null} [laneOf] For events
 *   without a key of their own: what their order hangs on, as the value at the topic's pointer.
 *   Without it all such events of a topic go one request after another.
 * @property {boolean} [flushWhenHidden] In a page: send what is there when its reader leaves it.
 */
/** @typedef {{outcome: Promise<Outcome>}} Taken */
/** Takes events at once and sends them in batches, in the order of each key. */
export class BufferedProducer {
    /**
     * @param {Client} client
     * @param {ProducerOptions} [options]
     */
    constructor(client: Client, options?: ProducerOptions);
    /** How many events have no outcome yet. */
    get events(): number;
    /** About what they take in memory. */
    get bytes(): number;
    /**
     * Take an event: a JSON value, a `HeadgateEvent` or a `CloudEvent`. The promise has its outcome,
     * and is never rejected. Throws BufferFullError, InvalidEventError or ClosedError, and then nothing
     * was taken.
     *
     * @param {string} topic
     * @param {unknown} event
     * @returns {Promise<Outcome>}
     */
    send(topic: string, event: unknown): Promise<Outcome>;
    /**
     * Wait for room, then take the event. Await it: what waits for room is in no buffer.
     *
     * @param {string} topic
     * @param {unknown} event
     * @param {WaitOptions} [options] How long to wait; then it throws BufferFullError.
     * @returns {Promise<Taken>}
     */
    sendWhenRoom(topic: string, event: unknown, options?: WaitOptions): Promise<Taken>;
    /**
     * Send what is there without waiting for more; return whether all of it has ended in time.
     *
     * @param {WaitOptions} [options]
     * @returns {Promise<boolean>}
     */
    flush(options?: WaitOptions): Promise<boolean>;
    /**
     * Take no more events, and flush. What has not ended then ends as `not_sent` or unknown.
     *
     * @param {WaitOptions} [options]
     * @returns {Promise<boolean>} Whether all events ended by themselves.
     */
    close(options?: WaitOptions): Promise<boolean>;
    #private;
}
export type ProducerOptions = {
    buffering?: Partial<Buffering> | undefined;
    /**
     * For events
     * without a key of their own: what their order hangs on, as the value at the topic's pointer.
     * Without it all such events of a topic go one request after another.
     */
    laneOf?: ((topic: string, event: unknown) => string | Uint8Array | null) | undefined;
    /**
     * In a page: send what is there when its reader leaves it.
     */
    flushWhenHidden?: boolean | undefined;
};
export type Taken = {
    outcome: Promise<Outcome>;
};
import type { Outcome } from "./outcomes.js";
import type { WaitOptions } from "./waiting.js";
import type { Client } from "./client.js";
import type { Buffering } from "./settings.js";
