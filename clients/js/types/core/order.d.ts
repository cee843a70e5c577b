/** @import {Outcome} from "../outcomes.js" */
/**
 * @typedef {object} End How the event at a place of a delivery ended.
 * @property {number} at
 * @property {string | null} lane
 * @property {Outcome} now In this answer.
 * @property {Outcome} best In any.
 * @property {Outcome | null} before In an earlier request, if an older one may be behind that record,
 *   so that it was sent again.
 */
/**
 * @typedef {object} Disorder What is to be done about it, by place.
 * @property {Map<number, Outcome>} leftOut They do not go again, as a newer one got through, or as
 *   their event id is written once and no more.
 * @property {Map<number, Outcome>} behind They go again, as an older one may have been written after
 *   them.
 */
/**
 * Compare each event with the newest of its key that ended well.
 *
 * @param {readonly End[]} ends In their order.
 * @param {boolean} isRepeat
 * @returns {Disorder}
 */
export function disorderOf(ends: readonly End[], isRepeat: boolean): Disorder;
/**
 * How the event at a place of a delivery ended.
 */
export type End = {
    at: number;
    lane: string | null;
    /**
     * In this answer.
     */
    now: Outcome;
    /**
     * In any.
     */
    best: Outcome;
    /**
     * In an earlier request, if an older one may be behind that record,
     * so that it was sent again.
     */
    before: Outcome | null;
};
/**
 * What is to be done about it, by place.
 */
export type Disorder = {
    /**
     * They do not go again, as a newer one got through, or as
     * their event id is written once and no more.
     */
    leftOut: Map<number, Outcome>;
    /**
     * They go again, as an older one may have been written after
     * them.
     */
    behind: Map<number, Outcome>;
};
import type { Outcome } from "../outcomes.js";
