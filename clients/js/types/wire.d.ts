/** Makes the requests of one client and of its producers. */
export class Wire {
    /**
     * @param {string | readonly string[]} url
     * @param {WireOptions} options
     */
    constructor(url: string | readonly string[], options: WireOptions);
    /** @readonly @type {Observer} */
    readonly observer: Observer;
    /** Aborted with the client. */
    get ending(): AbortSignal;
    /** End what is under way. */
    close(): void;
    /**
     * Make one request of a delivery. It never throws: what goes wrong is an answer, too.
     *
     * @param {Post} post
     * @param {{headers?: Readonly<Record<string, string>>, signal?: AbortSignal}} [options]
     * @returns {Promise<Answer>}
     */
    post(post: Post, { headers, signal }?: {
        headers?: Readonly<Record<string, string>>;
        signal?: AbortSignal;
    }): Promise<Answer>;
    #private;
}
export type WireOptions = {
    /**
     * Who you are where authentication is off.
     */
    producer?: string | undefined;
    /**
     * A bearer token, or what returns the
     * one of the moment.
     */
    token?: string | (() => string | Promise<string>) | undefined;
    /**
     * Of every request.
     */
    headers?: Readonly<Record<string, string>> | undefined;
    /**
     * Platforms with `fetch` have no zstd.
     */
    compression?: "gzip" | undefined;
    /**
     * For an answer; longer than `http.request_timeout_ms` of the gateway.
     */
    timeoutMs?: number | undefined;
    /**
     * Hears of requests and outcomes; the console has what fails unless
     * given.
     */
    observer?: Observer | undefined;
    /**
     * Another one; `headgate-client/testing` has one.
     */
    fetch?: typeof fetch | undefined;
};
/**
 * A request that was made.
 */
export type Sent = {
    /**
     * Which of the URLs it went to.
     */
    address: number;
    bearer: string | null;
};
export type Received = {
    answer: Answer;
    status: number | null;
    requestId: string | null;
};
import type { Observer } from "./hooks.js";
import type { Post } from "./core/delivery.js";
import type { Answer } from "./core/answer.js";
