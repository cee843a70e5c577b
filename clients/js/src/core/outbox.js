/**
 * The bounded buffer of a producer: its events until they have ended, and its next requests.
 *
 * A producer repeats `take`, post, `answered`.
 */

import { InvalidEventError } from "../errors.js";
import { Rejected } from "../outcomes.js";
import { Delivery } from "./delivery.js";
import { Entry, OVERHEAD_BYTES, Topic, sizeOf } from "./lanes.js";

/** @import {Outcome} from "../outcomes.js" */
/** @import {Buffering, Limits} from "../settings.js" */
/** @import {Answer} from "./answer.js" */
/** @import {Rules} from "./delivery.js" */
/** @import {Part} from "./encode.js" */

/** @typedef {readonly [Entry, Outcome]} EndedEntry */

/** The events of one delivery. */
class Load {
  isPosted = true; // a request is under way

  /**
   * @param {Delivery} delivery
   * @param {readonly Entry[]} entries
   */
  constructor(delivery, entries) {
    this.delivery = delivery;
    this.entries = entries;
  }
}

/** The events of a producer, by topic and lane. All times are of one clock. */
export class Outbox {
  events = 0; // what is in it
  bytes = 0;
  #rules;
  #buffering;
  /** @type {Map<string, Topic>} */
  #topics = new Map();
  /** @type {Set<Load>} All that are under way or wait. */
  #loads = new Set();
  /** @type {{dueMs: number, load: Load}[]} They go again at that time; the earliest comes last. */
  #waiting = [];
  #epoch = 0;
  /** @type {Map<number, number>} */
  #openOfEpoch = new Map();

  /**
   * @param {Rules} rules
   * @param {Readonly<Buffering>} buffering
   */
  constructor(rules, buffering) {
    this.#rules = rules;
    this.#buffering = buffering;
  }

  /**
   * Whether the event fits now. Throws InvalidEventError if it never fits.
   *
   * @param {Part} part
   */
  hasRoom(part) {
    const size = sizeOf(part);
    const { maxEvents, maxBytes } = this.#buffering;
    if (size > maxBytes) {
      throw new InvalidEventError(
        `value: ${part.text.length} bytes do not fit into a buffer of maxBytes = ${maxBytes}; ` +
          "send it with the client",
      );
    }
    return this.events < maxEvents && this.bytes + size <= maxBytes;
  }

  /** The limit that is reached, for a text. */
  get limit() {
    const { maxEvents, maxBytes } = this.#buffering;
    if (this.events >= maxEvents) return `maxEvents = ${maxEvents}`;
    return `maxBytes = ${maxBytes}, ${OVERHEAD_BYTES} for each event`;
  }

