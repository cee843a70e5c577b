/** @import {Outcome} from "../outcomes.js" */
/**
 * @typedef {object} End How the event at a place of a delivery ended.
 * @property {number} at
 * @property {string | null} lane
 * @property {Outcome} now In this answer.
 * @property {Outcome} best In any.
 */
/**
 * @typedef {object} Disorder What is to be done about it, by place.
 * @property {Map<number, Outcome>} leftOut A newer one got through.
 * @property {Map<number, Outcome>} behind An older one may have been written after them.
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
};
/**
 * What is to be done about it, by place.
 */
export type Disorder = {
    /**
     * A newer one got through.
     */
    leftOut: Map<number, Outcome>;
    /**
     * An older one may have been written after them.
     */
    behind: Map<number, Outcome>;
};
import type { Outcome } from "../outcomes.js";
