/**
 * Return all options, with defaults for those that are missing. Throws InvalidOptionError.
 *
 * @param {Partial<Retry>} [given]
 * @returns {Readonly<Retry>}
 */
export function retryOf(given?: Partial<Retry>): Readonly<Retry>;
/**
 * Return all options, with defaults for those that are missing. Throws InvalidOptionError.
 *
 * @param {Partial<Limits>} [given]
 * @returns {Readonly<Limits>}
 */
export function limitsOf(given?: Partial<Limits>): Readonly<Limits>;
/**
 * Return all options, with defaults for those that are missing. Throws InvalidOptionError.
 *
 * @param {Partial<Buffering>} [given]
 * @returns {Readonly<Buffering>}
 */
export function bufferingOf(given?: Partial<Buffering>): Readonly<Buffering>;
/**
 * Return the wait after attempt 1, 2, ...
 *
 * @param {Readonly<Retry>} retry
 * @param {number} attempt
 * @param {number} retryAfterMs
 * @param {number} share Random, 0 to 1.
 */
export function waitMs(retry: Readonly<Retry>, attempt: number, retryAfterMs: number, share: number): number;
/**
 * When an event is sent again, and when the client gives up.
 */
export type Retry = {
    /**
     * Total time for an event. It begins with the call of `send`. After
     * it, the event is not sent again.
     */
    patienceMs: number;
    /**
     * Base of the random wait. The wait before attempt n + 1 is at most
     * `firstWaitMs * 2**n`, after the time that Retry-After asks for.
     */
    firstWaitMs: number;
    /**
     * Upper limit of the random wait, `firstWaitMs` or more.
     */
    longestWaitMs: number;
    /**
     * False does not send an event again if it may be written. Use it
     * only if the gateway has no Redis and a duplicate does harm.
     */
    repeatUnknown: boolean;
    /**
     * Action for a failed event after a later event of its key
     * was written. "send" writes it behind. "leave_out", for states (only the newest counts), drops it
     * with the reason `overtaken`.
     */
    overtaken: "send" | "leave_out";
};
/**
 * Size of one request. The gateway has limits of its own
 *   (`http.batch_max_events`, `http.body_max_bytes`).
 */
export type Limits = {
    /**
     * Events in one request.
     */
    maxEvents: number;
    /**
     * Bytes of one request before compression. A larger event is sent alone.
     */
    maxBytes: number;
};
/**
 * Buffer of a producer.
 */
export type Buffering = {
    /**
     * Time that an event waits for others, to be sent in one request.
     */
    lingerMs: number;
    /**
     * Events in the buffer that have no outcome yet.
     */
    maxEvents: number;
    /**
     * Approximate memory of these events: the bytes of each, and 1,200 more.
     */
    maxBytes: number;
    /**
     * Concurrent requests.
     */
    inFlight: number;
    /**
     * Never put two events of a key into one request. No event can then be
     * overtaken, and each event of a key costs a round trip.
     */
    onePerKey: boolean;
};
