/** @template T */
export class Queue<T> {
    get length(): number;
    /** @returns {T | undefined} */
    get first(): T | undefined;
    /** @param {T} item */
    push(item: T): void;
    /** @returns {T | undefined} */
    shift(): T | undefined;
    [Symbol.iterator](): Generator<T, void, unknown>;
    #private;
}
