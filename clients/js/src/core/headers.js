/** Checks texts for HTTP headers, and hides their values in other texts. */

import { InvalidEventError, InvalidOptionError } from "../errors.js";

/** @typedef {(text: string) => string} Hide */

const NAME = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/;
const VALUE = /^[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?$/;
const PRODUCER_CHARS = 100;
const KEY = /^[!-~]{1,255}$/;
const SHORT = 6; // a shorter value is hardly a secret, and may be a part of any text
const SEPARATOR = /[\s;,=]+/;
const FIX = "visible ASCII characters, with spaces only between them";
/**
 * Headers that the client sets from its options, with the option of each.
 *
 * @type {Readonly<Record<string, string>>}
 */
export const RESERVED = {
  "Idempotency-Key": "use the option idempotencyKey of send or sendBatch",
  "Headgate-Key": "use the option key",
  "Headgate-Key*": "use the option key",
  "Headgate-Event-Id": "use the option id",
  "Headgate-Timestamp": "use the option timestamp",
  "Headgate-Tombstone": "send the value TOMBSTONE",
  "Headgate-Header-*": "use the option headers",
  "Headgate-Producer": "use new Client(url, { producer })",
  "Headgate-Batch": "send sends an array as one event, and sendBatch each of its items",
  "Content-Type": "use new HeadgateEvent(value, { contentType })",
  "Content-Encoding": "use new Client(url, { compression })",
  "Content-Length": "leave it out: the platform sets it",
  "Transfer-Encoding": "leave it out: the platform sets it",
  Prefer: "leave it out: the client needs the outcome of each event",
  "ce-*": "use new CloudEvent({ ... })",
};
/** @type {ReadonlyMap<string, string>} */
const FIXES = new Map(Object.entries(RESERVED).map(([name, fix]) => [name.toLowerCase(), fix]));
const PREFIXES = ["headgate-header-", "ce-"];

/**
 * Return the token without blanks around it. Throws InvalidOptionError. No error repeats a value.
 *
 * @param {unknown} token
 */
export function checkedToken(token) {
  const text = typeof token === "string" ? token.trim() : "";
  if (/^bearer /i.test(text)) {
    throw new InvalidOptionError("token: leave out the word Bearer; the client adds it");
  }
  if (!VALUE.test(text)) {
    throw new InvalidOptionError("token: it is empty, or not one line of visible ASCII characters");
  }
  return text;
}

/**
 * Throw InvalidOptionError for a producer name that no gateway takes.
 *
 * @param {unknown} name
 */
export function checkProducer(name) {
  if (!isValue(name, PRODUCER_CHARS)) {
    throw new InvalidOptionError(`producer: use 1 to ${PRODUCER_CHARS} ${FIX}`);
  }
}

/**
 * Throw InvalidEventError for an Idempotency-Key that no gateway takes.
 *
 * @param {unknown} key
 */
export function checkKey(key) {
  if (!isKey(key)) {
    throw new InvalidEventError(
      "idempotencyKey: use 1 to 255 visible ASCII characters, without spaces",
    );
  }
}

/**
 * Whether the gateway takes an Idempotency-Key: bare, or in quotes.
 *
 * @param {unknown} key
 */
export function isKey(key) {
  if (typeof key !== "string") return false;
  const inner = /^"(.*)"$/s.exec(key)?.[1];
  const bare = inner?.replaceAll('\\"', '"').replaceAll("\\\\", "\\");
  return KEY.test(bare ?? key);
}

/**
 * Throw an error for headers that HTTP cannot carry, or that the client sets itself.
 *
 * @param {unknown} headers
 * @param {boolean} hasToken The client has a token, which it sends as `Authorization`.
 * @param {typeof InvalidOptionError | typeof InvalidEventError} Wrong
 */
export function checkHeaders(headers, hasToken, Wrong = InvalidOptionError) {
  const isObject = typeof headers === "object" && headers !== null;
  if (!isObject || Symbol.iterator in headers) {
    const hint = isObject ? "; try Object.fromEntries(headers)" : "";
    throw new Wrong(`requestHeaders: use an object of strings${hint}`);
  }
  const names = new Set();
  for (const [name, value] of Object.entries(headers)) {
    const shown = JSON.stringify(name);
    if (!NAME.test(name)) {
      throw new Wrong(
        `requestHeaders: ${shown} is not a header name; use letters, digits and dashes`,
      );
    }
    if (value !== "" && !isValue(value)) {
      throw new Wrong(`requestHeaders: the value of ${shown}: use ${FIX}`);
    }
    if (names.has(name.toLowerCase())) {
      throw new Wrong(`requestHeaders: ${shown} is in it twice, in other letters; give it once`);
    }
    names.add(name.toLowerCase());
    const fix = reserved(name.toLowerCase(), hasToken);
    if (fix !== null) {
      throw new Wrong(`requestHeaders: the client sets ${shown} itself: ${fix}`);
    }
  }
}

/**
 * Return what to use instead of a header that the client sets itself, else null.
 *
 * @param {string} name
 * @param {boolean} hasToken
 */
function reserved(name, hasToken) {
  if (name === "authorization" && hasToken) return "leave out this header or the option token";
  const prefix = PREFIXES.find((each) => name.startsWith(each));
  return FIXES.get(prefix === undefined ? name : `${prefix}*`) ?? null;
}

/**
 * Replace the values of headers in a text, whole and in parts such as the token of a scheme.
 *
 * A page may show them in the forms of a URL, of HTML or of JSON.
 *
 * @param {readonly string[]} values
 * @param {string} text
 */
export function hide(values, text) {
  const parts = values.flatMap((value) => [value, ...value.split(SEPARATOR)]);
  const secrets = parts.filter(({ length }) => length >= SHORT);
  if (!secrets.length) return text;
  secrets.sort((one, other) => other.length - one.length);
  const patterns = secrets.map((secret) => [...secret].map(anyForm).join(""));
  return text.replace(new RegExp(patterns.join("|"), "g"), "***");
}

/** @param {string} char */
function anyForm(char) {
  if (/[0-9A-Za-z]/.test(char)) return char;
  const code = char.charCodeAt(0).toString(16).padStart(2, "0");
  return `(?:\\\\?\\x${code}|(?:%|\\\\u00)(?:${code}|${code.toUpperCase()})|&#?\\w+;)`;
}

/**
 * @param {unknown} value
 * @param {number} [longest]
 */
function isValue(value, longest = Infinity) {
  return typeof value === "string" && VALUE.test(value) && value.length <= longest;
}
