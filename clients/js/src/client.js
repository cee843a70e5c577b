/** The client: sends events and returns the outcome of each. */

import { Delivery } from "./core/delivery.js";
import {
  checkTopic,
  checkedBatch,
  encodeAlone,
  encodePart,
  eventOf,
  isRecord,
} from "./core/encode.js";
import { CLIENT_HABITS, nameHabits } from "./core/habits.js";
import { checkHeaders, checkKey } from "./core/headers.js";
import { uuid7 } from "./core/ids.js";
import { checkNames, checkType } from "./core/names.js";
import { ClosedError, InvalidEventError } from "./errors.js";
import { FIELDS } from "./events.js";
import { limitsOf, retryOf } from "./settings.js";
import { linked, pause } from "./waiting.js";
import { Wire } from "./wire.js";

/** @import {Part} from "./core/encode.js" */
/** @import {Stringify} from "./core/json.js" */
/** @import {EventFields} from "./events.js" */
/** @import {Outcome} from "./outcomes.js" */
/** @import {Limits, Retry} from "./settings.js" */
/** @import {Url, WireOptions} from "./wire.js" */

/**
 * @typedef {object} OwnOptions
 * @property {Partial<Retry>} [retry] Retries and their time limit.
 * @property {Partial<Limits>} [limits] Size of one request.
 * @property {boolean} [idempotency] False sends no Idempotency-Key. A retry may then write an event
 *   twice.
 * @property {boolean} [eventIds] Give each event without an id a new one. A topic with
 *   `dedupe_ttl_s` then writes each event once, also if it arrives in several requests.
 * @property {Stringify} [stringify] Function that encodes values as JSON.
 */

/** @typedef {WireOptions & OwnOptions} ClientOptions */

/**
 * @typedef {object} RequestOptions
 * @property {string} [idempotencyKey] Idempotency-Key of the request, if other programs may send the
 *   same request. The default is a new one. All events are then in one request.
 * @property {Readonly<Record<string, string>>} [requestHeaders] HTTP headers of the request, such as
 *   `Headgate-Force`.
 * @property {AbortSignal} [signal] Gives up early, with the best knowledge of each event.
 */

/** @typedef {EventFields & RequestOptions} SendOptions */

const OPTIONS = [
  "producer",
  "token",
  "requestHeaders",
  "retry",
  "limits",
  "idempotency",
  "eventIds",
  "compression",
  "timeoutMs",
  "stringify",
  "observer",
  "log",
  "fetch",
];
const REQUEST_OPTIONS = ["idempotencyKey", "requestHeaders", "signal"];

/** Sends events and returns the outcome of each. */
export class Client {
  #stringify;
  /** @type {(() => string) | null} */
  #newId;
  #hasWarned = false; // of an event that looks like the record of another library

  /**
   * Throws InvalidOptionError.
   *
   * @param {Url | Iterable<Url>} url URL of the gateway, or several. If one gateway is unavailable or
   *   drains, the client uses the next one.
   * @param {ClientOptions} [options]
   */
  constructor(url, options = {}) {
    checkNames("Client", options, OPTIONS);
    const { idempotency = true, eventIds = false, stringify = JSON.stringify } = options;
    checkType("idempotency", idempotency, "boolean", "true or false");
    checkType("eventIds", eventIds, "boolean", "true or false");
    checkType("stringify", stringify, "function", "a function such as JSON.stringify");
    /** @internal */
    this.wire = new Wire(url, options);
    this.#stringify = stringify;
    this.#newId = eventIds ? newId : null;
    /** @internal */
    this.rules = {
      retry: retryOf(options.retry),
      limits: limitsOf(options.limits),
      chances: { share: Math.random, newKey: idempotency ? newId : null },
    };
  }

