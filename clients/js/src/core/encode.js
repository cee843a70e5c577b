/** Encodes events as the bytes of a request. */

import { InvalidEventError } from "../errors.js";
import { CloudEvent, FIELDS, HeadgateEvent, TOMBSTONE } from "../events.js";
import { OCTETS, asBytes, encodeUtf8, isBytes, isWellFormed, joined, toBase64 } from "./bytes.js";
import { encodeCloudEvent } from "./cloudevents.js";
import { jsonBytes, withMember } from "./json.js";
import { checkedKey, keyBytes, laneOf } from "./keys.js";

/** @import {EventFields} from "../events.js" */
/** @import {Key} from "../outcomes.js" */
/** @import {Stringify} from "./json.js" */

/**
 * @typedef {"envelope" | "cloudevents" | "single"} Form
 * @typedef {readonly (readonly [string, string])[]} Headers
 */

/**
 * @typedef {object} Part One encoded event.
 * @property {Form} form
 * @property {Uint8Array} text
 * @property {string | null} eventId
 * @property {Key} key Null if only the gateway knows it.
 * @property {string | null} lane Ordering key.
 * @property {Headers} headers HTTP headers of its request; only events that are sent alone have them.
 */

/**
 * @typedef {object} Body Headers and body of a request.
 * @property {Headers} headers
 * @property {Uint8Array} content
 */

