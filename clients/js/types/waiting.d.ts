/** @typedef {{timeoutMs?: number, signal?: AbortSignal}} WaitOptions */
/**
 * Start a timer.
 *
 * @param {() => void} then
 * @param {number} ms
 */
export function after(then: () => void, ms: number): number;
/**
 * Have something called when the signal is aborted; return what forgets it.
 *
 * @param {AbortSignal} signal
 * @param {() => void} then
 */
export function follow(signal: AbortSignal, then: () => void): () => undefined;
/**
 * Wait, or until the signal.
 *
 * @param {number} ms
 * @param {AbortSignal} signal
 * @returns {Promise<void>}
 */
export function pause(ms: number, signal: AbortSignal): Promise<void>;
/**
 * Return a signal that follows all of these, until `end` is called. (`AbortSignal.any` is missing in
 * the first versions of Node 20.)
 *
 * @param {readonly (AbortSignal | undefined)[]} signals
 */
export function linked(signals: readonly (AbortSignal | undefined)[]): {
    signal: AbortSignal;
    abort: (reason?: any) => void;
    end: () => void;
};
/**
 * Who waits for something, in the order of their coming: nobody is served before the first.
 *
 * @template T
 */
export class Line<T> {
    get isEmpty(): boolean;
    /** Serve who can be served. */
    move(): void;
    /** Send all away. */
    dismiss(): void;
    /**
     * Wait until an attempt has a result; return that, or null if there was none in time.
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
