/** The events of a producer, by topic and lane. All times are of one clock. */
export class Outbox {
    /**
     * @param {Rules} rules
     * @param {Readonly<Buffering>} buffering
     */
    constructor(rules: Rules, buffering: Readonly<Buffering>);
    events: number;
    bytes: number;
    /**
     * Whether the event fits now. Throws InvalidEventError if it never fits.
     *
     * @param {Part} part
     */
    hasRoom(part: Part): boolean;
    /** The limit that is reached, for a text. */
    get limit(): string;
    /**
     * Take an event; return whether a request may be due earlier than before.
     *
     * @param {string} topicName
     * @param {Part} part
     * @param {string | null} lane
     * @param {number} nowMs
     * @param {(outcome: Outcome) => void} done
     */
    add(topicName: string, part: Part, lane: string | null, nowMs: number, done: (outcome: Outcome) => void): boolean;
    /**
     * Return the load to post now (`load.delivery.post()`), else the time to wait.
     *
     * @param {number} nowMs
     * @param {Readonly<Limits>} [limits] Of new requests, if they differ from the usual ones.
     * @returns {Load | number}
     */
    take(nowMs: number, limits?: Readonly<Limits>): Load | number;
    /**
     * Take the answer to a post; return the events that have ended.
     *
     * @param {Load} load
     * @param {Answer} answer
     * @param {number} nowMs
     * @returns {EndedEntry[]}
     */
    answered(load: Load, answer: Answer, nowMs: number): EndedEntry[];
    /** Make all present events due; return a number for `isFlushed`. */
    flush(): number;
    /**
     * Whether all events have ended that were present when `flush` gave the number.
     *
     * @param {number} number
     */
    isFlushed(number: number): boolean;
    /**
     * End all events with the best knowledge of each.
     *
     * @param {string} detail
     * @returns {EndedEntry[]}
     */
    abandon(detail: string): EndedEntry[];
    #private;
}
export type EndedEntry = readonly [Entry, Outcome];
import type { Part } from "./encode.js";
import type { Outcome } from "../outcomes.js";
import type { Limits } from "../settings.js";
/** @import {Outcome} from "../outcomes.js" */
/** @import {Buffering, Limits} from "../settings.js" */
/** @import {Answer} from "./answer.js" */
/** @import {Rules} from "./delivery.js" */
/** @import {Part} from "./encode.js" */
/** @typedef {readonly [Entry, Outcome]} EndedEntry */
/** The events of one delivery. */
declare class Load {
    /**
     * @param {Delivery} delivery
     * @param {readonly Entry[]} entries
     */
    constructor(delivery: Delivery, entries: readonly Entry[]);
    isPosted: boolean;
    delivery: Delivery;
    entries: readonly Entry[];
}
import type { Answer } from "./answer.js";
import type { Rules } from "./delivery.js";
import type { Buffering } from "../settings.js";
import { Entry } from "./lanes.js";
import { Delivery } from "./delivery.js";
export {};
