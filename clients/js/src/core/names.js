/** Checks of option names. */

import { InvalidOptionError } from "../errors.js";

const MOST_EDITS = 0.4; // of the letters of a name, for a guess

/**
 * Throw InvalidOptionError for the first name that is unknown: it would silently do nothing.
 *
 * @param {string} owner
 * @param {object} given
 * @param {readonly string[]} known
 */
export function checkNames(owner, given, known) {
  for (const name of Object.keys(given)) {
    if (known.includes(name)) continue;
    const similar = mostSimilar(name, known);
    const hint = similar === null ? "" : ` Did you mean '${similar}'?`;
    throw new InvalidOptionError(
      `${owner}: unknown option '${name}'.${hint} The options are ${known.join(", ")}.`,
    );
  }
}

/**
 * @param {string} name
 * @param {readonly string[]} known
 */
function mostSimilar(name, known) {
  let best = null;
  let least = Infinity;
  for (const other of known) {
    const share = distance(name.toLowerCase(), other.toLowerCase()) / Math.max(name.length, other.length);
    if (share < least) [best, least] = [other, share];
  }
  if (least <= MOST_EDITS) return best;
  const [longer] = known.filter((other) => other.toLowerCase().endsWith(name.toLowerCase()));
  return longer ?? null;
}

/**
 * Return the number of letters to insert, delete or replace.
 *
 * @param {string} from
 * @param {string} to
 */
function distance(from, to) {
  let previous = Array.from({ length: to.length + 1 }, (_, at) => at);
  for (let row = 1; row <= from.length; row += 1) {
    const current = [row];
    for (let column = 1; column <= to.length; column += 1) {
      const isSame = from[row - 1] === to[column - 1];
      const replaced = Number(previous[column - 1]) + (isSame ? 0 : 1);
      const shifted = Math.min(Number(previous[column]), Number(current[column - 1])) + 1;
      current.push(Math.min(replaced, shifted));
    }
    previous = current;
  }
  return Number(previous[to.length]);
}
