/** Reports of requests and outcomes: to the log, and to an observer. */

import { counted } from "./core/wording.js";

/** @import {Failure, Outcome} from "./outcomes.js" */

const SHOWN = 100; // characters of a key or id

/**
 * @typedef {object} Attempt One request and its response.
 * @property {string} topic
 * @property {number} events Number of events in it.
 * @property {number} contentBytes Size of the body before compression.
 * @property {number} number 1 for the first request with these bytes, then 2, 3, ...
 * @property {number} durationMs Time until the response.
 * @property {string} result `ended` if each event has an outcome, else the reason of the failure.
 * @property {string} detail Text that explains the failure.
 * @property {number | null} status HTTP status, null without a response.
 * @property {string | null} requestId Id of the request in the gateway's log.
 * @property {boolean} isBypassed The gateway could not check the Idempotency-Key: its Redis is
 *   unavailable.
 */

/**
 * @typedef {object} Observer Receives reports, for metrics. Its methods must be quick.
 * @property {(attempt: Attempt) => void} [onAttempt] A request has its response, or failed.
 * @property {(topic: string, outcomes: readonly Outcome[]) => void} [onOutcomes] Some events of a
 *   topic have their outcomes.
 */

/** The part of `console` that is used. @typedef {Pick<Console, "warn" | "error">} Log */

/** Writes outages and failures to the log, and passes all reports to the observer. */
export class Reports {
  /** @type {Map<string, {beganMs: number, failed: number}>} Outages by topic. */
  #outages = new Map();
  #observer;
  #log;

  /**
   * @param {Observer} observer
   * @param {Log | null} log
   */
  constructor(observer, log) {
    this.#observer = observer;
    this.#log = log;
  }

  /**
   * Report a request. The first failure of an outage and its end are logged.
   *
   * @param {Attempt} attempt
   * @param {boolean} isRetryable It failed, and may be sent again. Another failure is an outcome, and
   *   is logged as that.
   * @param {number} nowMs Of a monotonic clock.
   */
  attempt(attempt, isRetryable, nowMs) {
    const { topic, result, status } = attempt;
    const outage = this.#outages.get(topic);
    if (isRetryable && outage) outage.failed += 1;
    else if (isRetryable) this.#begin(attempt, nowMs);
    else if (outage && (result === "ended" || status !== null)) {
      this.#outages.delete(topic);
      const seconds = ((nowMs - outage.beganMs) / 1000).toFixed(1);
      const failed = counted(outage.failed, "failed attempt");
      this.warn(`${topic}: the outage ended after ${seconds} s and ${failed}`);
    }
    this.#call("onAttempt", () => this.#observer.onAttempt?.(attempt));
  }

  /**
   * @param {Attempt} attempt
   * @param {number} nowMs
   */
  #begin({ topic, events, number, result, detail, durationMs }, nowMs) {
    this.#outages.set(topic, { beganMs: nowMs - durationMs, failed: 1 });
    this.warn(
      `${topic}: ${counted(events, "event")}, attempt ${number} failed: ${result} ` +
        `(${printable(detail)}); more failed attempts are logged at the end of the outage`,
    );
  }

  /**
   * Report outcomes. Failures are logged once, by topic and reason, with what identifies the first.
   *
   * @param {readonly Outcome[]} outcomes
   * @param {boolean} [isBatch] They are those of one `sendBatch`, so their positions count.
   */
  outcomes(outcomes, isBatch = false) {
    for (const [topic, ofTopic] of grouped(outcomes, (outcome) => outcome.topic)) {
      const failures = ofTopic.filter((outcome) => !outcome.succeeded);
      for (const [why, failed] of grouped(failures, ({ name, reason }) => `${name}: ${reason}`)) {
        const [first] = /** @type {[Failure]} */ (failed);
        const detail = printable(String(first.detail));
        const events = counted(failed.length, "event");
        const which = identity(first, isBatch ? ofTopic.indexOf(first) : null);
        const shown = which && `; ${failed.length > 1 ? "first: " : ""}${which}`;
        this.#log?.error(`headgate: ${topic}: ${events} ${why} (${detail})${shown}`);
      }
      this.#call("onOutcomes", () => this.#observer.onOutcomes?.(topic, ofTopic));
    }
  }

  /**
   * Log a warning.
   *
   * @param {string} text
   */
  warn(text) {
    this.#log?.warn(`headgate: ${text}`);
  }

  /**
   * Call the observer. An error that it throws is logged and costs no event.
   *
   * @param {string} method
   * @param {() => void} call
   */
  #call(method, call) {
    try {
      call();
    } catch (error) {
      this.#log?.error(`headgate: observer.${method} threw`, error);
    }
  }
}

/**
 * Return what is known of an event: its position, key, id and the request.
 *
 * @param {Failure} failure
 * @param {number | null} position
 */
function identity({ key, eventId, requestId }, position) {
  const bytes = key instanceof Uint8Array ? Array.from(key, (byte) => byte.toString(16).padStart(2, "0")) : null;
  const fields = { key: bytes?.join("") ?? key, id: eventId, request: requestId };
  const texts = Object.entries(fields)
    .filter(([, text]) => text)
    .map(([name, text]) => `${name} ${printable(String(text)).slice(0, SHOWN)}`);
  return [...(position === null ? [] : [`events[${position}]`]), ...texts].join(", ");
}

/**
 * Return the text in one line, with escapes for characters that control a terminal.
 *
 * @param {string} text
 */
function printable(text) {
  return text.replace(
    /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu,
    (char) => `\\u{${char.codePointAt(0)?.toString(16)}}`,
  );
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