const CONTENT_TYPES = {
  envelope: "application/vnd.headgate.batch+json",
  cloudevents: "application/cloudevents-batch+json",
};
const TOPIC = /^[A-Za-z0-9._-]{1,249}$/;
const HEADER_NAME = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]{1,256}$/;
const PLAIN = /^[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?$/; // what a header field carries as it is
const ID_BYTES = 256;
const LATEST_MS = 999_999_999_999_999;
const HEADER_BYTES = 4096; // of a request with one event; longer ones go into an envelope
const RECORD_MEMBERS = ["key", "value", "headers", "partition", "timestamp"];
const TRACE = ["traceparent", "tracestate"];

/**
 * Return the topic if Kafka allows the name. Throws InvalidEventError.
 *
 * @param {string} topic
 */
export function checkTopic(topic) {
  if (typeof topic === "object" && topic !== null && "messages" in topic) {
    throw new InvalidEventError(
      "topic: it is an object of KafkaJS; use send(topic, value, { key }) for each message, or " +
        "sendBatch(topic, messages.map(({ value, key }) => new HeadgateEvent(value, { key })))",
    );
  }
  if (typeof topic === "object" && topic !== null && "topicMessages" in topic) {
    throw new InvalidEventError(
      "topic: it is an object of KafkaJS; use sendBatch(topic, events) for each of its topics",
    );
  }
  if (typeof topic === "object" && topic !== null) {
    throw new InvalidEventError(
      "topic: it is an object; use send(topic, value), or sendBatch(topic, events)",
    );
  }
  if (typeof topic !== "string" || !TOPIC.test(topic) || topic === "." || topic === "..") {
    throw new InvalidEventError(
      `topic ${JSON.stringify(String(topic))}: a name has 1 to 249 letters, digits, dots, dashes and underscores`,
    );
  }
  return topic;
}

/**
 * Return the events of a batch. Throws InvalidEventError for one event without a list.
 *
 * @param {any} events
 * @returns {Iterable<unknown>}
 */
export function checkedBatch(events) {
  const isList = typeof events === "object" && events !== null && Symbol.iterator in events;
  if (!isList || isBytes(events) || events instanceof Map) {
    if (typeof events === "object" && events !== null && Symbol.asyncIterator in events) {
      throw new InvalidEventError(
        "events: use a list, not an async iterable; collect its events in a list with for await",
      );
    }
    const kind = events?.constructor?.name || String(events);
    throw new InvalidEventError(
      `events: use a list, not ${kind}; for one event call send() or use [event]`,
    );
  }
  return events;
}

/**
 * Whether a bare value looks like a record of KafkaJS, with a key of its own.
 *
 * @param {unknown} event
 */
export function isRecord(event) {
  if (typeof event !== "object" || event === null || Object.getPrototypeOf(event) !== Object.prototype) {
    return false;
  }
  const names = Object.keys(event);
  const isOwn = names.length > 1 && names.includes("value");
  return isOwn && names.every((name) => RECORD_MEMBERS.includes(name));
}

/**
 * Return the event that the arguments of `send` describe. Throws InvalidEventError.
 *
 * @param {unknown} value
 * @param {EventFields} fields Other members are ignored.
 * @returns {HeadgateEvent | CloudEvent}
 */
export function eventOf(value, { key, id, headers, timestamp }) {
  const fields = { key, id, headers, timestamp };
  if (!(value instanceof HeadgateEvent || value instanceof CloudEvent)) {
    return new HeadgateEvent(value, fields);
  }
  for (const name of FIELDS) {
    if ((fields[/** @type {keyof EventFields} */ (name)] ?? null) !== null) {
      const kind = value.constructor.name;
      throw new InvalidEventError(`${name}: the value is a ${kind}; give it its ${name} there`);
    }
  }
  return value;
}

/**
 * Encode an event as a member of a batch. Throws InvalidEventError.
 *
 * @param {unknown} event A bare value is an event without other fields.
 * @param {Stringify} stringify
 * @param {(() => string) | null} newId
 * @returns {Part}
 */
export function encodePart(event, stringify, newId) {
  if (event instanceof CloudEvent) return encodeCloudEvent(event, stringify);
  const given = asEvent(event);
  checkHeaders(given.headers);
  const trace = Object.keys(given.headers).find(isTrace);
  if (trace !== undefined) {
    throw new InvalidEventError(
      `headers: ${trace}: a record has the trace context of its request, and this request has many ` +
        "events; use send() of a client, or requestHeaders",
    );
  }
  return envelopePart(given, stringify, newId);
}

/**
 * Encode an event that is sent alone: the body is the value, HTTP headers carry the rest.
 *
 * This form costs the gateway least, and a large value goes straight to its blob store.
 *
 * @param {unknown} event
 * @param {Stringify} stringify
 * @param {(() => string) | null} newId
 * @returns {Part}
 */
export function encodeAlone(event, stringify, newId) {
  if (event instanceof CloudEvent) return encodeCloudEvent(event, stringify);
  const { trace, given } = withoutTrace(asEvent(event));
  const key = given.key === null ? null : checkedKey(given.key);
  if (key instanceof Uint8Array || !fitsHeaders(given, key)) {
    return { ...envelopePart(given, stringify, newId), headers: trace };
  }
  const eventId = eventIdOf(given, newId);
  const headers = [...trace];
  /** @type {Uint8Array} */
  let text = new Uint8Array();
  if (given.value === TOMBSTONE) {
    headers.push(["Headgate-Tombstone", "true"]);
  } else if (isBytes(given.value)) {
    text = asBytes(given.value);
    headers.push(["Content-Type", given.contentType ?? OCTETS]);
  } else {
    text = valueBytes(given.value, stringify);
    headers.push(["Content-Type", "application/json"]);
    if (isArray(text)) headers.push(["Headgate-Batch", "false"]);
  }
  if (key !== null) headers.push(["Headgate-Key*", `UTF-8''${extended(key)}`]);
  if (eventId !== null) headers.push(["Headgate-Event-Id", eventId]);
  if (given.timestamp !== null) {
    headers.push(["Headgate-Timestamp", String(millisecondsOf(given.timestamp))]);
  }
  for (const [name, value] of Object.entries(given.headers)) {
    headers.push([`Headgate-Header-${name}`, value]);
  }
  return { form: "single", text, eventId, key, lane: laneOf(key), headers };
}

/**
 * Join parts of one form.
 *
 * @param {readonly Part[]} parts
 * @returns {Body}
 */
export function bodyOf(parts) {
  const first = /** @type {Part} */ (parts[0]);
  if (first.form === "single") return { headers: first.headers, content: first.text };
  const [open, close] = first.form === "cloudevents" ? ["[", "]"] : ['{"events":[', "]}"];
  const pieces = [encodeUtf8(open)];
  const comma = encodeUtf8(",");
  for (const [at, part] of parts.entries()) {
    if (at) pieces.push(comma);
    pieces.push(part.text);
  }
  pieces.push(encodeUtf8(close));
  const type = /** @type {const} */ (["Content-Type", CONTENT_TYPES[first.form]]);
  return { headers: [type, ...first.headers], content: joined(pieces) };
}

/**
 * @param {unknown} event
 * @returns {HeadgateEvent}
 */
function asEvent(event) {
  return event instanceof HeadgateEvent ? event : new HeadgateEvent(event);
}

/**
 * @param {HeadgateEvent} event
 * @param {Stringify} stringify
 * @param {(() => string) | null} newId
 * @returns {Part}
 */
function envelopePart(event, stringify, newId) {
  const eventId = eventIdOf(event, newId);
  const key = event.key === null ? null : checkedKey(event.key);
  /** @type {Record<string, unknown>} */
  const members = {};
  if (typeof key === "string") members.key = key;
  else if (key !== null) members.key_base64 = toBase64(keyBytes(key));
  if (eventId !== null) members.id = eventId;
  const headers = headersOf(event);
  if (Object.keys(headers).length) members.headers = headers;
  if (event.timestamp !== null) members.timestamp_ms = millisecondsOf(event.timestamp);
  if (event.value === TOMBSTONE) members.tombstone = true;
  else if (isBytes(event.value)) members.value_base64 = toBase64(asBytes(event.value));
  let text = encodeUtf8(JSON.stringify(members));
  if (event.value !== TOMBSTONE && !isBytes(event.value)) {
    text = withMember(text, "value", valueBytes(event.value, stringify));
  }
  return { form: "envelope", text, eventId, key, lane: laneOf(key), headers: [] };
}

/**
 * @param {HeadgateEvent} event
 * @param {(() => string) | null} newId
 */
function eventIdOf(event, newId) {
  if (event.id === null) return newId === null ? null : newId();
  const { id } = event;
  if (typeof id !== "string") {
    throw new InvalidEventError(`id: use a string, not ${typeof id}; try String(id)`);
  }
  if (!isWellFormed(id) || !id || encodeUtf8(id).length > ID_BYTES) {
    throw new InvalidEventError(`id: use a string of 1 to ${ID_BYTES} bytes`);
  }
  return id;
}

/**
 * Return the bytes of a JSON value that is not null.
 *
 * @param {unknown} value
 * @param {Stringify} stringify
 */
function valueBytes(value, stringify) {
  if (value !== null) return jsonBytes(value, stringify);
  throw new InvalidEventError(
    "value: null could mean two things; use TOMBSTONE to delete the key, " +
      'or new RawJson("null") for the JSON value null',
  );
}

/** @param {HeadgateEvent} event */
function headersOf(event) {
  const contentType = event.contentType ?? (isBytes(event.value) ? OCTETS : null);
  return contentType === null ? event.headers : { ...event.headers, "content-type": contentType };
}

/** @param {Readonly<Record<string, unknown>>} headers */
function checkHeaders(headers) {
  if (typeof headers !== "object" || Symbol.iterator in headers) {
    const isPairs = typeof headers === "object" && !Array.isArray(headers);
    const hint = isPairs ? "; try Object.fromEntries(headers)" : "";
    throw new InvalidEventError(
      `headers: use an object of strings, such as { author: "Ada" }${hint}`,
    );
  }
  for (const [name, value] of Object.entries(headers)) {
    if (!HEADER_NAME.test(name)) {
      throw new InvalidEventError(
        `headers: ${JSON.stringify(name)} is not a header name; use letters, digits and dashes`,
      );
    }
    if (name.toLowerCase().startsWith("hg-")) {
      throw new InvalidEventError(`headers: ${name}: the gateway reserves names with hg-`);
    }
    if (typeof value !== "string" || !isWellFormed(value)) {
      throw new InvalidEventError(`headers: the value of ${name} must be a string of UTF-8`);
    }
  }
}

/** @param {number | Date} timestamp */
function millisecondsOf(timestamp) {
  const time = timestamp instanceof Date ? timestamp.getTime() : timestamp;
  if (!Number.isInteger(time) || time < 0 || time > LATEST_MS) {
    throw new InvalidEventError(
      "timestamp: use whole milliseconds since 1970, or a Date",
    );
  }
  return time;
}

/** @param {string} name */
function isTrace(name) {
  return TRACE.includes(name.toLowerCase());
}

/**
 * Separate the trace context, which is of the request, from the record's other headers. Throws
 * InvalidEventError if HTTP cannot carry it.
 *
 * @param {HeadgateEvent} event
 */
function withoutTrace(event) {
  checkHeaders(event.headers);
  /** @type {[string, string][]} */
  const trace = [];
  /** @type {Record<string, string>} */
  const headers = {};
  for (const [name, value] of Object.entries(event.headers)) {
    if (!isTrace(name)) headers[name] = value;
    else if (value && !PLAIN.test(value)) {
      throw new InvalidEventError(`headers: the value of ${name}: use visible ASCII characters`);
    } else if (value) trace.push([name.toLowerCase(), value]);
  }
  if (Object.keys(headers).length === Object.keys(event.headers).length) {
    return { trace, given: event };
  }
  const { value, ...fields } = event;
  return { trace, given: new HeadgateEvent(value, { ...fields, headers }) };
}

/**
 * Whether HTTP headers can carry all fields of the event. HTTP does not keep the case of names, so
 * headers with capitals need an envelope.
 *
 * @param {HeadgateEvent} event
 * @param {string | null} key
 */
function fitsHeaders(event, key) {
  if (event.value === TOMBSTONE && event.contentType) return false;
  if (event.contentType !== null && !(isBytes(event.value) && isOpaque(event.contentType))) {
    return false;
  }
  const names = Object.keys(event.headers);
  const texts = [...Object.values(event.headers), ...(event.id === null ? [] : [event.id])];
  const length = [...names, ...texts].reduce((sum, text) => sum + String(text).length, 0);
  const isClear =
    !names.includes("content-type") && names.every((name) => name === name.toLowerCase());
  const size = length + 12 * (key?.length ?? 0);
  return isClear && size <= HEADER_BYTES && texts.every((text) => PLAIN.test(text));
}

/**
 * Whether the gateway treats a body of this type as the bytes of one event.
 *
 * @param {string} contentType
 */
function isOpaque(contentType) {
  if (!PLAIN.test(contentType)) {
    throw new InvalidEventError("contentType: it is not a media type; use one such as image/png");
  }
  const [main = ""] = contentType.split(";");
  return !main.toLowerCase().includes("json");
}

/** @param {Uint8Array} text */
function isArray(text) {
  const first = text.find((byte) => ![0x20, 0x09, 0x0a, 0x0d].includes(byte));
  return first === 0x5b;
}

/**
 * Percent-encode as RFC 8187 has it.
 *
 * @param {string} text
 */
function extended(text) {
  return encodeURIComponent(text).replace(/['()*]/g, (letter) => {
    return `%${letter.charCodeAt(0).toString(16).toUpperCase()}`;
  });
}
