/** Background sending: the producer takes events at once and sends them in batches. */

import { Client } from "./client.js";
import { checkTopic, eventOf } from "./core/encode.js";
import { PRODUCER_HABITS, nameHabits } from "./core/habits.js";
import { laneOf, orderingKeyOf } from "./core/keys.js";
import { checkNames, checkType } from "./core/names.js";
import { Outbox } from "./core/outbox.js";
import { counted } from "./core/wording.js";
import { BufferFullError, ClosedError, InvalidEventError, InvalidOptionError } from "./errors.js";
import { CloudEvent, FIELDS } from "./events.js";
import { isHidden, limitsNow } from "./keepalive.js";
import { bufferingOf } from "./settings.js";
import { Line, after, follow } from "./waiting.js";

/** @import {EndedEntry} from "./core/outbox.js" */
/** @import {EventFields} from "./events.js" */
/** @import {Outcome} from "./outcomes.js" */
/** @import {Buffering} from "./settings.js" */
/** @import {WaitOptions} from "./waiting.js" */

/** @typedef {string | Uint8Array | number | bigint | boolean | null | undefined} OrderingKey */

/**
 * @typedef {object} ProducerOptions
 * @property {Partial<Buffering>} [buffering] Size of the buffer and of its requests.
 * @property {(topic: string, value: any) => OrderingKey} [orderingKey] Function of topic and value
 *   that returns the key of events without `key`: a string, bytes, a whole number, a boolean, or
 *   null. Without the function, these events of a topic are sent one request after another.
 * @property {boolean} [flushWhenHidden] In a page: send the waiting events when the page is hidden.
 */

const WAITS = ["timeoutMs", "signal"];

/** @param {WaitOptions} options */
function checkWait({ timeoutMs }) {
  checkType("timeoutMs", timeoutMs, "number", "a number of milliseconds");
}

/** @typedef {{outcome: Promise<Outcome>}} Taken */

