/** @import {Outcome} from "../outcomes.js" */
/**
 * @typedef {object} End The outcomes of the event at a position of a delivery.
 * @property {number} at
 * @property {string | null} lane
 * @property {Outcome} now In this answer.
 * @property {Outcome} best In all answers.
 * @property {Outcome | null} before In an earlier request, if the event was sent again because an
 *   older one may be behind that record.
 */
/**
 * @typedef {object} Disorder The corrections, by position.
 * @property {Map<number, Outcome>} leftOut Events to drop, because a newer one was written or their
 *   event id is written only once.
 * @property {Map<number, Outcome>} behind Events to send again, because an older one may have been
 *   written after them.
 */
/**
 * Compare each event with the newest written one of its key.
 *
 * @param {readonly End[]} ends In their order.
 * @param {boolean} isRepeat
 * @returns {Disorder}
 */
export function disorderOf(ends: readonly End[], isRepeat: boolean): Disorder;
/**
 * The outcomes of the event at a position of a delivery.
 */
export type End = {
    at: number;
    lane: string | null;
    /**
     * In this answer.
     */
    now: Outcome;
    /**
     * In all answers.
     */
    best: Outcome;
    /**
     * In an earlier request, if the event was sent again because an
     * older one may be behind that record.
     */
    before: Outcome | null;
};
/**
 * The corrections, by position.
 */
export type Disorder = {
    /**
     * Events to drop, because a newer one was written or their
     * event id is written only once.
     */
    leftOut: Map<number, Outcome>;
    /**
     * Events to send again, because an older one may have been
     * written after them.
     */
    behind: Map<number, Outcome>;
};
import type { Outcome } from "../outcomes.js";
