/** Checks of the names and types of options. */

import { InvalidOptionError } from "../errors.js";

const MOST_EDITS = 0.4; // of the letters of a name, for a guess
const SURE_EDITS = 0.25; // for a guess before the place of another option

// Names that programs try, with the place where each belongs. Other Kafka clients have some of them.
/** @type {Readonly<Record<string, string>>} */
const PLACES = {
  patienceMs: "Use new Client(url, { retry: { patienceMs } }).",
  firstWaitMs: "Use new Client(url, { retry: { firstWaitMs } }).",
  longestWaitMs: "Use new Client(url, { retry: { longestWaitMs } }).",
  repeatUnknown: "Use new Client(url, { retry: { repeatUnknown } }).",
  overtaken: "Use new Client(url, { retry: { overtaken } }).",
  retries: "Use new Client(url, { retry: { patienceMs } }).",
  lingerMs: "Use new BufferedProducer(client, { buffering: { lingerMs } }).",
  inFlight: "Use new BufferedProducer(client, { buffering: { inFlight } }).",
  onePerKey: "Use new BufferedProducer(client, { buffering: { onePerKey } }).",
  maxEvents: "Use limits: { maxEvents } of the client, or buffering: { maxEvents } of a producer.",
  maxBytes: "Use limits: { maxBytes } of the client, or buffering: { maxBytes } of a producer.",
  orderingKey: "Use new BufferedProducer(client, { orderingKey }).",
  buffering: "Use new BufferedProducer(client, { buffering }).",
  brokers: 'The first argument is the URL of the gateway: new Client("http://127.0.0.1:8080").',
  clientId: "Use producer.",
  idempotencyKey: "Use client.send: a producer gives each request a key of its own. The id of an event is id.",
  requestHeaders: "Use new Client(url, { requestHeaders }): a request of a producer has many events.",
  sasl: "Use token: the gateway has the credentials of Kafka.",
  ssl: "Use an https URL; the gateway has the certificates of Kafka.",
  transactionalId: "There are no transactions.",
  acks: "The gateway always waits for all in-sync replicas.",
  partition: "The gateway chooses it by the key: use key.",
};

/**
 * Throw InvalidOptionError for the first name that is unknown: it would silently do nothing.
 *
 * @param {string} owner
 * @param {object} given
 * @param {readonly string[]} known
 */
export function checkNames(owner, given, known) {
  if (typeof given !== "object" || given === null || Array.isArray(given)) {
    const example = known[0];
    throw new InvalidOptionError(
      `${owner}: use an object of options such as { ${example}: ... }, ${not(given)}`,
    );
  }
  for (const name of Object.keys(given)) {
    if (known.includes(name)) continue;
    const place = Object.hasOwn(PLACES, name) ? ` ${PLACES[name]}` : "";
    const hint = didYouMean(name, known, place ? SURE_EDITS : MOST_EDITS) || place;
    throw new InvalidOptionError(
      `${owner}: unknown option '${name}'.${hint} The options are ${known.join(", ")}.`,
    );
  }
}

/**
 * Throw InvalidOptionError if a value that is given is not of the type.
 *
 * @param {string} name
 * @param {unknown} value
 * @param {"boolean" | "function" | "number" | "object"} type
 * @param {string} fix The value to use.
 */
export function checkType(name, value, type, fix) {
  if (value === undefined || (typeof value === type && value !== null)) return;
  throw new InvalidOptionError(`${name}: use ${fix}, ${not(value)}`);
}

/**
 * Throw InvalidOptionError if a value that is given is not a number within these bounds.
 *
 * @param {string} name
 * @param {unknown} value
 * @param {number} least
 * @param {number} [most]
 * @param {boolean} [isWhole]
 */
export function checkNumber(name, value, least, most = Infinity, isWhole = false) {
  if (value === undefined) return;
  const bounds = most === Infinity ? `${least} or more` : `${least} to ${most}`;
  const kind = isWhole ? "a whole number" : "a number";
  const isNumber = typeof value === "number" && (!isWhole || Number.isInteger(value));
  if (!isNumber) throw new InvalidOptionError(`${name}: use ${kind}, ${bounds}, ${not(value)}`);
  if (!(value >= least && value <= most)) {
    throw new InvalidOptionError(`${name}: use ${bounds}, not ${value}`);
  }
}

/**
 * Return the type that was given, and a number in quotes as it is.
 *
 * @param {unknown} value
 */
function not(value) {
  if (typeof value === "string" && /^[0-9]+(?:[.][0-9]+)?$/.test(value)) {
    return `not the string "${value}": leave out the quotes`;
  }
  if (typeof value === "number") return `not ${value}`;
  return `not ${value === null ? "null" : Array.isArray(value) ? "an array" : typeof value}`;
}

/**
 * Return a hint at the most similar name, empty if none is similar enough.
 *
 * @param {string} name
 * @param {readonly string[]} known
 * @param {number} [mostEdits]
 */
export function didYouMean(name, known, mostEdits = MOST_EDITS) {
  const similar = mostSimilar(name, known, mostEdits);
  return similar === null ? "" : ` Did you mean '${similar}'?`;
}

/**
 * @param {string} name
 * @param {readonly string[]} known
 * @param {number} mostEdits
 */
function mostSimilar(name, known, mostEdits) {
  let best = null;
  let least = Infinity;
  for (const other of known) {
    const share = distance(name.toLowerCase(), other.toLowerCase()) / Math.max(name.length, other.length);
    if (share < least) [best, least] = [other, share];
  }
  if (least <= mostEdits) return best;
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
