/**
 * Throw InvalidOptionError for the first name that is unknown: it would silently do nothing.
 *
 * @param {string} owner
 * @param {object} given
 * @param {readonly string[]} known
 */
export function checkNames(owner: string, given: object, known: readonly string[]): void;
/**
 * Throw InvalidOptionError if a value that is given is not of the type.
 *
 * @param {string} name
 * @param {unknown} value
 * @param {"boolean" | "function" | "number" | "object"} type
 * @param {string} fix The value to use.
 */
export function checkType(name: string, value: unknown, type: "boolean" | "function" | "number" | "object", fix: string): void;
/**
 * Throw InvalidOptionError if a value that is given is not a number within these bounds.
 *
 * @param {string} name
 * @param {unknown} value
 * @param {number} least
 * @param {number} [most]
 * @param {boolean} [isWhole]
 */
export function checkNumber(name: string, value: unknown, least: number, most?: number, isWhole?: boolean): void;
/**
 * Return a hint at the most similar name, empty if none is similar enough.
 *
 * @param {string} name
 * @param {readonly string[]} known
 * @param {number} [mostEdits]
 */
export function didYouMean(name: string, known: readonly string[], mostEdits?: number): string;
