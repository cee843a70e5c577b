/** Whether this runs in a hidden page, which may be closed soon. */
export function isHidden(): boolean;
/**
 * Return the limits of a request now. In a hidden page the request must outlive the page.
 *
 * @param {Readonly<Limits>} limits
 * @returns {Readonly<Limits>}
 */
export function limitsNow({ maxEvents, maxBytes }: Readonly<Limits>): Readonly<Limits>;
/** Limits of requests that outlive a page. */
/** @import {Limits} from "./settings.js" */
export const KEEPALIVE_BYTES: 60000;
/** Counts the bytes of such requests that are under way. Outside of pages there are none. */
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
