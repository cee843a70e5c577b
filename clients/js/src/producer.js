/** Sends in the background: events are taken at once and go in batches. */

import { checkTopic } from "./core/encode.js";
import { checkedKey, laneOf } from "./core/keys.js";
import { checkNames } from "./core/names.js";
import { Outbox } from "./core/outbox.js";
import { BufferFullError, ClosedError } from "./errors.js";
import { tellEnded } from "./hooks.js";
import { isHidden, limitsNow } from "./keepalive.js";
import { bufferingOf } from "./settings.js";
import { Line, after, follow } from "./waiting.js";

/** @import {Client} from "./client.js" */
/** @import {EndedEntry} from "./core/outbox.js" */
/** @import {Outcome} from "./outcomes.js" */
/** @import {Buffering} from "./settings.js" */
/** @import {WaitOptions} from "./waiting.js" */

/**
 * @typedef {object} ProducerOptions
 * @property {Partial<Buffering>} [buffering]
 * @property {(topic: string, event: unknown) => string | Uint8Array | null} [laneOf] For events
 *   without a key of their own: what their order hangs on, as the value at the topic's pointer.
 *   Without it all such events of a topic go one request after another.
 * @property {boolean} [flushWhenHidden] In a page: send what is there when its reader leaves it.
 */

/** @typedef {{outcome: Promise<Outcome>}} Taken */

/** Takes events at once and sends them in batches, in the order of each key. */
export class BufferedProducer {
  #client;
  #outbox;
  #inFlight;
  #laneOf;
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
    checkNames("BufferedProducer", options, ["buffering", "laneOf", "flushWhenHidden"]);
    if (client.wire.ending.aborted) throw new ClosedError("the client is closed");
    const buffering = bufferingOf(options.buffering);
    this.#client = client;
    this.#outbox = new Outbox(client.rules, buffering);
    this.#inFlight = buffering.inFlight;
    this.#laneOf = options.laneOf;
    this.#page = options.flushWhenHidden === false ? undefined : globalThis.document;
    this.#page?.addEventListener("visibilitychange", this.#onVisibility);
    this.#forgetClient = follow(client.wire.ending, () => this.#end("the client was closed"));
  }

  /** How many events have no outcome yet. */
  get events() {
    return this.#outbox.events;
  }

  /** About what they take in memory. */
  get bytes() {
    return this.#outbox.bytes;
  }

  /**
   * Take an event: a JSON value, a `HeadgateEvent` or a `CloudEvent`. The promise has its outcome,
   * and is never rejected. Throws BufferFullError, InvalidEventError or ClosedError, and then nothing
   * was taken.
   *
   * @param {string} topic
   * @param {unknown} event
   * @returns {Promise<Outcome>}
   */
  send(topic, event) {
    const attempt = this.#attempt(topic, event);
    const taken = this.#forRoom.isEmpty ? attempt() : null;
    if (taken === null) throw this.#noRoom();
    return taken.outcome;
  }

  /**
   * Wait for room, then take the event. Await it: what waits for room is in no buffer.
   *
   * @param {string} topic
   * @param {unknown} event
   * @param {WaitOptions} [options] How long to wait; then it throws BufferFullError.
   * @returns {Promise<Taken>}
   */
  async sendWhenRoom(topic, event, options = {}) {
    const taken = await this.#forRoom.wait(this.#attempt(topic, event), options);
    if (taken === null) throw this.#noRoom();
    return taken;
  }

  /**
   * Send what is there without waiting for more; return whether all of it has ended in time.
   *
   * @param {WaitOptions} [options]
   * @returns {Promise<boolean>}
   */
  async flush(options = {}) {
    const number = this.#outbox.flush();
    this.#pump();
    const isFlushed = () => this.#outbox.isFlushed(number) || null;
    return (await this.#forEnd.wait(isFlushed, options)) ?? false;
  }

  /**
   * Take no more events, and flush. What has not ended then ends as `not_sent` or unknown.
   *
   * @param {WaitOptions} [options]
   * @returns {Promise<boolean>} Whether all events ended by themselves.
   */
  async close(options = {}) {
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
    this.#forEnd.dismiss(); // what they wait for does not end by itself
    this.#settle(this.#outbox.abandon(why));
    clearTimeout(this.#timer);
    this.#over.abort(new Error(why));
  }

  /**
   * Return what takes the event if there is room.
   *
   * @param {string} topic
   * @param {unknown} event
   * @returns {() => Taken | null}
   */
  #attempt(topic, event) {
    if (this.#isClosed) throw this.#noRoom();
    checkTopic(topic);
    const part = this.#client.part(event);
    const named = part.lane === null ? (this.#laneOf?.(topic, event) ?? null) : null;
    const lane = named === null ? part.lane : laneOf(checkedKey(named));
    this.#outbox.hasRoom(part); // throws if there never is
    return () => {
      if (!this.#outbox.hasRoom(part)) return null;
      const outcome = new Promise((/** @type {(outcome: Outcome) => void} */ done) => {
        if (this.#outbox.add(topic, part, lane, performance.now(), done)) this.#pumpSoon();
      });
      return { outcome };
    };
  }

  #noRoom() {
    if (this.#isClosed) return new ClosedError("the producer is closed");
    return new BufferFullError(`${this.events} events wait; nothing was taken`);
  }

  /** Post when the caller is done: what it sends now goes together. */
  #pumpSoon() {
    if (this.#isDue) return;
    this.#isDue = true;
    queueMicrotask(() => {
      this.#isDue = false;
      this.#pump();
    });
  }

  /** Post what is due, and come back when more is. */
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
    tellEnded(this.#client.wire.observer, ended.map(([, outcome]) => outcome));
  }
}
