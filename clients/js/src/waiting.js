/** Timers, signals and a queue of waiting callers. */

const LONGEST_WAIT_MS = 3_600_000; // of one timer: the platform takes no infinity

/** @typedef {{timeoutMs?: number, signal?: AbortSignal}} WaitOptions */

/**
 * Start a timer.
 *
 * @param {() => void} then
 * @param {number} ms
 */
export function after(then, ms) {
  return setTimeout(then, Math.min(ms, LONGEST_WAIT_MS));
}

// Each signal has one listener for all its followers: Node warns of more than ten.
/** @type {WeakMap<AbortSignal, Set<() => void>>} */
const followers = new WeakMap();

/**
 * Call a function when the signal is aborted; return a function that cancels this.
 *
 * @param {AbortSignal} signal
 * @param {() => void} then
 */
export function follow(signal, then) {
  let all = followers.get(signal);
  if (!all) {
    const these = (all = new Set());
    followers.set(signal, these);
    signal.addEventListener("abort", () => [...these].forEach((each) => each()));
  }
  all.add(then);
  return () => void all.delete(then);
}

/**
 * Wait for a time, or until the signal is aborted.
 *
 * @param {number} ms
 * @param {AbortSignal} signal
 * @returns {Promise<void>}
 */
export async function pause(ms, signal) {
  if (ms <= 0 || signal.aborted) return;
  await new Promise((resolve) => {
    const end = () => {
      clearTimeout(timer);
      forget();
      resolve(undefined);
    };
    const timer = setTimeout(end, ms);
    const forget = follow(signal, end);
  });
}

/**
 * Return a signal that follows all of these, until `end` is called. (The first versions of Node 20
 * have no `AbortSignal.any`.)
 *
 * @param {readonly (AbortSignal | undefined)[]} signals
 */
export function linked(signals) {
  const given = signals.filter((signal) => signal !== undefined);
  const controller = new AbortController();
  const abort = () => controller.abort(given.find((signal) => signal.aborted)?.reason);
  const forget = given.map((signal) => follow(signal, abort));
  if (given.some((signal) => signal.aborted)) abort();
  const end = () => forget.forEach((each) => each());
  return { signal: controller.signal, abort: controller.abort.bind(controller), end };
}

/**
 * A queue of callers that wait. They are served strictly in their order.
 *
 * @template T
 */
export class Line {
  /** @type {Map<() => boolean, () => void>} For each caller: tries to serve it; gives up. */
  #waiting = new Map();

  get isEmpty() {
    return !this.#waiting.size;
  }

  /** Serve the callers that can be served. */
  move() {
    for (const look of [...this.#waiting.keys()]) {
      if (!look()) return;
    }
  }

  /** Make all callers give up. */
  dismiss() {
    for (const giveUp of [...this.#waiting.values()]) giveUp();
  }

  /**
   * Wait until an attempt has a result; return it, or null after the time limit.
   *
   * @param {() => T | null} attempt
   * @param {WaitOptions} options
   * @returns {Promise<T | null>}
   */
  async wait(attempt, { timeoutMs = Infinity, signal }) {
    const served = this.isEmpty ? attempt() : null;
    if (served !== null || timeoutMs <= 0 || signal?.aborted) return served;
    return new Promise((resolve) => {
      /** @param {T | null} result */
      const leave = (result) => {
        if (timer !== null) clearTimeout(timer);
        this.#waiting.delete(look);
        forget?.();
        resolve(result);
      };
      const look = () => {
        const result = attempt();
        if (result !== null) leave(result);
        return result !== null;
      };
      const giveUp = () => {
        leave(null);
        this.move(); // the next one may want less
      };
      const timer = timeoutMs === Infinity ? null : after(giveUp, timeoutMs);
      this.#waiting.set(look, giveUp);
      const forget = signal && follow(signal, giveUp);
    });
  }
}