  /**
   * Take an event; return whether a request may be due earlier than before.
   *
   * @param {string} topicName
   * @param {Part} part
   * @param {string | null} lane
   * @param {number} nowMs
   * @param {(outcome: Outcome) => void} done
   */
  add(topicName, part, lane, nowMs, done) {
    const entry = new Entry(part, lane, nowMs, this.#epoch, done);
    let topic = this.#topics.get(topicName);
    if (!topic) this.#topics.set(topicName, (topic = new Topic(topicName)));
    const wasDueMs = this.#dueMs(topic, this.#rules.limits);
    topic.add(entry);
    this.events += 1;
    this.bytes += entry.size;
    this.#openOfEpoch.set(this.#epoch, (this.#openOfEpoch.get(this.#epoch) ?? 0) + 1);
    return this.#dueMs(topic, this.#rules.limits) < wasDueMs;
  }

  /**
   * Return the load to post now (`load.delivery.post()`), else the time to wait.
   *
   * @param {number} nowMs
   * @param {Readonly<Limits>} [limits] Of new requests, if they differ from the usual ones.
   * @returns {Load | number}
   */
  take(nowMs, limits = this.#rules.limits) {
    const again = this.#waiting.at(-1);
    if (again && again.dueMs <= nowMs) {
      this.#waiting.pop();
      again.load.isPosted = true;
      return again.load;
    }
    let dueMs = again ? again.dueMs : Infinity;
    for (const topic of [...this.#topics.values()]) {
      const topicDueMs = this.#dueMs(topic, limits);
      if (topicDueMs <= nowMs) {
        this.#topics.delete(topic.name); // each has its turn
        this.#topics.set(topic.name, topic);
        return this.#newLoad(topic, limits);
      }
      dueMs = Math.min(dueMs, topicDueMs);
    }
    return dueMs - nowMs;
  }

  /**
   * Take the answer to a post; return the events that have ended.
   *
   * @param {Load} load
   * @param {Answer} answer
   * @param {number} nowMs
   * @returns {EndedEntry[]}
   */
  answered(load, answer, nowMs) {
    if (!this.#loads.has(load)) return []; // given up meanwhile
    load.isPosted = false;
    const topic = this.#topicOf(load);
    const step = load.delivery.answered(answer, nowMs);
    if (answer.kind === "ended") topic.heldUntilMs = -Infinity;
    else if (step.waitMs) {
      topic.heldUntilMs = Math.max(topic.heldUntilMs, nowMs + step.waitMs); // as others would be
    }
    if (step.waitMs === null) this.#loads.delete(load);
    else this.#wait(load, nowMs + step.waitMs);
    return this.#end(load, step.ended);
  }

  /** Make all present events due; return a number for `isFlushed`. */
  flush() {
    this.#epoch += 1;
    return this.#epoch;
  }

  /**
   * Whether all events have ended that were present when `flush` gave the number.
   *
   * @param {number} number
   */
  isFlushed(number) {
    const [oldest = Infinity] = this.#openOfEpoch.keys();
    return oldest >= number;
  }

  /**
   * End all events with the best knowledge of each.
   *
   * @param {string} detail
   * @returns {EndedEntry[]}
   */
  abandon(detail) {
    /** @type {EndedEntry[]} */
    const ended = [];
    for (const topic of this.#topics.values()) {
      for (const entry of topic.waiting()) ended.push([entry, notSent(topic.name, entry, detail)]);
    }
    for (const load of this.#loads) {
      ended.push(...pairs(load, load.delivery.giveUp(load.isPosted)));
    }
    this.#loads.clear();
    this.#waiting = [];
    this.#topics.clear();
    this.#openOfEpoch.clear();
    this.events = this.bytes = 0;
    return ended;
  }

  /**
   * @param {Topic} topic
   * @param {Readonly<Limits>} limits
   */
  #dueMs(topic, limits) {
    const isFlushing = !this.isFlushed(this.#epoch);
    return topic.dueMs(limits, isFlushing ? 0 : this.#buffering.lingerMs);
  }

  /**
   * @param {Topic} topic
   * @param {Readonly<Limits>} limits
   */
  #newLoad(topic, limits) {
    const entries = topic.take(limits, this.#buffering.onePerKey);
    const parts = entries.map((entry) => entry.part);
    const addedMs = entries.reduce((latest, entry) => Math.max(latest, entry.addedMs), -Infinity);
    const endMs = addedMs + this.#rules.retry.patienceMs;
    const load = new Load(new Delivery(topic.name, parts, this.#rules, endMs), entries);
    this.#loads.add(load);
    return load;
  }

  /**
   * @param {Load} load
   * @param {number} dueMs
   */
  #wait(load, dueMs) {
    let [low, high] = [0, this.#waiting.length];
    while (low < high) {
      const middle = (low + high) >>> 1;
      const isLater = /** @type {{dueMs: number}} */ (this.#waiting[middle]).dueMs > dueMs;
      if (isLater) low = middle + 1;
      else high = middle;
    }
    this.#waiting.splice(low, 0, { dueMs, load });
  }

  /**
   * Free the room of events that have ended, and release their lanes.
   *
   * @param {Load} load
   * @param {readonly number[]} places
   */
  #end(load, places) {
    const topic = this.#topicOf(load);
    const ended = pairs(load, places);
    for (const [entry] of ended) {
      topic.end(entry);
      this.events -= 1;
      this.bytes -= entry.size;
      const open = (this.#openOfEpoch.get(entry.epoch) ?? 0) - 1;
      if (open) this.#openOfEpoch.set(entry.epoch, open);
      else this.#openOfEpoch.delete(entry.epoch);
    }
    if (topic.isEmpty) this.#topics.delete(topic.name);
    return ended;
  }

  /** @param {Load} load */
  #topicOf(load) {
    return /** @type {Topic} */ (this.#topics.get(load.delivery.topic));
  }
}

/**
 * @param {Load} load
 * @param {readonly number[]} places
 * @returns {EndedEntry[]}
 */
function pairs(load, places) {
  return places.map((at) => [
    /** @type {Entry} */ (load.entries[at]),
    /** @type {Outcome} */ (load.delivery.outcomes[at]),
  ]);
}

/**
 * @param {string} topic
 * @param {Entry} entry
 * @param {string} detail
 */
function notSent(topic, { part: { key, eventId } }, detail) {
  return new Rejected({ topic, reason: "not_sent", detail, retryable: true, key, eventId });
}
