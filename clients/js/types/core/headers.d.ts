/**
 * Return the token without blanks around it. Throws InvalidOptionError. No error repeats a value.
 *
 * @param {unknown} token
 */
export function checkedToken(token: unknown): string;
/**
 * Throw InvalidOptionError for a producer name that no gateway takes.
 *
 * @param {unknown} name
 */
export function checkProducer(name: unknown): void;
/**
 * Throw InvalidEventError for an Idempotency-Key that no gateway takes.
 *
 * @param {unknown} key
 */
export function checkKey(key: unknown): void;
/**
 * Whether the gateway takes an Idempotency-Key: bare, or in quotes.
 *
 * @param {unknown} key
 */
export function isKey(key: unknown): boolean;
/**
 * Throw an error for headers that HTTP cannot carry, or that the client sets itself.
 *
 * @param {unknown} headers
 * @param {boolean} hasToken The client has a token, which it sends as `Authorization`.
 * @param {typeof InvalidOptionError | typeof InvalidEventError} Wrong
 */
export function checkHeaders(headers: unknown, hasToken: boolean, Wrong?: typeof InvalidOptionError | typeof InvalidEventError): void;
/**
 * Replace the values of headers in a text, whole and in parts such as the token of a scheme.
 *
 * A page may show them in the forms of a URL, of HTML or of JSON.
 *
 * @param {readonly string[]} values
 * @param {string} text
 */
export function hide(values: readonly string[], text: string): string;
/**
 * Headers that the client sets from its options, with the option of each.
 *
 * @type {Readonly<Record<string, string>>}
 */
export const RESERVED: Readonly<Record<string, string>>;
export type Hide = (text: string) => string;
import { InvalidOptionError } from "../errors.js";
import { InvalidEventError } from "../errors.js";
