/** Events of one topic until each has ended. Repeat `post` and `answered` until no event waits. */
export class Delivery {
    /**
     * @param {string} topic
     * @param {readonly Part[]} parts
     * @param {Rules} rules
     * @param {number} endMs Time to give up, by the clock of `answered`.
     * @param {string | null} ownKey The caller's Idempotency-Key for all events in one request. That
     *   request is repeated as a whole, until an event must not be in it.
     */
    constructor(topic: string, parts: readonly Part[], rules: Rules, endMs: number, ownKey?: string | null);
    /** @readonly */
    readonly topic: string;
    /** @returns {readonly (Outcome | null)[]} */
    get outcomes(): readonly (Outcome | null)[];
    /**
     * Return the next request.
     *
     * @returns {Post}
     */
    post(): Post;
    /**
     * Take the answer to the last post.
     *
     * @param {Answer} given
     * @param {number} nowMs
     * @returns {Step}
     */
    answered(given: Answer, nowMs: number): Step;
    /**
     * End all open events with the best knowledge of each; return their positions.
     *
     * @param {boolean} isPosted A request is under way.
     * @param {string} [why]
     */
    giveUp(isPosted: boolean, why?: string): number[];
    #private;
}
/**
 * One request.
 */
export type Post = {
    topic: string;
    headers: Headers;
    content: Uint8Array;
    events: number;
    /**
     * 1 for the first request with these bytes.
     */
    attempt: number;
};
/**
 * Result of an answer.
 */
export type Step = {
    /**
     * Positions of the events that now have their outcome.
     */
    ended: readonly number[];
    /**
     * Time until the next post; null if all events have ended.
     */
    waitMs: number | null;
};
/**
 * Sources of randomness.
 */
export type Chances = {
    /**
     * 0 to 1.
     */
    share: () => number;
    /**
     * Idempotency-Keys; null sends none.
     */
    newKey: (() => string) | null;
};
export type Rules = {
    retry: Readonly<Retry>;
    limits: Readonly<Limits>;
    chances: Chances;
};
import type { Outcome } from "../outcomes.js";
import type { Answer } from "./answer.js";
import type { Part } from "./encode.js";
import type { Headers } from "./encode.js";
import type { Retry } from "../settings.js";
import type { Limits } from "../settings.js";
