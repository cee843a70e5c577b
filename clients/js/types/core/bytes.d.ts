/**
 * @param {string} text
 * @returns {Uint8Array}
 */
export function encodeUtf8(text: string): Uint8Array;
/**
 * Return the text. Throws TypeError for what is no UTF-8.
 *
 * @param {Uint8Array} bytes
 */
export function utf8Strict(bytes: Uint8Array): string;
/** @param {string} text */
export function isWellFormed(text: string): boolean;
/**
 * @param {unknown} value
 * @returns {value is ArrayBuffer | ArrayBufferView}
 */
export function isBytes(value: unknown): value is ArrayBuffer | ArrayBufferView;
/**
 * Return a copy: the caller may write into the bytes while they wait.
 *
 * @param {ArrayBuffer | ArrayBufferView} value
 * @returns {Uint8Array}
 */
export function asBytes(value: ArrayBuffer | ArrayBufferView): Uint8Array;
/**
 * @param {readonly Uint8Array[]} pieces
 * @returns {Uint8Array}
 */
export function joined(pieces: readonly Uint8Array[]): Uint8Array;
/** @param {Uint8Array} bytes */
export function toBase64(bytes: Uint8Array): string;
/**
 * @param {string} text
 * @returns {Uint8Array}
 */
export function fromBase64(text: string): Uint8Array;
/** Bytes and their texts. */
export const OCTETS: "application/octet-stream";
