/**
 * Report something; what an observer throws is its own affair, and no event is lost by it.
 *
 * @param {() => void} report
 */
export function tell(report: () => void): void;
/**
 * Report how events of several topics ended.
 *
 * @param {Observer} observer
 * @param {readonly Outcome[]} outcomes
 */
export function tellEnded(observer: Observer, outcomes: readonly Outcome[]): void;
/** What a client reports, for metrics and logs. */
/** @import {Outcome} from "./outcomes.js" */
/**
 * @typedef {object} Attempt One request and its answer.
 * @property {string} topic
 * @property {number} events
 * @property {number} contentBytes Before compression.
 * @property {number} number 1 for the first time that these bytes went.
 * @property {number} durationMs
 * @property {string} result `ended` if there is an outcome for each event, else the reason of the
 *   refusal or why there is no answer.
 * @property {string} detail
 * @property {number | null} status
 * @property {string | null} requestId Of the gateway's log.
 * @property {boolean} isBypassed The gateway could not look the Idempotency-Key up, because its
 *   Redis is away.
 */
/**
 * @typedef {object} Observer It is called by whoever posts: be quick.
 * @property {(attempt: Attempt) => void} [attempted] Hear of a request that has ended.
 * @property {(topic: string, outcomes: readonly Outcome[]) => void} [ended] Hear how events ended.
 */
/** The methods of `console` that are used. @typedef {Pick<Console, "warn" | "error">} Log */
/** Writes what goes wrong to the console, or to a log like it; the default. */
export class LogObserver {
    /** @param {Log} [log] */
    constructor(log?: Log);
    /**
     * Log what is tried again or was refused.
     *
     * @param {Attempt} attempt
     */
    attempted({ topic, events, number, result, detail }: Attempt): void;
    /**
     * Log how many failed, by reason, with the first detail of each.
     *
     * @param {string} topic
     * @param {readonly Outcome[]} outcomes
     */
    ended(topic: string, outcomes: readonly Outcome[]): void;
    #private;
}
/**
 * One request and its answer.
 */
export type Attempt = {
    topic: string;
    events: number;
    /**
     * Before compression.
     */
    contentBytes: number;
    /**
     * 1 for the first time that these bytes went.
     */
    number: number;
    durationMs: number;
    /**
     * `ended` if there is an outcome for each event, else the reason of the
     * refusal or why there is no answer.
     */
    result: string;
    detail: string;
    status: number | null;
    /**
     * Of the gateway's log.
     */
    requestId: string | null;
    /**
     * The gateway could not look the Idempotency-Key up, because its
     * Redis is away.
     */
    isBypassed: boolean;
};
/**
 * It is called by whoever posts: be quick.
 */
export type Observer = {
    /**
     * Hear of a request that has ended.
     */
    attempted?: ((attempt: Attempt) => void) | undefined;
    /**
     * Hear how events ended.
     */
    ended?: ((topic: string, outcomes: readonly Outcome[]) => void) | undefined;
};
/**
 * The methods of `console` that are used.
 */
export type Log = Pick<Console, "warn" | "error">;
import type { Outcome } from "./outcomes.js";
