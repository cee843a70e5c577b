/**
 * Return all options, the usual ones for those that are not given. Throws InvalidEventError.
 *
 * @param {Partial<Retry>} [given]
 * @returns {Readonly<Retry>}
 */
export function retryOf(given?: Partial<Retry>): Readonly<Retry>;
/**
 * Return all options, the usual ones for those that are not given. Throws InvalidEventError.
 *
 * @param {Partial<Limits>} [given]
 * @returns {Readonly<Limits>}
 */
export function limitsOf(given?: Partial<Limits>): Readonly<Limits>;
/**
 * Return all options, the usual ones for those that are not given. Throws InvalidEventError.
 *
 * @param {Partial<Buffering>} [given]
 * @returns {Readonly<Buffering>}
 */
export function bufferingOf(given?: Partial<Buffering>): Readonly<Buffering>;
/**
 * Return how long to wait behind attempt 1, 2, ...
 *
 * @param {Readonly<Retry>} retry
 * @param {number} attempt
 * @param {number} retryAfterMs
 * @param {number} share Random, 0 to 1.
 */
export function waitMs(retry: Readonly<Retry>, attempt: number, retryAfterMs: number, share: number): number;
/**
 * When an event is sent again, and when that ends.
 */
export type Retry = {
    /**
     * After this time nothing is tried again. It counts from the call, in
     * a producer from when the event was taken.
     */
    patienceMs: number;
    /**
     * Before attempt n + 1 there is a random wait of up to
     * `firstWaitMs * 2**n`, behind what Retry-After asks for.
     */
    firstWaitMs: number;
    /**
     * The longest of these random waits.
     */
    longestWaitMs: number;
    /**
     * False leaves alone what may be written already; right only where
     * the gateway has no Redis and a repeat does harm.
     */
    repeatUnknown: boolean;
    /**
     * What becomes of a failed event when a later one of its
     * key has got through: "send" writes it behind that one, "leave_out" ends it as `overtaken` (right
     * for states, of which the newest counts).
     */
    overtaken: "send" | "leave_out";
};
/**
 * The largest request. The gateway's own limits are
 *   `http.batch_max_events` and `http.body_max_bytes`.
 */
export type Limits = {
    maxEvents: number;
    /**
     * Before compression; a larger event goes alone.
     */
    maxBytes: number;
};
/**
 * What a producer keeps, and for how long.
 */
export type Buffering = {
    /**
     * How long an event waits for others to go with.
     */
    lingerMs: number;
    /**
     * Of all events that have not ended; there is no room beyond.
     */
    maxEvents: number;
    /**
     * Of the same.
     */
    maxBytes: number;
    /**
     * Requests at the same time.
     */
    inFlight: number;
    /**
     * Never two events of a key in one request, so that none can be
     * overtaken; each event of a key then costs a round trip.
     */
    onePerKey: boolean;
};
