/**
 * Return an answer of this kind.
 *
 * @param {string} reason
 * @param {string} detail
 * @param {{retryable: boolean, status?: number | null, retryAfterMs?: number}} more
 * @returns {Refused}
 */
export function refused(reason: string, detail: string, { retryable, status, retryAfterMs }: {
    retryable: boolean;
    status?: number | null;
    retryAfterMs?: number;
}): Refused;
/**
 * Return an answer of this kind.
 *
 * @param {string} detail
 * @param {{wasSent?: boolean, reason?: string, status?: number | null, retryAfterMs?: number}} more
 * @returns {Lost}
 */
export function lost(detail: string, more?: {
    wasSent?: boolean;
    reason?: string;
    status?: number | null;
    retryAfterMs?: number;
}): Lost;
/**
 * @typedef {object} Raw An answer as HTTP has it.
 * @property {number} status
 * @property {string} body
 * @property {(name: string) => string | null} header
 */
/**
 * Read an answer to a request with so many events.
 *
 * @param {string} topic
 * @param {number} expected
 * @param {Raw} raw
 * @param {number} nowMs Since 1970.
 * @returns {Answer}
 */
export function readAnswer(topic: string, expected: number, { status, body, header }: Raw, nowMs: number): Answer;
/**
 * Read the outcome of one event.
 *
 * @param {string} topic
 * @param {Readonly<Record<string, unknown>>} found
 * @returns {Outcome}
 */
export function outcomeOf(topic: string, found: Readonly<Record<string, unknown>>): Outcome;
/**
 * Return the milliseconds of a Retry-After, which has seconds or a date; 0 where it has neither.
 *
 * @param {string | null} value
 * @param {number} nowMs Since 1970.
 */
export function retryAfter(value: string | null, nowMs: number): number;
/**
 * An answer as HTTP has it.
 */
export type Raw = {
    status: number;
    body: string;
    header: (name: string) => string | null;
};
/**
 * The gateway says how each event ended.
 */
export type Ended = {
    kind: "ended";
    outcomes: Outcome[];
    /**
     * It could not look the request's Idempotency-Key up.
     */
    isBypassed: boolean;
    retryAfterMs: number;
};
/**
 * The request failed as a whole, and this attempt wrote nothing.
 */
export type Refused = {
    kind: "refused";
    reason: string;
    detail: string;
    retryable: boolean;
    status: number | null;
    retryAfterMs: number;
};
/**
 * There is no answer that says what became of the events.
 */
export type Lost = {
    kind: "lost";
    /**
     * `unknown` if the gateway said so, else `no_answer`.
     */
    reason: string;
    detail: string;
    /**
     * False if no byte of the request has left.
     */
    wasSent: boolean;
    status: number | null;
    retryAfterMs: number;
};
export type Answer = Ended | Refused | Lost;
import type { Outcome } from "../outcomes.js";
