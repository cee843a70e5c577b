/** What a client reports, for metrics and logs. */

/** @import {Outcome} from "./outcomes.js" */

/**
 * @typedef {object} Attempt One request and its answer.
 * @property {string} topic
 * @property {number} events
 * @property {number} contentBytes Before compression.
 * @property {number} number 1 for the first time that these bytes went.
 * @property {number} durationMs
 * @property {string} result `ended` if there is an outcome for each event, else the reason of the
 *   refusal or why there is no answer.
 * @property {string} detail
 * @property {number | null} status
 * @property {string | null} requestId Of the gateway's log.
 * @property {boolean} isBypassed The gateway could not look the Idempotency-Key up, because its
 *   Redis is away.
 */

/**
 * @typedef {object} Observer It is called by whoever posts: be quick.
 * @property {(attempt: Attempt) => void} [attempted] Hear of a request that has ended.
 * @property {(topic: string, outcomes: readonly Outcome[]) => void} [ended] Hear how events ended.
 */

/** The methods of `console` that are used. @typedef {Pick<Console, "warn" | "error">} Log */

/** Writes what goes wrong to the console, or to a log like it; the default. */
export class LogObserver {
  #log;

  /** @param {Log} [log] */
  constructor(log = console) {
    this.#log = log;
  }

  /**
   * Log what is tried again or was refused.
   *
   * @param {Attempt} attempt
   */
  attempted({ topic, events, number, result, detail }) {
    if (result === "ended") return;
    this.#log.warn(
      `headgate: ${shown(topic)}: ${events} events, attempt ${number}: ${result} (${shown(detail)})`,
    );
  }

  /**
   * Log how many failed, by reason, with the first detail of each.
   *
   * @param {string} topic
   * @param {readonly Outcome[]} outcomes
   */
  ended(topic, outcomes) {
    const failures = outcomes.filter((outcome) => !outcome.succeeded);
    const byReason = grouped(failures, ({ name, reason }) => `${name}: ${reason}`);
    for (const [what, failed] of byReason) {
      const detail = shown(String(failed[0]?.detail));
      this.#log.error(`headgate: ${shown(topic)}: ${failed.length} events ${what} (${detail})`);
    }
  }
}

/**
 * Return the text in one line, with escapes for characters that control a terminal.
 *
 * @param {string} text
 */
function shown(text) {
  return text.replace(
    /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu,
    (one) => `\\u{${one.codePointAt(0)?.toString(16)}}`,
  );
}

/**
 * Report something; what an observer throws is its own affair, and no event is lost by it.
 *
 * @param {() => void} report
 */
export function tell(report) {
  try {
    report();
  } catch (error) {
    console.error("headgate: the observer threw", error);
  }
}

/**
 * Report how events of several topics ended.
 *
 * @param {Observer} observer
 * @param {readonly Outcome[]} outcomes
 */
export function tellEnded(observer, outcomes) {
  for (const [topic, ofTopic] of grouped(outcomes, (outcome) => outcome.topic)) {
    tell(() => observer.ended?.(topic, ofTopic));
  }
}

/**
 * Return the items by name, in their order.
 *
 * @template T
 * @param {readonly T[]} items
 * @param {(item: T) => string} nameOf
 */
function grouped(items, nameOf) {
  /** @type {Map<string, T[]>} */
  const groups = new Map();
  for (const item of items) {
    const name = nameOf(item);
    const group = groups.get(name);
    if (group) group.push(item);
    else groups.set(name, [item]);
  }
  return groups;
}
