/**
 * Return the bytes of a JSON value.
 *
 * @param {unknown} value
 * @param {Stringify} stringify
 */
export function jsonBytes(value: unknown, stringify: Stringify): Uint8Array<ArrayBufferLike>;
/**
 * Put a member with a ready text behind those of an object.
 *
 * @param {Uint8Array} object
 * @param {string} name
 * @param {Uint8Array} value
 */
export function withMember(object: Uint8Array, name: string, value: Uint8Array): Uint8Array<ArrayBufferLike>;
export type Stringify = (value: unknown) => string;
