/**
 * Return the memory that an event takes while it waits, about.
 *
 * @param {Part} part
 */
export function sizeOf(part: Part): number;
/** @import {Outcome} from "../outcomes.js" */
/** @import {Limits} from "../settings.js" */
/** @import {Part} from "./encode.js" */
export const OVERHEAD_BYTES: 1200;
/** An event that a producer has taken. */
export class Entry {
    /**
     * @param {Part} part
     * @param {string | null} lane
     * @param {number} addedMs
     * @param {number} epoch Number of calls of `flush` before.
     * @param {(outcome: Outcome) => void} done
     */
    constructor(part: Part, lane: string | null, addedMs: number, epoch: number, done: (outcome: Outcome) => void);
    part: Part;
    lane: string | null;
    size: number;
    addedMs: number;
    epoch: number;
    done: (outcome: Outcome) => void;
}
/** The lanes of one topic. */
export class Topic {
    /** @param {string} name */
    constructor(name: string);
    heldUntilMs: number;
    name: string;
    /** Whether no event waits or is under way. */
    get isEmpty(): boolean;
    /**
     * Take an event.
     *
     * @param {Entry} entry
     */
    add(entry: Entry): void;
    /**
     * Return the time of the next request; infinity if none may go.
     *
     * @param {Readonly<Limits>} limits
     * @param {number} lingerMs
     */
    dueMs(limits: Readonly<Limits>, lingerMs: number): number;
    /**
     * Take the events of the next request, all of one form. Their lanes wait for its end.
     *
     * @param {Readonly<Limits>} limits
     * @param {boolean} onePerLane
     * @returns {Entry[]}
     */
    take(limits: Readonly<Limits>, onePerLane: boolean): Entry[];
    /**
     * Release the lane of an event that has ended.
     *
     * @param {Entry} entry
     */
    end(entry: Entry): void;
    /** Yield the events that were never sent. */
    waiting(): Generator<Entry, void, unknown>;
    #private;
}
import type { Part } from "./encode.js";
import type { Outcome } from "../outcomes.js";
import type { Limits } from "../settings.js";
