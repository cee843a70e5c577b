/** Reads requests for the gateway in memory. */

import { fromBase64, utf8Strict } from "../core/bytes.js";
import { checkedKey } from "../core/keys.js";

/** @import {Key} from "../outcomes.js" */

/**
 * @typedef {object} FakeRecord A written record.
 * @property {string} topic
 * @property {Key} key
 * @property {unknown} value A JSON value, bytes, or null for a tombstone.
 * @property {boolean} isTombstone
 * @property {string | null} eventId
 * @property {Readonly<Record<string, string>>} headers Record headers, without the gateway's.
 */

/**
 * @typedef {object} FakeRequest
 * @property {string} topic
 * @property {Headers} headers
 * @property {Uint8Array} content Uncompressed.
 */

const PREFIX = "headgate-header-";
const TRACE = ["traceparent", "tracestate"];
const EXTENDED = /^UTF-8''(.*)$/;

/** The request fails as a whole. */
export class RefusedError extends Error {
  /**
   * @param {string} reason
   * @param {string} detail
   * @param {number} [retryAfterS]
   */
  constructor(reason, detail, retryAfterS = 0) {
    super(detail);
    this.reason = reason;
    this.retryAfterS = retryAfterS;
  }
}

/**
 * @param {string} url
 * @param {RequestInit} init
 * @returns {Promise<FakeRequest>}
 */
export async function readRequest(url, init) {
  const headers = new Headers(init.headers);
  const [, , , topic = ""] = new URL(url).pathname.split("/");
  const encoding = headers.get("Content-Encoding");
  if (encoding !== null && encoding !== "gzip") {
    throw new RefusedError("unsupported_encoding", "the gateway in memory supports only gzip");
  }
  const body = new Response(init.body).body;
  const plain = encoding && body ? body.pipeThrough(new DecompressionStream("gzip")) : body;
  return { topic, headers, content: new Uint8Array(await new Response(plain).arrayBuffer()) };
}

/**
 * Return the events of a request.
 *
 * @param {FakeRequest} request
 * @returns {FakeRecord[]}
 */
export function recordsOf({ topic, headers, content }) {
  const type = headers.get("Content-Type") ?? "";
  if (type === "application/vnd.headgate.batch+json") {
    const { events } = JSON.parse(utf8Strict(content));
    return events.map((/** @type {Member} */ event) => ofEnvelope(topic, event, traceOf(headers)));
  }
  if (type === "application/cloudevents-batch+json") {
    const events = JSON.parse(utf8Strict(content));
    return events.map((/** @type {Member} */ event) => ofCloudEvent(topic, event));
  }
  return [alone(topic, headers, content, type)];
}

/** @typedef {Record<string, any>} Member */

/**
 * @param {string} topic
 * @param {Member} event
 * @param {Readonly<Record<string, string>>} trace
 * @returns {FakeRecord}
 */
function ofEnvelope(topic, event, trace) {
  const { value, value_base64: bytes, key, key_base64: keyBytes, tombstone } = event;
  const given = Object.entries(event.headers ?? {});
  const own = given.filter(([name]) => name.toLowerCase() !== "content-type");
  return {
    topic,
    key: keyBytes === undefined ? (key ?? null) : checkedKey(fromBase64(keyBytes)),
    value: tombstone ? null : bytes === undefined ? value : fromBase64(bytes),
    isTombstone: tombstone === true,
    eventId: event.id ?? null,
    headers: { ...Object.fromEntries(own), ...trace },
  };
}

/**
 * @param {string} topic
 * @param {Member} event
 * @returns {FakeRecord}
 */
function ofCloudEvent(topic, { data, data_base64: bytes, ...attributes }) {
  const headers = Object.entries(attributes).map(([name, value]) => [`ce_${name}`, String(value)]);
  return {
    topic,
    key: attributes.partitionkey || attributes.subject || null,
    value: bytes === undefined ? (data ?? null) : fromBase64(bytes),
    isTombstone: false,
    eventId: attributes.id,
    headers: Object.fromEntries(headers),
  };
}

/**
 * @param {string} topic
 * @param {Headers} headers
 * @param {Uint8Array} content
 * @param {string} type
 * @returns {FakeRecord}
 */
function alone(topic, headers, content, type) {
  const [, key] = EXTENDED.exec(headers.get("Headgate-Key*") ?? "") ?? [];
  const isTombstone = headers.get("Headgate-Tombstone") === "true";
  const isJson = type === "application/json";
  const prefixed = [...headers].filter(([name]) => name.startsWith(PREFIX));
  const own = prefixed.map(([name, value]) => [name.slice(PREFIX.length), value]);
  return {
    topic,
    key: key === undefined ? null : decodeURIComponent(key),
    value: isTombstone ? null : isJson ? JSON.parse(utf8Strict(content)) : content,
    isTombstone,
    eventId: headers.get("Headgate-Event-Id"),
    headers: { ...Object.fromEntries(own), ...traceOf(headers) },
  };
}

/**
 * Return the trace context of a request, which each of its records has.
 *
 * @param {Headers} headers
 * @returns {Record<string, string>}
 */
function traceOf(headers) {
  return Object.fromEntries([...headers].filter(([name]) => TRACE.includes(name)));
}

/**
 * Whether two requests have the same bytes.
 *
 * @param {Uint8Array} one
 * @param {Uint8Array} other
 */
export function isSame(one, other) {
  return one.length === other.length && one.every((byte, at) => byte === other[at]);
}
