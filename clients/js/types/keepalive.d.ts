/** Whether this runs in a page that nobody sees, and that may be gone soon. */
export function isHidden(): boolean;
/**
 * Return how large a request may be now: in a page that is left, it should outlive the page.
 *
 * @param {Readonly<Limits>} limits
 * @returns {Readonly<Limits>}
 */
export function limitsNow({ maxEvents, maxBytes }: Readonly<Limits>): Readonly<Limits>;
/** What a page may still have under way when its reader leaves it. */
/** @import {Limits} from "./settings.js" */
export const KEEPALIVE_BYTES: 60000;
/** Counts what is under way. Outside of pages nothing is kept alive, and nothing needs to be. */
export class Keepalive {
    /**
     * Whether a request of this size may outlive the page; if so, `end` has to be called.
     *
     * @param {number} size
     */
    begin(size: number): boolean;
    /** @param {number} size */
    end(size: number): void;
    #private;
}
import type { Limits } from "./settings.js";