/** Takes events at once and sends them in batches, in the order of each key. */
export class BufferedProducer {
  #client;
  #outbox;
  #inFlight;
  #orderingKey;
  /** @type {Line<Taken>} */
  #forRoom = new Line();
  /** @type {Line<true>} */
  #forEnd = new Line();
  #isClosed = false;
  #over = new AbortController();
  #posting = 0;
  #isDue = false;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #timer;
  #page;
  #onVisibility = () => {
    if (isHidden()) void this.flush({ timeoutMs: 0 });
  };
  #forgetClient;

  /**
   * @param {Client} client
   * @param {ProducerOptions} [options]
   */
  constructor(client, options = {}) {
    if (!(client instanceof Client)) {
      const kind = typeof client === "string" ? "a string" : typeof client;
      throw new InvalidOptionError(`client: use new Client(url), not ${kind}`);
    }
    checkNames("BufferedProducer", options, ["buffering", "orderingKey", "flushWhenHidden"]);
    if (typeof (options.orderingKey ?? String) !== "function") {
      throw new InvalidOptionError("orderingKey: use a function of topic and value");
    }
    checkType("flushWhenHidden", options.flushWhenHidden, "boolean", "true or false");
    if (client.wire.ending.aborted) throw new ClosedError("the client is closed");
    const buffering = bufferingOf(options.buffering);
    this.#client = client;
    this.#outbox = new Outbox(client.rules, buffering);
    this.#inFlight = buffering.inFlight;
    this.#orderingKey = options.orderingKey;
    const { flushWhenHidden = true } = options;
    this.#page = flushWhenHidden ? globalThis.document : undefined;
    this.#page?.addEventListener("visibilitychange", this.#onVisibility);
    this.#forgetClient = follow(client.wire.ending, () => this.#end("the client was closed"));
  }

  /** Number of events that have no outcome yet. */
  get events() {
    return this.#outbox.events;
  }

  /** Memory of these events, about. */
  get bytes() {
    return this.#outbox.bytes;
  }

  /**
   * Take one event and return a promise of its outcome. The promise is never rejected: a failure is
   * an outcome, too, and is logged. Throws BufferFullError, InvalidEventError, InvalidOptionError or
   * ClosedError; then the event was not taken.
   *
   * @param {string} topic
   * @param {unknown} value A JSON value, `RawJson`, bytes or `TOMBSTONE`; or a `HeadgateEvent` or
   *   `CloudEvent`, which has its own key, id, headers and timestamp.
   * @param {EventFields} [fields]
   * @returns {Promise<Outcome>}
   */
  send(topic, value, fields = {}) {
    checkNames("send", fields, FIELDS);
    const attempt = this.#attempt(topic, value, fields);
    const taken = this.#forRoom.isEmpty ? attempt() : null;
    if (taken === null) throw this.#noRoom();
    return taken.outcome;
  }

  /**
   * Wait for room in the buffer, then take the event. Await it: an event that waits for room is not
   * in the buffer. Throws BufferFullError after the time limit.
   *
   * @param {string} topic
   * @param {unknown} value
   * @param {EventFields & WaitOptions} [options]
   * @returns {Promise<Taken>}
   */
  async sendWhenRoom(topic, value, options = {}) {
    checkNames("sendWhenRoom", options, [...FIELDS, ...WAITS]);
    checkWait(options);
    const taken = await this.#forRoom.wait(this.#attempt(topic, value, options), options);
    if (taken === null) throw this.#noRoom();
    return taken;
  }

  /**
   * Send all events that were taken so far, and wait for their outcomes.
   *
   * @param {WaitOptions} [options] Time limit; the default has none.
   * @returns {Promise<boolean>} Whether all of them have their outcomes.
   */
  async flush(options = {}) {
    checkNames("flush", options, WAITS);
    checkWait(options);
    const number = this.#outbox.flush();
    this.#pump();
    const isFlushed = () => this.#outbox.isFlushed(number) || null;
    return (await this.#forEnd.wait(isFlushed, options)) ?? false;
  }

  /**
   * Take no more events, and send those that were taken. Events without an outcome at the time limit
   * end as `Rejected` (`not_sent`), or as `Unknown` if their request is under way.
   *
   * @param {WaitOptions} [options]
   * @returns {Promise<boolean>} Whether all events had their outcomes in time.
   */
  async close(options = {}) {
    checkNames("close", options, WAITS);
    checkWait(options);
    this.#isClosed = true;
    this.#forRoom.dismiss();
    const isFlushed = await this.flush(options);
    this.#end("the producer was closed");
    return isFlushed;
  }

  /** @param {string} why */
  #end(why) {
    this.#isClosed = true;
    this.#forRoom.dismiss();
    this.#page?.removeEventListener("visibilitychange", this.#onVisibility);
    this.#forgetClient();
    this.#forEnd.dismiss(); // these events get no other outcome
    this.#settle(this.#outbox.abandon(why));
    clearTimeout(this.#timer);
    this.#over.abort(new Error(why));
  }

  /**
   * Return a function that takes the event if there is room.
   *
   * @param {string} topic
   * @param {unknown} value
   * @param {EventFields} fields
   * @returns {() => Taken | null}
   */
  #attempt(topic, value, fields) {
    if (this.#isClosed) throw this.#noRoom();
    checkTopic(topic);
    const event = eventOf(value, fields);
    const part = this.#client.part(event);
    const content = event instanceof CloudEvent ? event.data : event.value;
    const lane = part.lane ?? this.#laneOf(topic, content);
    this.#outbox.hasRoom(part); // throws if there never is
    return () => {
      if (!this.#outbox.hasRoom(part)) return null;
      const outcome = new Promise((/** @type {(outcome: Outcome) => void} */ done) => {
        if (this.#outbox.add(topic, part, lane, performance.now(), done)) this.#pumpSoon();
      });
      return { outcome };
    };
  }

  /**
   * Return the ordering key of an event without a key, null if it has none.
   *
   * @param {string} topic
   * @param {unknown} content
   */
  #laneOf(topic, content) {
    if (this.#orderingKey === undefined) return null;
    let key;
    try {
      key = this.#orderingKey(topic, content);
    } catch (error) {
      const text = `orderingKey: the function threw ${error}; return null if there is no key`;
      throw new InvalidEventError(text, { cause: error });
    }
    return laneOf(orderingKeyOf(key));
  }

  #noRoom() {
    if (this.#isClosed) return new ClosedError("the producer is closed");
    const wait = this.events === 1 ? "waits" : "wait";
    const events = counted(this.events, "event");
    const limit = `${this.#outbox.limit} of buffering`;
    return new BufferFullError(`${events} ${wait} (${limit}); the event was not taken`);
  }

  /** Post when the caller has finished: the events that it sends now go together. */
  #pumpSoon() {
    if (this.#isDue) return;
    this.#isDue = true;
    queueMicrotask(() => {
      this.#isDue = false;
      this.#pump();
    });
  }

  /** Post the loads that are due, and set a timer for the next one. */
  #pump() {
    clearTimeout(this.#timer);
    const { limits } = this.#client.rules;
    while (this.#posting < this.#inFlight) {
      const taken = this.#outbox.take(performance.now(), limitsNow(limits));
      if (typeof taken === "number") {
        if (taken !== Infinity) this.#timer = after(() => this.#pump(), taken);
        return;
      }
      void this.#post(taken);
    }
  }

  /** @param {Exclude<ReturnType<Outbox["take"]>, number>} load */
  async #post(load) {
    this.#posting += 1;
    const { signal } = this.#over;
    const answer = await this.#client.wire.post(load.delivery.post(), { signal });
    this.#posting -= 1;
    this.#settle(this.#outbox.answered(load, answer, performance.now()));
    this.#pump(); // lanes are free
  }

  /** @param {readonly EndedEntry[]} ended */
  #settle(ended) {
    for (const [entry, outcome] of ended) entry.done(outcome);
    this.#forRoom.move();
    this.#forEnd.move();
    this.#client.wire.reports.outcomes(ended.map(([, outcome]) => outcome));
  }
}

nameHabits(BufferedProducer, PRODUCER_HABITS);
