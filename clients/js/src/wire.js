/** Sends requests with `fetch` and reads the responses. */

import { readAnswer, refused } from "./core/answer.js";
import { checkHeaders, checkProducer, checkedToken, hide } from "./core/headers.js";
import { checkNumber, checkType } from "./core/names.js";
import { InvalidOptionError } from "./errors.js";
import { Reports } from "./hooks.js";
import { Keepalive, isHidden } from "./keepalive.js";
import { classify, isMistake } from "./network.js";
import { VERSION } from "./version.js";
import { linked } from "./waiting.js";

/** @import {Answer, Refused} from "./core/answer.js" */
/** @import {Post} from "./core/delivery.js" */
/** @import {Hide} from "./core/headers.js" */
/** @import {Log, Observer} from "./hooks.js" */

/** @typedef {string | URL} Url */

/**
 * @typedef {object} WireOptions
 * @property {string} [producer] Producer name of 1 to 100 characters, for gateways without
 *   authentication.
 * @property {string | (() => string | Promise<string>)} [token] Bearer token, or a function that
 *   returns the current one.
 * @property {Readonly<Record<string, string>>} [requestHeaders] HTTP headers of every request. Those
 *   that the client sets itself are refused.
 * @property {"gzip"} [compression] Compression of request bodies: "gzip".
 * @property {number} [timeoutMs] Time limit for a response. Keep it above the gateway's
 *   `http.request_timeout_ms`.
 * @property {Observer} [observer] Receives requests and outcomes, for metrics.
 * @property {Log | null} [log] Receives failures. Null logs nothing.
 * @property {typeof fetch} [fetch] Another `fetch` than the platform's, such as that of
 *   `headgate-client/testing`.
 */

/**
 * @typedef {object} Sent A request that was sent.
 * @property {number} address Index of its URL.
 * @property {string | null} bearer
 * @property {Hide} hide Removes its secrets from a text.
 */

/**
 * @typedef {object} Received
 * @property {Answer} answer
 * @property {number | null} status
 * @property {string | null} requestId
 */

const USER_AGENT = `headgate-client-js/${VERSION}`;
const COMPRESSED_FROM_BYTES = 1024; // smaller bodies gain too little
const URL_FIX = "url: give the URL of a gateway, such as http://127.0.0.1:8080";
export const FAKE_URL = "http://headgate.test"; // of the gateway in memory
const FAKE_FIX = "this is the URL of a FakeGateway: give the client { fetch: gateway.fetch }";
const NO_GATEWAY = ["no_answer", "unreachable", "bad_answer", "not_sent"];
const TIMEOUT_MS = 45_000;
const LONGEST_TIMEOUT_MS = 3_600_000; // platforms ignore one of more than 24 days

/** Sends the requests of one client and of its producers. */
export class Wire {
  /** @type {readonly string[]} */
  #urls;
  #address = 0;
  /** @type {Set<number>} Addresses where waiting does not help. */
  #unusable = new Set();
  #options;
  #keepalive = new Keepalive();
  #ending = new AbortController();

  /**
   * @param {Url | Iterable<Url>} url
   * @param {WireOptions} options
   */
  constructor(url, options) {
    this.#urls = checkedUrls(url);
    this.#options = options;
    const { token = null } = options;
    if (token !== null && typeof token !== "function") checkedToken(token);
    if (options.producer !== undefined) checkProducer(options.producer);
    if (options.requestHeaders !== undefined) checkHeaders(options.requestHeaders, this.hasToken);
    const { observer = {}, log = console } = options;
    checkType("observer", observer, "object", "an object with onAttempt or onOutcomes");
    if (log !== null) checkType("log", log, "object", "null or an object with warn and error");
    /** @readonly */
    this.reports = new Reports(observer, log);
    const { compression, timeoutMs = TIMEOUT_MS } = options;
    if (compression !== undefined && compression !== "gzip") {
      throw new InvalidOptionError(`compression: use "gzip", not ${compression}`);
    }
    checkNumber("timeoutMs", timeoutMs, 1, LONGEST_TIMEOUT_MS);
    checkType("fetch", options.fetch, "function", "a function such as fetch");
  }

  /** Aborted when the client is closed. */
  get ending() {
    return this.#ending.signal;
  }

