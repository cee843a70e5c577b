/** @typedef {{timeoutMs?: number, signal?: AbortSignal}} WaitOptions */
/**
 * Start a timer.
 *
 * @param {() => void} then
 * @param {number} ms
 */
export function after(then: () => void, ms: number): number;
/**
 * Call a function when the signal is aborted; return a function that cancels this.
 *
 * @param {AbortSignal} signal
 * @param {() => void} then
 */
export function follow(signal: AbortSignal, then: () => void): () => undefined;
/**
 * Wait for a time, or until the signal is aborted.
 *
 * @param {number} ms
 * @param {AbortSignal} signal
 * @returns {Promise<void>}
 */
export function pause(ms: number, signal: AbortSignal): Promise<void>;
/**
 * Return a signal that follows all of these, until `end` is called. (The first versions of Node 20
 * have no `AbortSignal.any`.)
 *
 * @param {readonly (AbortSignal | undefined)[]} signals
 */
export function linked(signals: readonly (AbortSignal | undefined)[]): {
    signal: AbortSignal;
    abort: (reason?: any) => void;
    end: () => void;
};
/**
 * A queue of callers that wait. They are served strictly in their order.
 *
 * @template T
 */
export class Line<T> {
    get isEmpty(): boolean;
    /** Serve the callers that can be served. */
    move(): void;
    /** Make all callers give up. */
    dismiss(): void;
    /**
     * Wait until an attempt has a result; return it, or null after the time limit.
     *
     * @param {() => T | null} attempt
     * @param {WaitOptions} options
     * @returns {Promise<T | null>}
     */
    wait(attempt: () => T | null, { timeoutMs, signal }: WaitOptions): Promise<T | null>;
    #private;
}
export type WaitOptions = {
    timeoutMs?: number;
    signal?: AbortSignal;
};
