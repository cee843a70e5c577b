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
     * Whether the event may be added. Throws InvalidEventError if it never may.
     *
     * @param {Part} part
     */
    hasRoom(part: Part): boolean;
    /**
     * Take an event; return whether there may be something to post earlier than before.
     *
     * @param {string} topicName
     * @param {Part} part
     * @param {string | null} lane
     * @param {number} nowMs
     * @param {(outcome: Outcome) => void} done
     */
    add(topicName: string, part: Part, lane: string | null, nowMs: number, done: (outcome: Outcome) => void): boolean;
    /**
     * Return what to post now (`load.delivery.post()`), else how long to wait.
     *
     * @param {number} nowMs
     * @param {Readonly<Limits>} [limits] Of new requests, where others than usual hold.
     * @returns {Load | number}
     */
    take(nowMs: number, limits?: Readonly<Limits>): Load | number;
    /**
     * Take the answer to what was posted; return what has ended.
     *
     * @param {Load} load
     * @param {Answer} answer
     * @param {number} nowMs
     * @returns {EndedEntry[]}
     */
    answered(load: Load, answer: Answer, nowMs: number): EndedEntry[];
    /** Have everything go that is in it; return a number for `isFlushed`. */
    flush(): number;
    /**
     * Whether everything has ended that was in it when `flush` gave this number.
     *
     * @param {number} number
     */
    isFlushed(number: number): boolean;
    /**
     * End everything with what is known of it.
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
/** A request's worth of events. */
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
