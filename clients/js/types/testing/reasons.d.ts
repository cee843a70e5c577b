/** The reasons of a gateway, for the one of tests. */
/**
 * Each reason of docs/reference/reasons.md that a sender may meet: its status, and whether the same
 * event may succeed later.
 *
 * @type {Readonly<Record<string, readonly [number, boolean]>>}
 */
export const REASONS: Readonly<Record<string, readonly [number, boolean]>>;
