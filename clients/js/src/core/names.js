/** Options and members by their names. */

import { InvalidEventError } from "../errors.js";

/**
 * Refuse what would silently be left out.
 *
 * @param {string} what
 * @param {object} given
 * @param {readonly string[]} known
 */
export function checkNames(what, given, known) {
  for (const name of Object.keys(given)) {
    if (!known.includes(name)) {
      throw new InvalidEventError(`${what}: there is no ${name}; there is ${known.join(", ")}`);
    }
  }
}
