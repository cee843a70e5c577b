/**
 * Throw InvalidOptionError for the first name that is unknown: it would silently do nothing.
 *
 * @param {string} owner
 * @param {object} given
 * @param {readonly string[]} known
 */
export function checkNames(owner: string, given: object, known: readonly string[]): void;
