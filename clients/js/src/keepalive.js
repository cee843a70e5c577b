/** What a page may still have under way when its reader leaves it. */

/** @import {Limits} from "./settings.js" */

// Browsers send no more than 64 KiB of requests with `keepalive` at a time, and refuse what is
// beyond; headers count in some.
export const KEEPALIVE_BYTES = 60_000;
const FRAME_BYTES = 1000; // what is around the events of a request, at most
const EVENTS = 500; // which FRAME_BYTES has room for

/** Whether this runs in a page that nobody sees, and that may be gone soon. */
export function isHidden() {
  return globalThis.document?.visibilityState === "hidden";
}

/**
 * Return how large a request may be now: in a page that is left, it should outlive the page.
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

/** Counts what is under way. Outside of pages nothing is kept alive, and nothing needs to be. */
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