  /** Whether requests have a bearer token. */
  get hasToken() {
    return (this.#options.token ?? null) !== null;
  }

  /** Abort the requests under way. */
  close() {
    this.#ending.abort(new Error("the client was closed"));
  }

  /**
   * Send one request. Every failure is an answer; it never throws.
   *
   * @param {Post} post
   * @param {{requestHeaders?: Readonly<Record<string, string>>, signal?: AbortSignal}} [options]
   * @returns {Promise<Answer>}
   */
  async post(post, { requestHeaders = {}, signal } = {}) {
    const beganMs = performance.now();
    const { answer, status, requestId } = await this.#exchange(post, requestHeaders, signal);
    const isEnded = answer.kind === "ended";
    const attempt = {
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
    };
    const isRetryable = answer.kind === "lost" ? !answer.isFinal : !isEnded && answer.retryable;
    this.reports.attempt(attempt, isRetryable, performance.now());
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
      const kind = error instanceof Error ? error.name : typeof error;
      const isOwn = error instanceof InvalidOptionError;
      const why = isOwn ? error.message : `token: the function threw ${kind}`;
      return unsent(why, !isOwn && !isMistake(error));
    }
    const own = Object.values(this.#options.requestHeaders ?? {});
    const hidden = [bearer ?? "", ...own, ...Object.values(extra)];
    /** @type {Hide} */
    const hideSecrets = (text) => hide(hidden, text);
    const sent = { address: this.#address, bearer, hide: hideSecrets };
    const received = await this.#request(post, extra, sent, signal);
    const answer = this.#withUrl(sent, received.answer);
    return { ...received, answer: await this.#after(sent, answer) };
  }

  /**
   * @param {Post} post
   * @param {Readonly<Record<string, string>>} extra
   * @param {Sent} sent
   * @param {AbortSignal} [signal]
   * @returns {Promise<Received>}
   */
  async #request(post, extra, { address, bearer, hide }, signal) {
    const { content, encoding } = await this.#content(post);
    let headers;
    try {
      headers = this.#headers(post, extra, bearer, encoding);
    } catch (error) {
      return unsent(hide(String(error)), false); // a header that the platform refuses
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
      return received(post, response, await response.text(), hide);
    } catch (error) {
      return { answer: classify(error, hide), status: null, requestId: null };
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
    const headers = new Headers(isNode() ? { "User-Agent": USER_AGENT } : {});
    for (const [name, value] of Object.entries(this.#options.requestHeaders ?? {})) {
      headers.set(name, value);
    }
    const { producer } = this.#options;
    if (producer !== undefined) headers.set("Headgate-Producer", producer);
    for (const [name, value] of Object.entries(extra)) headers.set(name, value);
    for (const [name, value] of post.headers) headers.set(name, value);
    if (bearer !== null) headers.set("Authorization", `Bearer ${bearer}`);
    if (encoding !== null) headers.set("Content-Encoding", encoding);
    return headers;
  }

  /**
   * Return the bytes to send: the same ones each time.
   *
   * @param {Post} post
   */
  async #content(post) {
    const content = /** @type {Uint8Array<ArrayBuffer>} */ (post.content);
    const isSmall = content.length < COMPRESSED_FROM_BYTES;
    if (this.#options.compression === undefined || isSmall || isHidden()) {
      return { content, encoding: null }; // a hidden page has no time to compress
    }
    const gzip = new Blob([content]).stream().pipeThrough(new CompressionStream("gzip"));
    const compressed = new Uint8Array(await new Response(gzip).arrayBuffer());
    return { content: compressed, encoding: "gzip" };
  }

  /** @returns {Promise<string | null>} */
  async #bearer() {
    const { token = null } = this.#options;
    if (token === null) return null;
    if (typeof token !== "function") return checkedToken(token);
    const given = /** @type {unknown} */ (await token());
    if (typeof given === "string") return checkedToken(given);
    const kind = given === undefined || given === null ? "nothing" : typeof given;
    throw new InvalidOptionError(
      `token: the function returned ${kind}; return the token as a string`,
    );
  }

  /**
   * Name the URL in the detail of an answer that no gateway gave.
   *
   * @param {Sent} sent
   * @param {Answer} answer
   * @returns {Answer}
   */
  #withUrl({ address }, answer) {
    if (answer.kind === "ended" || !NO_GATEWAY.includes(answer.reason)) return answer;
    const url = this.#urls[address];
    const isFake = url === FAKE_URL && this.#options.fetch === undefined;
    const detail = isFake ? `${answer.detail.split("; ")[0]}; ${FAKE_FIX}` : answer.detail;
    return { ...answer, detail: `${url}: ${detail}` };
  }

  /**
   * Choose another address or check for a new token, if that may help.
   *
   * @param {Sent} sent
   * @param {Answer} answer
   * @returns {Promise<Answer>}
   */
  async #after(sent, answer) {
    if (answer.kind === "refused" && answer.reason === "unreachable") {
      return this.#afterUnusable(sent.address, answer);
    }
    this.#unusable.delete(sent.address);
    if (answer.kind === "ended") return answer;
    const isElsewhere = answer.kind === "lost" || answer.reason === "draining";
    if (isElsewhere && this.#urls.length > 1) {
      this.#leave(sent.address);
      return { ...answer, retryAfterMs: 0 };
    }
    const isOfToken = answer.kind === "refused" && answer.reason === "unauthenticated";
    if (isOfToken && typeof this.#options.token === "function") {
      const bearer = await this.#bearer().catch(() => null);
      return { ...answer, retryable: bearer !== sent.bearer };
    }
    return answer;
  }