  /**
   * Send one event and return its outcome. Throws InvalidEventError, InvalidOptionError or
   * ClosedError; then nothing was sent.
   *
   * @param {string} topic
   * @param {unknown} value A JSON value, `RawJson`, bytes or `TOMBSTONE`; or a `HeadgateEvent` or
   *   `CloudEvent`, which has its own key, id, headers and timestamp.
   * @param {SendOptions} [options]
   * @returns {Promise<Outcome>}
   */
  async send(topic, value, options = {}) {
    checkTopic(topic);
    checkNames("send", options, [...FIELDS, ...REQUEST_OPTIONS]);
    checkRequest(options, this.wire.hasToken);
    const part = encodeAlone(eventOf(value, options), this.#stringify, this.#newId);
    const [outcome] = await this.#deliver(topic, [part], options);
    return /** @type {Outcome} */ (outcome);
  }

  /**
   * Send events and return an outcome for each, in their order. Many events are sent in several
   * requests. Throws the errors of `send`.
   *
   * @param {string} topic
   * @param {Iterable<unknown>} events Values, `HeadgateEvent` or `CloudEvent` objects.
   * @param {RequestOptions} [options]
   * @returns {Promise<Outcome[]>}
   */
  async sendBatch(topic, events, options = {}) {
    checkNames("sendBatch", options, REQUEST_OPTIONS);
    checkRequest(options, this.wire.hasToken);
    checkTopic(topic);
    const parts = Array.from(checkedBatch(events), (event, position) => {
      if (!this.#hasWarned && isRecord(event)) {
        this.#hasWarned = true;
        this.wire.reports.warn(
          `${topic}: events[${position}] has a member "value", and is sent as it is; for a record ` +
            "with a key use new HeadgateEvent(value, { key })",
        );
      }
      try {
        return this.part(event);
      } catch (error) {
        if (!(error instanceof InvalidEventError)) throw error;
        const text = `events[${position}]: ${error.message}`;
        throw new InvalidEventError(text, { cause: error.cause });
      }
    });
    if (options.idempotencyKey !== undefined && new Set(parts.map(({ form }) => form)).size > 1) {
      throw new InvalidEventError(
        "idempotencyKey: CloudEvents and other events need two requests; send them apart",
      );
    }
    return this.#deliver(topic, parts, options);
  }

  /** Take no more events. Events under way end with the best knowledge, also in producers. */
  close() {
    this.wire.close();
  }

  /**
   * Encode an event as a member of a batch.
   *
   * @internal
   * @param {unknown} event
   */
  part(event) {
    return encodePart(event, this.#stringify, this.#newId);
  }

  /**
   * @param {string} topic
   * @param {readonly Part[]} parts
   * @param {RequestOptions} options
   */
  async #deliver(topic, parts, options) {
    if (this.wire.ending.aborted) throw new ClosedError("the client is closed");
    const { idempotencyKey = null, requestHeaders } = options;
    const endMs = performance.now() + this.rules.retry.patienceMs;
    const delivery = new Delivery(checkTopic(topic), parts, this.rules, endMs, idempotencyKey);
    const { signal, end } = linked([options.signal, this.wire.ending]);
    /** @type {number | null} */
    let waitMs = parts.length ? 0 : null;
    while (waitMs !== null) {
      await pause(waitMs, signal);
      if (signal.aborted) {
        delivery.giveUp(false, whyAborted(signal));
        break;
      }
      const answer = await this.wire.post(delivery.post(), { requestHeaders, signal });
      waitMs = delivery.answered(answer, performance.now()).waitMs;
    }
    end();
    const outcomes = /** @type {Outcome[]} */ ([...delivery.outcomes]);
    this.wire.reports.outcomes(outcomes, parts.length > 1);
    return outcomes;
  }
}

/** @param {AbortSignal} signal */
function whyAborted({ reason }) {
  const text = reason instanceof Error ? reason.message : String(reason);
  return `the signal was aborted (${text})`;
}

nameHabits(Client, CLIENT_HABITS);

/**
 * @param {RequestOptions} options
 * @param {boolean} hasToken
 */
function checkRequest({ idempotencyKey, requestHeaders }, hasToken) {
  if (idempotencyKey !== undefined) checkKey(idempotencyKey);
  if (requestHeaders !== undefined) checkHeaders(requestHeaders, hasToken, InvalidEventError);
}

function newId() {
  return uuid7(Date.now(), crypto.getRandomValues(new Uint8Array(10)));
}
