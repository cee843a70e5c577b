/** Events of one topic until each has ended. Call `post`, then `answered`, until nothing waits. */
export class Delivery {
    /**
     * @param {string} topic
     * @param {readonly Part[]} parts
     * @param {Rules} rules
     * @param {number} endMs When to give up, by the clock that `answered` is told.
     * @param {string | null} ownKey An Idempotency-Key of the caller, for all of the events in one
     *   request: it is repeated as a whole, until there is something that must not go with it.
     */
    constructor(topic: string, parts: readonly Part[], rules: Rules, endMs: number, ownKey?: string | null);
    /** @readonly */
    readonly topic: string;
    /** @returns {readonly (Outcome | null)[]} */
    get outcomes(): readonly (Outcome | null)[];
    /**
     * Return the request to make now.
     *
     * @returns {Post}
     */
    post(): Post;
    /**
     * Take the answer to the last post.
     *
     * @param {Answer} answer
     * @param {number} nowMs
     * @returns {Step}
     */
    answered(answer: Answer, nowMs: number): Step;
    /**
     * End whatever is open, with what is known of it; return the places.
     *
     * @param {boolean} isPosted A request is under way.
     */
    giveUp(isPosted: boolean): number[];
    #private;
}
/**
 * What to post.
 */
export type Post = {
    topic: string;
    headers: Headers;
    content: Uint8Array;
    events: number;
    /**
     * 1 for the first time that these bytes go.
     */
    attempt: number;
};
/**
 * What an answer has changed.
 */
export type Step = {
    /**
     * The places of events that have their outcome now.
     */
    ended: readonly number[];
    /**
     * Until the next post; null if all have ended.
     */
    waitMs: number | null;
};
/**
 * Where randomness comes from.
 */
export type Chances = {
    /**
     * 0 to 1.
     */
    share: () => number;
    /**
     * Of a request; null sends none.
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
