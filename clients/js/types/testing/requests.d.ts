/**
 * @param {string} url
 * @param {RequestInit} init
 * @returns {Promise<FakeRequest>}
 */
export function readRequest(url: string, init: RequestInit): Promise<FakeRequest>;
/**
 * Throw RefusedError (malformed) for headers that a gateway refuses.
 *
 * @param {Headers} headers
 */
export function checkRequest(headers: Headers): void;
/**
 * Return why the gateway would call the event malformed, else null.
 *
 * @param {FakeRecord} record
 */
export function faultOf({ headers, value }: FakeRecord): "an event has at most 1000 headers or attributes" | "the JSON nests deeper than 128" | null;
/**
 * Return what the id of an event belongs to (a producer, or the source of a CloudEvent), and the
 * content type of its record.
 *
 * @param {FakeRecord} record
 */
export function identityOf(record: FakeRecord): Identity;
/**
 * Return the events of a request.
 *
 * @param {FakeRequest} request
 * @returns {FakeRecord[]}
 */
export function recordsOf({ topic, headers, content }: FakeRequest): FakeRecord[];
/**
 * Whether two requests have the same bytes.
 *
 * @param {Uint8Array} one
 * @param {Uint8Array} other
 */
export function isSame(one: Uint8Array, other: Uint8Array): boolean;
/** The request fails as a whole. */
export class RefusedError extends Error {
    /**
     * @param {string} reason
     * @param {string} detail
     * @param {number} [retryAfterS]
     */
    constructor(reason: string, detail: string, retryAfterS?: number);
    reason: string;
    retryAfterS: number;
}
export type Member = Record<string, any>;
/**
 * A written record.
 */
export type FakeRecord = {
    topic: string;
    key: Key;
    /**
     * A JSON value, bytes, or null for a tombstone.
     */
    value: unknown;
    isTombstone: boolean;
    eventId: string | null;
    /**
     * Record headers, without the gateway's.
     */
    headers: Readonly<Record<string, string>>;
};
export type FakeRequest = {
    topic: string;
    headers: Headers;
    /**
     * Uncompressed.
     */
    content: Uint8Array;
};
export type Identity = {
    owner: readonly string[];
    contentType: string | null;
};
import type { Key } from "../outcomes.js";
