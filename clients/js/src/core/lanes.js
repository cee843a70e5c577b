/**
 * The waiting events of one topic. A lane has the events of one ordering key, in their order.
 *
 * Only one request of a lane is under way at a time. Its other events wait until that has ended.
 */

import { Queue } from "./queue.js";

/** @import {Outcome} from "../outcomes.js" */
/** @import {Limits} from "../settings.js" */
/** @import {Part} from "./encode.js" */

export const OVERHEAD_BYTES = 1200; // of the objects of an event; test/memory.test.js measures them

/** An event that a producer has taken. */
export class Entry {
  /**
   * @param {Part} part
   * @param {string | null} lane
   * @param {number} addedMs
   * @param {number} epoch Number of calls of `flush` before.
   * @param {(outcome: Outcome) => void} done
   */
  constructor(part, lane, addedMs, epoch, done) {
    this.part = part;
    this.lane = lane;
    this.size = sizeOf(part);
    this.addedMs = addedMs;
    this.epoch = epoch;
    this.done = done;
  }
}

/**
 * Return the memory that an event takes while it waits, about.
 *
 * @param {Part} part
 */
export function sizeOf(part) {
  return part.text.length + OVERHEAD_BYTES;
}

class Lane {
  /** @type {Queue<Entry>} */
  entries = new Queue();
  size = 0; // of what waits
  underWay = 0; // events

  /** @param {string | null} name */
  constructor(name) {
    this.name = name;
  }
}

/** The lanes of one topic. */
export class Topic {
  heldUntilMs = -Infinity; // nothing new is tried before
  /** @type {Map<string | null, Lane>} */
  #lanes = new Map();
  /** @type {Queue<Lane>} What waits in them may go. */
  #ready = new Queue();
  #readyEvents = 0;
  #readySize = 0;

  /** @param {string} name */
  constructor(name) {
    this.name = name;
  }

  /** Whether no event waits or is under way. */
  get isEmpty() {
    return !this.#lanes.size;
  }

  /**
   * Take an event.
   *
   * @param {Entry} entry
   */
  add(entry) {
    let lane = this.#lanes.get(entry.lane);
    if (!lane) {
      lane = new Lane(entry.lane);
      this.#lanes.set(entry.lane, lane);
      this.#ready.push(lane);
    }
    lane.entries.push(entry);
    lane.size += entry.size;
    if (!lane.underWay) {
      this.#readyEvents += 1;
      this.#readySize += entry.size;
    }
  }

  /**
   * Return the time of the next request; infinity if none may go.
   *
   * @param {Readonly<Limits>} limits
   * @param {number} lingerMs
   */
  dueMs(limits, lingerMs) {
    const first = this.#ready.first?.entries.first;
    if (!first) return Infinity;
    const isFull = this.#readyEvents >= limits.maxEvents || this.#readySize >= limits.maxBytes;
    return isFull ? this.heldUntilMs : Math.max(this.heldUntilMs, first.addedMs + lingerMs);
  }

  /**
   * Take the events of the next request, all of one form. Their lanes wait for its end.
   *
   * @param {Readonly<Limits>} limits
   * @param {boolean} onePerLane
   * @returns {Entry[]}
   */
  take(limits, onePerLane) {
    /** @type {Entry[]} */
    const taken = [];
    let size = 0;
    for (let lane = this.#ready.first; lane; lane = this.#ready.first) {
      for (let entry = lane.entries.first; entry; entry = lane.entries.first) {
        if (onePerLane && lane.underWay) break;
        if (!goesWith(entry, taken, size, limits)) break;
        if (!lane.underWay) this.#leave(lane);
        lane.underWay += 1;
        lane.size -= entry.size;
        size += entry.part.text.length;
        taken.push(entry);
        lane.entries.shift();
      }
      if (!lane.underWay) break; // full, or of another form
      this.#ready.shift();
    }
    return taken;
  }

  /**
   * Release the lane of an event that has ended.
   *
   * @param {Entry} entry
   */
  end(entry) {
    const lane = /** @type {Lane} */ (this.#lanes.get(entry.lane));
    lane.underWay -= 1;
    if (lane.underWay) return;
    if (!lane.entries.length) {
      this.#lanes.delete(lane.name);
      return;
    }
    this.#ready.push(lane);
    this.#readyEvents += lane.entries.length;
    this.#readySize += lane.size;
  }

  /** Yield the events that were never sent. */
  *waiting() {
    for (const lane of this.#lanes.values()) yield* lane.entries;
  }

  /** @param {Lane} lane */
  #leave(lane) {
    this.#readyEvents -= lane.entries.length;
    this.#readySize -= lane.size;
  }
}

/**
 * @param {Entry} entry
 * @param {readonly Entry[]} taken
 * @param {number} size Of what is taken.
 * @param {Readonly<Limits>} limits
 */
function goesWith(entry, taken, size, limits) {
  const [first] = taken;
  if (!first) return true;
  const isFull = taken.length >= limits.maxEvents || size + entry.part.text.length > limits.maxBytes;
  return !isFull && entry.part.form === first.part.form;
}
