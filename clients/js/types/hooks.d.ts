/**
 * @typedef {object} Attempt One request and its response.
 * @property {string} topic
 * @property {number} events Number of events in it.
 * @property {number} contentBytes Size of the body before compression.
 * @property {number} number 1 for the first request with these bytes, then 2, 3, ...
 * @property {number} durationMs Time until the response.
 * @property {string} result `ended` if each event has an outcome, else the reason of the failure.
 * @property {string} detail Text that explains the failure.
 * @property {number | null} status HTTP status, null without a response.
 * @property {string | null} requestId Id of the request in the gateway's log.
 * @property {boolean} isBypassed The gateway could not check the Idempotency-Key: its Redis is
 *   unavailable.
 */
/**
 * @typedef {object} Observer Receives reports, for metrics. Its methods must be quick.
 * @property {(attempt: Attempt) => void} [onAttempt] A request has its response, or failed.
 * @property {(topic: string, outcomes: readonly Outcome[]) => void} [onOutcomes] Some events of a
 *   topic have their outcomes.
 */
/** The part of `console` that is used. @typedef {Pick<Console, "warn" | "error">} Log */
/** Writes outages and failures to the log, and passes all reports to the observer. */
export class Reports {
    /**
     * @param {Observer} observer
     * @param {Log | null} log
     */
    constructor(observer: Observer, log: Log | null);
    /**
     * Report a request. The first failure of an outage and its end are logged.
     *
     * @param {Attempt} attempt
     * @param {boolean} isRetryable It failed, and may be sent again. Another failure is an outcome, and
     *   is logged as that.
     * @param {number} nowMs Of a monotonic clock.
     */
    attempt(attempt: Attempt, isRetryable: boolean, nowMs: number): void;
    /**
     * Report outcomes. Failures are logged once, by topic and reason, with what identifies the first.
     *
     * @param {readonly Outcome[]} outcomes
     * @param {boolean} [isBatch] They are those of one `sendBatch`, so their positions count.
     */
    outcomes(outcomes: readonly Outcome[], isBatch?: boolean): void;
    /**
     * Log a warning.
     *
     * @param {string} text
     */
    warn(text: string): void;
    #private;
}
/**
 * One request and its response.
 */
export type Attempt = {
    topic: string;
    /**
     * Number of events in it.
     */
    events: number;
    /**
     * Size of the body before compression.
     */
    contentBytes: number;
    /**
     * 1 for the first request with these bytes, then 2, 3, ...
     */
    number: number;
    /**
     * Time until the response.
     */
    durationMs: number;
    /**
     * `ended` if each event has an outcome, else the reason of the failure.
     */
    result: string;
    /**
     * Text that explains the failure.
     */
    detail: string;
    /**
     * HTTP status, null without a response.
     */
    status: number | null;
    /**
     * Id of the request in the gateway's log.
     */
    requestId: string | null;
    /**
     * The gateway could not check the Idempotency-Key: its Redis is
     * unavailable.
     */
    isBypassed: boolean;
};
/**
 * Receives reports, for metrics. Its methods must be quick.
 */
export type Observer = {
    /**
     * A request has its response, or failed.
     */
    onAttempt?: ((attempt: Attempt) => void) | undefined;
    /**
     * Some events of a
     * topic have their outcomes.
     */
    onOutcomes?: ((topic: string, outcomes: readonly Outcome[]) => void) | undefined;
};
/**
 * The part of `console` that is used.
 */
export type Log = Pick<Console, "warn" | "error">;
import type { Outcome } from "./outcomes.js";
