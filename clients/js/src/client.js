/** The client: sends events and says how each ended, when it has. */

import { Delivery } from "./core/delivery.js";
import { checkTopic, encodeAlone, encodePart } from "./core/encode.js";
import { uuid7 } from "./core/ids.js";
import { checkNames } from "./core/names.js";
import { ClosedError, InvalidEventError } from "./errors.js";
import { tellEnded } from "./hooks.js";
import { limitsOf, retryOf } from "./settings.js";
import { linked, pause } from "./waiting.js";
import { Wire } from "./wire.js";

/** @import {Part} from "./core/encode.js" */
/** @import {Stringify} from "./core/json.js" */
/** @import {Outcome} from "./outcomes.js" */
/** @import {Limits, Retry} from "./settings.js" */
/** @import {WireOptions} from "./wire.js" */

/**
 * @typedef {object} OwnOptions
 * @property {Partial<Retry>} [retry]
 * @property {Partial<Limits>} [limits]
 * @property {boolean} [idempotency] False sends no Idempotency-Keys.
 * @property {boolean} [eventIds] Give an id to each event that has none; on topics with
 *   `dedupe_ttl_s` it is then written once, whatever request brings it.
 * @property {Stringify} [stringify] Makes JSON of values.
 */

/** @typedef {WireOptions & OwnOptions} ClientOptions */

/**
 * @typedef {object} SendOptions
 * @property {string} [idempotencyKey] Yours, where the same request may come from elsewhere, too;
 *   there is one without it. All events are then in one request.
 * @property {Readonly<Record<string, string>>} [headers] Of this request, as `Headgate-Force`.
 * @property {AbortSignal} [signal] Gives up early: what is known by then is the outcome.
 */

const OPTIONS = [
  "producer",
  "token",
  "headers",
  "retry",
  "limits",
  "idempotency",
  "eventIds",
  "compression",
  "timeoutMs",
  "stringify",
  "observer",
  "fetch",
];

/** Sends events to a gateway, or to several that are alike. */
export class Client {
  #stringify;
  /** @type {(() => string) | null} */
  #newId;

  /**
   * @param {string | readonly string[]} url Of the gateway, or of several: another one is asked when
   *   one is away or drains.
   * @param {ClientOptions} [options]
   */
  constructor(url, options = {}) {
    checkNames("Client", options, OPTIONS);
    const { idempotency = true, eventIds = false, stringify = JSON.stringify } = options;
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
   * Send one event: a JSON value, a `HeadgateEvent` or a `CloudEvent`. Throws InvalidEventError, and
   * then nothing was sent, and ClosedError.
   *
   * @param {string} topic
   * @param {unknown} event
   * @param {SendOptions} [options]
   * @returns {Promise<Outcome>}
   */
  async send(topic, event, options = {}) {
    const part = encodeAlone(event, this.#stringify, this.#newId);
    const [outcome] = await this.#deliver(topic, [part], options);
    return /** @type {Outcome} */ (outcome);
  }

  /**
   * Send events; return an outcome for each, in their order. Many are sent in parts. Throws what
   * `send` throws.
   *
   * @param {string} topic
   * @param {Iterable<unknown>} events
   * @param {SendOptions} [options]
   * @returns {Promise<Outcome[]>}
   */
  async sendBatch(topic, events, options = {}) {
    const parts = Array.from(events, (event) => this.part(event));
    if (options.idempotencyKey !== undefined && new Set(parts.map(({ form }) => form)).size > 1) {
      throw new InvalidEventError(
        "idempotencyKey: CloudEvents and other events make two requests; send them apart",
      );
    }
    return this.#deliver(topic, parts, options);
  }

  /** End what is under way with what is known of it, also in producers; take no more events. */
  close() {
    this.wire.close();
  }

  /**
   * Write an event as a member of a batch.
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
   * @param {SendOptions} options
   */
  async #deliver(topic, parts, options) {
    checkNames("options", options, ["idempotencyKey", "headers", "signal"]);
    if (this.wire.ending.aborted) throw new ClosedError("the client is closed");
    const { idempotencyKey = null, headers = {} } = options;
    const endMs = performance.now() + this.rules.retry.patienceMs;
    const delivery = new Delivery(checkTopic(topic), parts, this.rules, endMs, idempotencyKey);
    const { signal, end } = linked([options.signal, this.wire.ending]);
    /** @type {number | null} */
    let waitMs = parts.length ? 0 : null;
    while (waitMs !== null) {
      await pause(waitMs, signal);
      if (signal.aborted) {
        delivery.giveUp(false);
        break;
      }
      const answer = await this.wire.post(delivery.post(), { headers, signal });
      waitMs = delivery.answered(answer, performance.now()).waitMs;
    }
    end();
    const outcomes = /** @type {Outcome[]} */ ([...delivery.outcomes]);
    tellEnded(this.wire.observer, outcomes);
    return outcomes;
  }
}

function newId() {
  return uuid7(Date.now(), crypto.getRandomValues(new Uint8Array(10)));
}
