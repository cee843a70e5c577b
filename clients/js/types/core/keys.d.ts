/**
 * Return the key: text, or bytes where they are no UTF-8. Throws InvalidEventError.
 *
 * @param {unknown} key
 * @returns {NonNullable<Key>}
 */
export function checkedKey(key: unknown): NonNullable<Key>;
/**
 * Return what two keys have in common if and only if Kafka has the same bytes for them.
 *
 * @param {Key} key
 * @returns {string | null}
 */
export function laneOf(key: Key): string | null;
/**
 * @param {NonNullable<Key>} key
 * @returns {Uint8Array}
 */
export function keyBytes(key: NonNullable<Key>): Uint8Array;
import type { Key } from "../outcomes.js";
