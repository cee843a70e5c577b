/** Chance that can be had again: the same seed gives the same numbers. */

/** mulberry32: small, and good enough to mix faults. */
export class Random {
  #state;

  constructor(seed) {
    this.#state = seed >>> 0;
  }

  /** A number from 0 to 1. */
  share() {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(this.#state ^ (this.#state >>> 15), 1 | this.#state);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  }

  below(bound) {
    return Math.floor(this.share() * bound);
  }

  is(likelihood) {
    return this.share() < likelihood;
  }

  of(items) {
    return items[this.below(items.length)];
  }
}
