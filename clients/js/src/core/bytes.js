/** Bytes and their texts. */

export const OCTETS = "application/octet-stream"; // what bytes are, unless a type is given

const ENCODER = new TextEncoder();
const STRICT = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
const LONGEST_CALL = 8192; // arguments of one call; engines have limits
const LONE_SURROGATE = /\p{Surrogate}/u;

/**
 * @param {string} text
 * @returns {Uint8Array}
 */
export function encodeUtf8(text) {
  return ENCODER.encode(text);
}

/**
 * Return the text. Throws TypeError for what is no UTF-8.
 *
 * @param {Uint8Array} bytes
 */
export function utf8Strict(bytes) {
  return STRICT.decode(bytes);
}

/** @param {string} text */
export function isWellFormed(text) {
  return !LONE_SURROGATE.test(text);
}

/**
 * @param {unknown} value
 * @returns {value is ArrayBuffer | ArrayBufferView}
 */
export function isBytes(value) {
  return value instanceof ArrayBuffer || ArrayBuffer.isView(value);
}

/**
 * Return a copy: the caller may write into the bytes while they wait.
 *
 * @param {ArrayBuffer | ArrayBufferView} value
 * @returns {Uint8Array}
 */
export function asBytes(value) {
  if (value instanceof ArrayBuffer) return new Uint8Array(value.slice(0));
  return new Uint8Array(value.buffer, value.byteOffset, value.byteLength).slice();
}

/**
 * @param {readonly Uint8Array[]} pieces
 * @returns {Uint8Array}
 */
export function joined(pieces) {
  const all = new Uint8Array(pieces.reduce((size, piece) => size + piece.length, 0));
  let at = 0;
  for (const piece of pieces) {
    all.set(piece, at);
    at += piece.length;
  }
  return all;
}

/** @param {Uint8Array} bytes */
export function toBase64(bytes) {
  let binary = "";
  for (let at = 0; at < bytes.length; at += LONGEST_CALL) {
    binary += String.fromCharCode(...bytes.subarray(at, at + LONGEST_CALL));
  }
  return btoa(binary);
}

/**
 * @param {string} text
 * @returns {Uint8Array}
 */
export function fromBase64(text) {
  return Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
}
