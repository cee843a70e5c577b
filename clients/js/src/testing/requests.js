/** Reads requests for the gateway in memory. */

import { fromBase64, utf8Strict } from "../core/bytes.js";
import { isKey } from "../core/headers.js";
import { checkedKey } from "../core/keys.js";
import { didYouMean } from "../core/names.js";

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

const FLAGS = ["headgate-force", "headgate-batch", "headgate-tombstone"];
const OURS = [
  ...FLAGS, "headgate-key", "headgate-key*", "headgate-event-id", "headgate-timestamp",
  "headgate-burst", "headgate-producer",
];
const MOST_HEADERS = 1000; // of an event
const DEEPEST = 128; // http.json_max_depth
/** @typedef {{owner: readonly string[], contentType: string | null}} Identity */
/** @type {WeakMap<FakeRecord, Identity>} */
const identities = new WeakMap();

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
 * Throw RefusedError (malformed) for headers that a gateway refuses.
 *
 * @param {Headers} headers
 */
export function checkRequest(headers) {
  for (const [name, value] of headers) {
    const shown = titled(name);
    if (name.startsWith("headgate-") && !OURS.includes(name) && !name.startsWith(PREFIX)) {
      const hint = didYouMean(shown, OURS.map(titled));
      throw new RefusedError("malformed", `there is no header ${shown}.${hint}`);
    }
    if (FLAGS.includes(name) && !["true", "1", "false", "0"].includes(value.toLowerCase())) {
      throw new RefusedError("malformed", `${shown} is true, 1, false or 0, not '${value}'`);
    }
  }
  const key = headers.get("Idempotency-Key");
  if (key !== null && !isKey(key)) {
    throw new RefusedError("malformed", "an Idempotency-Key has 1 to 255 visible ASCII characters");
  }
}

/**
 * Return why the gateway would call the event malformed, else null.
 *
 * @param {FakeRecord} record
 */
export function faultOf({ headers, value }) {
  if (Object.keys(headers).length > MOST_HEADERS) {
    return `an event has at most ${MOST_HEADERS} headers or attributes`;
  }
  return depthOf(value) > DEEPEST ? `the JSON nests deeper than ${DEEPEST}` : null;
}

/**
 * Return what the id of an event belongs to (a producer, or the source of a CloudEvent), and the
 * content type of its record.
 *
 * @param {FakeRecord} record
 */
export function identityOf(record) {
  return identities.get(record) ?? { owner: [], contentType: null };
}

/** @param {string} name */
function titled(name) {
  return name.replace(/(^|-)[a-z]/g, (start) => start.toUpperCase());
}

/** @param {unknown} value */
function depthOf(value) {
  let depth = 0;
  for (let level = [value]; (level = level.filter(isNested)).length; depth += 1) {
    level = level.flatMap((each) => Object.values(/** @type {object} */ (each)));
  }
  return depth;
}

/** @param {unknown} value */
function isNested(value) {
  return typeof value === "object" && value !== null && !ArrayBuffer.isView(value);
}

/**
 * @param {FakeRecord} record
 * @param {readonly string[]} owner
 * @param {string | null} contentType
 */
function identified(record, owner, contentType) {
  identities.set(record, { owner, contentType });
  return record;
}

/**
 * Return the events of a request.
 *
 * @param {FakeRequest} request
 * @returns {FakeRecord[]}
 */
export function recordsOf({ topic, headers, content }) {
  const type = headers.get("Content-Type") ?? "";
  const producer = headers.get("Headgate-Producer") ?? headers.get("Authorization") ?? "";
  const owner = ["producer", producer];
  if (type === "application/vnd.headgate.batch+json") {
    const { events } = JSON.parse(utf8Strict(content));
    return events.map((/** @type {Member} */ event) => {
      const given = Object.entries(event.headers ?? {});
      const [, own] = given.find(([name]) => name.toLowerCase() === "content-type") ?? [];
      const contentType = own ?? ("value" in event ? "application/json" : null);
      return identified(ofEnvelope(topic, event, traceOf(headers)), owner, contentType);
    });
  }
  if (type === "application/cloudevents-batch+json") {
    const events = JSON.parse(utf8Strict(content));
    return events.map((/** @type {Member} */ event) => {
      const contentType = event.datacontenttype ?? "application/json";
      return identified(ofCloudEvent(topic, event), ["source", event.source], contentType);
    });
  }
  return [identified(alone(topic, headers, content, type), owner, type || null)];
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
