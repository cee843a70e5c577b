/** Makes requests with `fetch`, and reads answers from it. */

import { readAnswer, refused } from "./core/answer.js";
import { InvalidEventError } from "./errors.js";
import { LogObserver, tell } from "./hooks.js";
import { Keepalive, isHidden } from "./keepalive.js";
import { classify } from "./network.js";
import { linked } from "./waiting.js";

/** @import {Answer} from "./core/answer.js" */
/** @import {Post} from "./core/delivery.js" */
/** @import {Observer} from "./hooks.js" */

/**
 * @typedef {object} WireOptions
 * @property {string} [producer] Who you are where authentication is off.
 * @property {string | (() => string | Promise<string>)} [token] A bearer token, or what returns the
 *   one of the moment.
 * @property {Readonly<Record<string, string>>} [headers] Of every request.
 * @property {"gzip"} [compression] Platforms with `fetch` have no zstd.
 * @property {number} [timeoutMs] For an answer; longer than `http.request_timeout_ms` of the gateway.
 * @property {Observer} [observer] Hears of requests and outcomes; the console has what fails unless
 *   given.
 * @property {typeof fetch} [fetch] Another one; `headgate-client/testing` has one.
 */

/**
 * @typedef {object} Sent A request that was made.
 * @property {number} address Which of the URLs it went to.
 * @property {string | null} bearer
 */

/**
 * @typedef {object} Received
 * @property {Answer} answer
 * @property {number | null} status
 * @property {string | null} requestId
 */

const COMPRESSED_FROM_BYTES = 1024; // below, compressing saves nothing that counts
const TIMEOUT_MS = 45_000;
const LONGEST_TIMEOUT_MS = 3_600_000; // platforms take a longer one than 24 days for none

/** Makes the requests of one client and of its producers. */
export class Wire {
  /** @type {readonly string[]} */
  #urls;
  #address = 0;
  #options;
  #keepalive = new Keepalive();
  #ending = new AbortController();

  /**
   * @param {string | readonly string[]} url
   * @param {WireOptions} options
   */
  constructor(url, options) {
    this.#urls = checkedUrls(url);
    this.#options = options;
    /** @readonly @type {Observer} */
    this.observer = options.observer ?? new LogObserver();
    const { compression, timeoutMs = TIMEOUT_MS } = options;
    if (compression !== undefined && compression !== "gzip") {
      throw new InvalidEventError(`compression: gzip, as platforms have no ${compression}`);
    }
    if (!(timeoutMs > 0 && timeoutMs <= LONGEST_TIMEOUT_MS)) {
      throw new InvalidEventError(`timeoutMs: more than 0, at most ${LONGEST_TIMEOUT_MS}`);
    }
  }

  /** Aborted with the client. */
  get ending() {
    return this.#ending.signal;
  }

  /** End what is under way. */
  close() {
    this.#ending.abort(new Error("the client was closed"));
  }

  /**
   * Make one request of a delivery. It never throws: what goes wrong is an answer, too.
   *
   * @param {Post} post
   * @param {{headers?: Readonly<Record<string, string>>, signal?: AbortSignal}} [options]
   * @returns {Promise<Answer>}
   */
  async post(post, { headers = {}, signal } = {}) {
    const beganMs = performance.now();
    const { answer, status, requestId } = await this.#exchange(post, headers, signal);
    const isEnded = answer.kind === "ended";
    tell(() =>
      this.observer.attempted?.({
        topic: post.topic,
        events: post.events,
        contentBytes: post.content.length,
        number: post.attempt,
        durationMs: performance.now() - beganMs,
        result: isEnded ? "ended" : answer.reason,
        detail: isEnded ? "" : answer.detail,
        status,
        requestId,
        isBypassed: isEnded && answer.isBypassed,
      }),
    );
    return answer;
  }

