/** JSON texts. */

import { InvalidEventError } from "../errors.js";
import { RawJson } from "../events.js";
import { encodeUtf8, joined } from "./bytes.js";

/** @typedef {(value: unknown) => string} Stringify */

/**
 * Return the bytes of a JSON value.
 *
 * @param {unknown} value
 * @param {Stringify} stringify
 */
export function jsonBytes(value, stringify) {
  if (value instanceof RawJson) return value.text;
  let text;
  try {
    text = stringify(value);
  } catch (error) {
    const [why] = String(error).split("\n");
    const fix = fixOf(String(error));
    throw new InvalidEventError(`value: it cannot be encoded as JSON (${why})${fix}`, { cause: error });
  }
  if (typeof text !== "string") {
    throw new InvalidEventError(`value: ${typeof value} is not JSON; use bytes or TOMBSTONE`);
  }
  if (stringify === JSON.stringify && text.includes("{}")) refuseEmptied(value);
  return encodeUtf8(text);
}

/**
 * Return the fix for an error of `JSON.stringify`, in the words of any engine.
 *
 * @param {string} error
 */
function fixOf(error) {
  if (/BigInt/i.test(error)) {
    return (
      "; use String(number), new RawJson(text), or new Client(url, { stringify: (value) => " +
      "JSON.stringify(value, (name, member) => typeof member === 'bigint' ? String(member) : member) })"
    );
  }
  const isEndless = /circular|cyclic|call stack|recursion/i.test(error);
  return isEndless ? "; a value must not contain itself, nor be nested too deep" : "";
}

/**
 * Throw InvalidEventError for a Map, Set or Promise: `JSON.stringify` writes it without its content.
 *
 * @param {unknown} value
 */
function refuseEmptied(value) {
  if (typeof value !== "object" || value === null) return;
  if (value instanceof Map || value instanceof Set) {
    const kind = value.constructor.name;
    const fix = kind === "Map" ? "Object.fromEntries(map)" : "[...set]";
    throw new InvalidEventError(`value: JSON has no ${kind}, and would lose its members; use ${fix}`);
  }
  if (value instanceof Promise) {
    throw new InvalidEventError("value: JSON has no Promise; use its result, with await");
  }
  if ("toJSON" in value) return;
  for (const member of Object.values(value)) refuseEmptied(member);
}

/**
 * Put a member with a ready text behind those of an object.
 *
 * @param {Uint8Array} object
 * @param {string} name
 * @param {Uint8Array} value
 */
export function withMember(object, name, value) {
  const isEmpty = object.length === 2;
  const before = encodeUtf8(`${isEmpty ? "" : ","}"${name}":`);
  return joined([object.subarray(0, -1), before, value, encodeUtf8("}")]);
}
