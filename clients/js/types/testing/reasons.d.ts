/** The gateway's reasons, for the gateway in memory. */
/**
 * Each reason of docs/reference/reasons.md that a sender may get: its status, and whether the same
 * event may succeed later.
 *
 * @type {Readonly<Record<string, readonly [number, boolean]>>}
 */
export const REASONS: Readonly<Record<string, readonly [number, boolean]>>;
