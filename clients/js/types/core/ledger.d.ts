/** @import {Outcome} from "../outcomes.js" */
/** @import {Lost, Refused} from "./answer.js" */
/** @import {Part} from "./encode.js" */
export const TOO_MUCH: string[];
/** Outcomes of the events of a delivery, and the events that may be written already. */
export class Ledger {
    /**
     * @param {string} topic
     * @param {readonly Part[]} parts
     */
    constructor(topic: string, parts: readonly Part[]);
    /** @type {(Outcome | null)[]} */
    outcomes: (Outcome | null)[];
    /** @type {Set<number>} The places of events without an outcome, in their order. */
    open: Set<number>;
    /**
     * Note that these events may be written already.
     *
     * @param {Iterable<number>} places
     */
    doubt(places: Iterable<number>): void;
    /**
     * Note an outcome. An event that may be written already is not rejected but unknown.
     *
     * @param {number} at
     * @param {Outcome} outcome
     */
    end(at: number, outcome: Outcome): void;
    /**
     * Return the outcome of one event after an answer that had no outcomes.
     *
     * @param {number} at
     * @param {Refused | Lost | null} own The answer to the request that the event was in.
     * @param {Refused | Lost} last The last answer of all, for its text.
     * @returns {Outcome}
     */
    failure(at: number, own: Refused | Lost | null, last: Refused | Lost): Outcome;
    #private;
}
import type { Outcome } from "../outcomes.js";
import type { Refused } from "./answer.js";
import type { Lost } from "./answer.js";
import type { Part } from "./encode.js";
