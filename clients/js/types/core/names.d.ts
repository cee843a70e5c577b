/**
 * Refuse what would silently be left out.
 *
 * @param {string} what
 * @param {object} given
 * @param {readonly string[]} known
 */
export function checkNames(what: string, given: object, known: readonly string[]): void;
