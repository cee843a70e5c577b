/** Keys as outcomes have them, and the lanes that they name. */

import { InvalidEventError } from "../errors.js";
import { asBytes, encodeUtf8, isBytes, isWellFormed, toBase64, utf8Strict } from "./bytes.js";

/** @import {Key} from "../outcomes.js" */

const BINARY = "\ud800"; // no text that is a key begins with it

/**
 * Return the key: text, or bytes if they are not UTF-8. Throws InvalidEventError.
 *
 * @param {unknown} key
 * @returns {NonNullable<Key>}
 */
export function checkedKey(key) {
  if (typeof key !== "string" && !isBytes(key)) {
    throw new InvalidEventError(`key: use a string or bytes, not ${typeof key}; try String(key)`);
  }
  const size = typeof key === "string" ? key.length : key.byteLength;
  if (!size) {
    throw new InvalidEventError("key: it is empty; leave it out to use the topic's key rule");
  }
  if (typeof key === "string") {
    if (!isWellFormed(key)) throw new InvalidEventError("key: a lone surrogate cannot be encoded as UTF-8");
    return key;
  }
  return asText(asBytes(key));
}

/**
 * Return the key that the gateway's key rule makes of a value, null without one. Throws
 * InvalidEventError.
 *
 * @param {unknown} key
 * @returns {Key}
 */
export function orderingKeyOf(key) {
  if (key === null || key === undefined) return null;
  if (Number.isSafeInteger(key) || ["bigint", "boolean"].includes(typeof key)) return String(key);
  try {
    return checkedKey(key);
  } catch {
    throw new InvalidEventError(
      "orderingKey: return a string or bytes that are not empty, or a whole number, or null",
    );
  }
}

/**
 * Return what two keys have in common if and only if Kafka has the same bytes for them.
 *
 * @param {Key} key
 * @returns {string | null}
 */
export function laneOf(key) {
  return key instanceof Uint8Array ? BINARY + toBase64(key) : key;
}

/**
 * @param {NonNullable<Key>} key
 * @returns {Uint8Array}
 */
export function keyBytes(key) {
  return typeof key === "string" ? encodeUtf8(key) : key;
}

/**
 * @param {Uint8Array} bytes
 * @returns {NonNullable<Key>}
 */
function asText(bytes) {
  try {
    return utf8Strict(bytes);
  } catch {
    return bytes;
  }
}
