/**
 * Return a refusal.
 *
 * @param {string} reason
 * @param {string} detail
 * @param {{retryable: boolean} & Partial<Omit<Refused, "kind" | "reason" | "detail">>} more
 * @returns {Refused}
 */
export function refused(reason: string, detail: string, more: {
    retryable: boolean;
} & Partial<Omit<Refused, "kind" | "reason" | "detail">>): Refused;
/**
 * Return a lost answer.
 *
 * @param {string} detail
 * @param {Partial<Omit<Lost, "kind" | "detail">>} more
 * @returns {Lost}
 */
export function lost(detail: string, more?: Partial<Omit<Lost, "kind" | "detail">>): Lost;
/**
 * @typedef {object} Raw The HTTP response.
 * @property {number} status
 * @property {string} body
 * @property {(name: string) => string | null} header
 */
/**
 * Read the response to a request with so many events.
 *
 * @param {string} topic
 * @param {number} expected
 * @param {Raw} raw
 * @param {number} nowMs Since 1970.
 * @param {Hide} [hide] Removes secrets from a text.
 * @returns {Answer}
 */
export function readAnswer(topic: string, expected: number, { status, body, header }: Raw, nowMs: number, hide?: Hide): Answer;
/**
 * Return the milliseconds of a Retry-After, which has seconds or a date; else 0.
 *
 * @param {string | null} value
 * @param {number} nowMs Since 1970.
 */
export function retryAfter(value: string | null, nowMs: number): number;
export const NEW_OUTCOME: "bad_answer";
/**
 * The HTTP response.
 */
export type Raw = {
    status: number;
    body: string;
    header: (name: string) => string | null;
};
/**
 * The gateway returned an outcome for each event.
 */
export type Ended = {
    kind: "ended";
    outcomes: Outcome[];
    /**
     * The gateway could not check the Idempotency-Key.
     */
    isBypassed: boolean;
    retryAfterMs: number;
};
/**
 * The request failed as a whole. This attempt wrote nothing.
 */
export type Refused = {
    kind: "refused";
    reason: string;
    detail: string;
    retryable: boolean;
    status: number | null;
    retryAfterMs: number;
    /**
     * Fields of `Rejected` beside these.
     */
    figures: Figures;
    /**
     * Record key, if the response names it.
     */
    key: Key;
};
/**
 * No usable response: the events may or may not be written.
 */
export type Lost = {
    kind: "lost";
    /**
     * `unknown` if the gateway returned that, `unreachable` if there was no
     * connection, else `no_answer`.
     */
    reason: string;
    detail: string;
    /**
     * False if no byte was sent.
     */
    wasSent: boolean;
    /**
     * The name of the host does not resolve.
     */
    isUnknownHost: boolean;
    /**
     * Another attempt would fail in the same way.
     */
    isFinal: boolean;
    status: number | null;
    retryAfterMs: number;
    requestId: string | null;
};
export type Answer = Ended | Refused | Lost;
import type { Hide } from "./headers.js";
import type { Outcome } from "../outcomes.js";
import type { Figures } from "../outcomes.js";
import type { Key } from "../outcomes.js";