  /**
   * Try the other addresses before an unreachable one is final.
   *
   * @param {number} address
   * @param {Refused} answer
   * @returns {Answer}
   */
  #afterUnusable(address, answer) {
    this.#unusable.add(address);
    if (this.#unusable.size === this.#urls.length) return answer;
    this.#leave(address);
    return { ...answer, retryable: true };
  }

  /** @param {number} address */
  #leave(address) {
    if (this.#address === address) this.#address = (address + 1) % this.#urls.length;
  }
}

/** Whether a User-Agent may be set: a page sends that of its browser, and asks for leave first. */
function isNode() {
  return /** @type {any} */ (globalThis).process?.versions?.node !== undefined;
}

/**
 * @param {unknown} url
 * @returns {readonly string[]}
 */
function checkedUrls(url) {
  const isList = typeof url === "object" && url !== null && Symbol.iterator in url;
  const urls = isList ? [.../** @type {Iterable<unknown>} */ (url)] : [url];
  if (!urls.length) throw new InvalidOptionError(URL_FIX);
  return urls.map(checkedUrl);
}

/**
 * Return the URL without a slash at its end. Throws InvalidOptionError.
 *
 * @param {unknown} url
 */
function checkedUrl(url) {
  if (typeof url !== "string" && !(url instanceof URL)) {
    const isOptions = typeof url === "object" && url !== null;
    const fix =
      "an object of options: the gateway has the addresses of the brokers, and options are the " +
      "second argument, such as { producer }";
    throw new InvalidOptionError(`${URL_FIX}, not ${isOptions ? fix : url}`);
  }
  const text = String(url).trim();
  const shown = text.replace(/\/\/[^/@]*@/, "//***@");
  const parsed = parsedUrl(text);
  if (parsed === null || !["http:", "https:"].includes(parsed.protocol)) {
    throw new InvalidOptionError(`url: ${shown} needs the form http://host:port (or https://)`);
  }
  if (parsed.username || parsed.password) {
    throw new InvalidOptionError(
      `url: ${shown}: leave out the user or password; use token or requestHeaders`,
    );
  }
  const [extra] = /\/v1\/topics.*|[?#].*/.exec(text) ?? [];
  if (extra !== undefined) {
    const hint = extra.startsWith("/v1") ? ": the client adds it" : "";
    throw new InvalidOptionError(`url: ${shown}: leave out ${extra.replace(/\/+$/, "")}${hint}`);
  }
  return parsed.href.replace(/\/+$/, "");
}

/** @param {string} text */
function parsedUrl(text) {
  try {
    return new URL(text);
  } catch {
    return null;
  }
}

/**
 * @param {Post} post
 * @param {Response} response
 * @param {string} body
 * @param {Hide} hide
 * @returns {Received}
 */
function received({ topic, events }, { status, headers }, body, hide) {
  const raw = { status, body, header: (/** @type {string} */ name) => headers.get(name) };
  return {
    answer: readAnswer(topic, events, raw, Date.now(), hide),
    status,
    requestId: headers.get("x-request-id"),
  };
}

/**
 * @param {string} why
 * @param {boolean} retryable
 * @returns {Received}
 */
function unsent(why, retryable) {
  return { answer: refused("not_sent", why, { retryable }), status: null, requestId: null };
}
