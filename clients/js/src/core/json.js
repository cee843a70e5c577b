/** JSON texts. */

import { InvalidEventError } from "../errors.js";
import { RawJson } from "../events.js";
import { encodeUtf8, joined } from "./bytes.js";

/** @typedef {(value: unknown) => string} Stringify */

/** @type {Readonly<Record<string, string>>} The value to use instead of objects of these classes. */
const EMPTIED = {
  Error: "{ name: error.name, message: error.message }",
  Event: "an object of the members that you need",
  Headers: "Object.fromEntries(headers)",
  FormData: "Object.fromEntries(form)",
  URLSearchParams: "Object.fromEntries(params)",
};

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
    const fix = value === undefined ? "check that the value is set" : "use an object, a text or a number";
    throw new InvalidEventError(`value: ${typeof value} is not JSON; ${fix}`);
  }
  if (stringify === JSON.stringify && /[{][}]|"isTrusted":/.test(text)) refuseEmptied(value);
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
 * Throw InvalidEventError for a Map, Set, Promise or object of the platform: `JSON.stringify` writes it
 * without its content.
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
  const kind = Object.keys(EMPTIED).find((name) => isOfKind(value, name));
  if (kind !== undefined) {
    throw new InvalidEventError(
      `value: JSON has no ${kind}, and would lose its members; use ${EMPTIED[kind]}`,
    );
  }
  for (const member of Object.values(value)) refuseEmptied(member);
}

/**
 * @param {object} value
 * @param {string} kind Name of a class, which some platforms do not have.
 */
function isOfKind(value, kind) {
  const type = /** @type {Record<string, unknown>} */ (/** @type {unknown} */ (globalThis))[kind];
  return typeof type === "function" && value instanceof type;
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
