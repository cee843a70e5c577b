export const FAKE_URL: "http://headgate.test";
/** Sends the requests of one client and of its producers. */
export class Wire {
    /**
     * @param {Url | Iterable<Url>} url
     * @param {WireOptions} options
     */
    constructor(url: Url | Iterable<Url>, options: WireOptions);
    /** @readonly */
    readonly reports: Reports;
    /** Aborted when the client is closed. */
    get ending(): AbortSignal;
    /** Whether requests have a bearer token. */
    get hasToken(): boolean;
    /** Abort the requests under way. */
    close(): void;
    /**
     * Send one request. Every failure is an answer; it never throws.
     *
     * @param {Post} post
     * @param {{requestHeaders?: Readonly<Record<string, string>>, signal?: AbortSignal}} [options]
     * @returns {Promise<Answer>}
     */
    post(post: Post, { requestHeaders, signal }?: {
        requestHeaders?: Readonly<Record<string, string>>;
        signal?: AbortSignal;
    }): Promise<Answer>;
    #private;
}
export type Url = string | URL;
export type WireOptions = {
    /**
     * Producer name of 1 to 100 characters, for gateways without
     * authentication.
     */
    producer?: string | undefined;
    /**
     * Bearer token, or a function that
     * returns the current one.
     */
    token?: string | (() => string | Promise<string>) | undefined;
    /**
     * HTTP headers of every request. Those
     * that the client sets itself are refused.
     */
    requestHeaders?: Readonly<Record<string, string>> | undefined;
    /**
     * Compression of request bodies: "gzip".
     */
    compression?: "gzip" | undefined;
    /**
     * Time limit for a response. Keep it above the gateway's
     * `http.request_timeout_ms`.
     */
    timeoutMs?: number | undefined;
    /**
     * Receives requests and outcomes, for metrics.
     */
    observer?: Observer | undefined;
    /**
     * Receives failures. Null logs nothing.
     */
    log?: Log | null | undefined;
    /**
     * Another `fetch` than the platform's, such as that of
     * `headgate-client/testing`.
     */
    fetch?: typeof fetch | undefined;
};
/**
 * A request that was sent.
 */
export type Sent = {
    /**
     * Index of its URL.
     */
    address: number;
    bearer: string | null;
    /**
     * Removes its secrets from a text.
     */
    hide: Hide;
};
export type Received = {
    answer: Answer;
    status: number | null;
    requestId: string | null;
};
import { Reports } from "./hooks.js";
import type { Post } from "./core/delivery.js";
import type { Answer } from "./core/answer.js";
import type { Observer } from "./hooks.js";
import type { Log } from "./hooks.js";
import type { Hide } from "./core/headers.js";
