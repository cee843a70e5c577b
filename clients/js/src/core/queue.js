/** A queue whose ends both cost the same, however long it is. */

const COMPACTED_FROM = 1024;

/** @template T */
export class Queue {
  /** @type {T[]} */
  #items = [];
  #first = 0;

  get length() {
    return this.#items.length - this.#first;
  }

  /** @returns {T | undefined} */
  get first() {
    return this.#items[this.#first];
  }

  /** @param {T} item */
  push(item) {
    this.#items.push(item);
  }

  /** @returns {T | undefined} */
  shift() {
    if (!this.length) return undefined;
    const item = this.#items[this.#first];
    this.#items[this.#first] = /** @type {T} */ (/** @type {unknown} */ (undefined)); // let it go
    this.#first += 1;
    if (this.#first >= COMPACTED_FROM && this.#first * 2 >= this.#items.length) {
      this.#items = this.#items.slice(this.#first);
      this.#first = 0;
    }
    return item;
  }

  *[Symbol.iterator]() {
    for (let at = this.#first; at < this.#items.length; at += 1) {
      yield /** @type {T} */ (this.#items[at]);
    }
  }
}