  /**
   * @param {Post} post
   * @param {Readonly<Record<string, string>>} extra
   * @param {AbortSignal} [signal]
   * @returns {Promise<Received>}
   */
  async #exchange(post, extra, signal) {
    /** @type {string | null} */
    let bearer;
    try {
      bearer = await this.#bearer();
    } catch (error) {
      return unsent(`token: ${error}`, true);
    }
    const sent = { address: this.#address, bearer };
    const received = await this.#request(post, extra, sent, signal);
    return { ...received, answer: await this.#after(sent, received.answer) };
  }

  /**
   * @param {Post} post
   * @param {Readonly<Record<string, string>>} extra
   * @param {Sent} sent
   * @param {AbortSignal} [signal]
   * @returns {Promise<Received>}
   */
  async #request(post, extra, { address, bearer }, signal) {
    const { content, encoding } = await this.#content(post);
    let headers;
    try {
      headers = this.#headers(post, extra, bearer, encoding);
    } catch (error) {
      return unsent(error, false); // no text of a header
    }
    const isKept = this.#keepalive.begin(content.length);
    const limit = linked([signal, this.#ending.signal]);
    const { timeoutMs = TIMEOUT_MS } = this.#options;
    const late = () => limit.abort(new Error(`no answer within ${timeoutMs} ms`));
    const timer = setTimeout(late, timeoutMs);
    try {
      const response = await (this.#options.fetch ?? fetch)(
        `${this.#urls[address]}/v1/topics/${post.topic}/events`,
        {
          method: "POST",
          headers,
          body: content,
          redirect: "manual", // a 301 would become a GET
          keepalive: isKept,
          signal: limit.signal,
        },
      );
      return received(post, response, await response.text());
    } catch (error) {
      return { answer: classify(error), status: null, requestId: null };
    } finally {
      if (isKept) this.#keepalive.end(content.length);
      clearTimeout(timer);
      limit.end();
    }
  }

  /**
   * @param {Post} post
   * @param {Readonly<Record<string, string>>} extra
   * @param {string | null} bearer
   * @param {string | null} encoding
   */
  #headers(post, extra, bearer, encoding) {
    const headers = new Headers({ ...this.#options.headers });
    const { producer } = this.#options;
    if (producer !== undefined) headers.set("Headgate-Producer", producer);
    for (const [name, value] of Object.entries(extra)) headers.set(name, value);
    for (const [name, value] of post.headers) headers.set(name, value);
    if (bearer !== null) headers.set("Authorization", `Bearer ${bearer}`);
    if (encoding !== null) headers.set("Content-Encoding", encoding);
    return headers;
  }

  /**
   * The bytes that go: the same ones each time.
   *
   * @param {Post} post
   */
  async #content(post) {
    const content = /** @type {Uint8Array<ArrayBuffer>} */ (post.content);
    const isSmall = content.length < COMPRESSED_FROM_BYTES;
    if (this.#options.compression === undefined || isSmall || isHidden()) {
      return { content, encoding: null }; // a page that is left has no time to compress
    }
    const gzip = new Blob([content]).stream().pipeThrough(new CompressionStream("gzip"));
    const compressed = new Uint8Array(await new Response(gzip).arrayBuffer());
    return { content: compressed, encoding: "gzip" };
  }

  /** @returns {Promise<string | null>} */
  async #bearer() {
    const { token = null } = this.#options;
    return typeof token === "function" ? await token() : token;
  }

  /**
   * Go to another address, and take a new token, where that helps.
   *
   * @param {Sent} sent
   * @param {Answer} answer
   * @returns {Promise<Answer>}
   */
  async #after(sent, answer) {
    if (answer.kind === "ended") return answer;
    const isElsewhere = answer.kind === "lost" || answer.reason === "draining";
    if (isElsewhere && this.#urls.length > 1) {
      if (this.#address === sent.address) this.#address = (sent.address + 1) % this.#urls.length;
      return { ...answer, retryAfterMs: 0 };
    }
    const isOfToken = answer.kind === "refused" && answer.reason === "unauthenticated";
    if (isOfToken && typeof this.#options.token === "function") {
      const bearer = await this.#bearer().catch(() => null);
      return { ...answer, retryable: bearer !== sent.bearer };
    }
    return answer;
  }
}

/**
 * @param {string | readonly string[]} url
 * @returns {readonly string[]}
 */
function checkedUrls(url) {
  const urls = typeof url === "string" ? [url] : [...url];
  if (!urls.length) throw new InvalidEventError("url: none is given");
  return urls.map((one) => {
    if (!isHttp(one)) {
      throw new InvalidEventError(`url: ${one} does not begin with http:// or https://`);
    }
    return one.replace(/\/+$/, "");
  });
}

/** @param {string} url */
function isHttp(url) {
  try {
    return ["http:", "https:"].includes(new URL(url).protocol);
  } catch {
    return false;
  }
}

/**
 * @param {Post} post
 * @param {Response} response
 * @param {string} body
 * @returns {Received}
 */
function received({ topic, events }, { status, headers }, body) {
  const raw = { status, body, header: (/** @type {string} */ name) => headers.get(name) };
  return {
    answer: readAnswer(topic, events, raw, Date.now()),
    status,
    requestId: headers.get("x-request-id"),
  };
}

/**
 * @param {unknown} why
 * @param {boolean} retryable
 * @returns {Received}
 */
function unsent(why, retryable) {
  return { answer: refused("not_sent", String(why), { retryable }), status: null, requestId: null };
}
