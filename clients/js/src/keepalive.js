/** Limits of requests that outlive a page. */

/** @import {Limits} from "./settings.js" */

// Browsers send at most 64 KiB of requests with `keepalive` at a time and refuse more. Some count
// headers as well.
export const KEEPALIVE_BYTES = 60_000;
const FRAME_BYTES = 1000; // around the events of a request, at most
const EVENTS = 500; // FRAME_BYTES has room for their commas

/** Whether this runs in a hidden page, which may be closed soon. */
export function isHidden() {
  return globalThis.document?.visibilityState === "hidden";
}

/**
 * Return the limits of a request now. In a hidden page the request must outlive the page.
 *
 * @param {Readonly<Limits>} limits
 * @returns {Readonly<Limits>}
 */
export function limitsNow({ maxEvents, maxBytes }) {
  if (!isHidden()) return { maxEvents, maxBytes };
  return {
    maxEvents: Math.min(maxEvents, EVENTS),
    maxBytes: Math.min(maxBytes, KEEPALIVE_BYTES - FRAME_BYTES),
  };
}

/** Counts the bytes of such requests that are under way. Outside of pages there are none. */
export class Keepalive {
  #underWay = 0;
  #isPage = globalThis.document !== undefined;

  /**
   * Whether a request of this size may outlive the page; if so, `end` has to be called.
   *
   * @param {number} size
   */
  begin(size) {
    if (!this.#isPage || this.#underWay + size > KEEPALIVE_BYTES) return false;
    this.#underWay += size;
    return true;
  }

  /** @param {number} size */
  end(size) {
    this.#underWay -= size;
  }
}
