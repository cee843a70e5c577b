/**
 * Return the key: text, or bytes if they are not UTF-8. Throws InvalidEventError.
 *
 * @param {unknown} key
 * @returns {NonNullable<Key>}
 */
export function checkedKey(key: unknown): NonNullable<Key>;
/**
 * Return the key that the gateway's key rule makes of a value, null without one. Throws
 * InvalidEventError.
 *
 * @param {unknown} key
 * @returns {Key}
 */
export function orderingKeyOf(key: unknown): Key;
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
