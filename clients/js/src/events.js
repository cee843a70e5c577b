/** Kinds of events: JSON values, bytes, tombstones and CloudEvents. */

import { asBytes, isBytes, utf8Strict } from "./core/bytes.js";
import { checkNames } from "./core/names.js";
import { InvalidEventError } from "./errors.js";

/** A null value, which deletes the key. */
export const TOMBSTONE = Symbol.for("headgate.tombstone");

/** JSON text that is already encoded. Kafka gets these bytes unchanged. */
export class RawJson {
  /** @param {string | Uint8Array} text */
  constructor(text) {
    if (typeof text !== "string" && !isBytes(text)) {
      throw new InvalidEventError(
        "RawJson: use JSON text or its bytes; an object can be the value itself, without RawJson",
      );
    }
    try {
      // It is placed among other events of a request and must be one document.
      JSON.parse(typeof text === "string" ? text : utf8Strict(text));
    } catch (error) {
      throw new InvalidEventError(`RawJson: the text is not a JSON document: ${error}`);
    }
    /** @readonly */
    this.text = typeof text === "string" ? new TextEncoder().encode(text) : asBytes(text);
  }
}

/**
 * @typedef {object} EventFields Fields of the Kafka record, beside its value.
 * @property {string | Uint8Array | null} [key] Record key. It overrides the topic's key rule.
 * @property {string | null} [id] Event id. A topic with `dedupe_ttl_s` writes each id once.
 * @property {Readonly<Record<string, string>>} [headers] Record headers.
 * @property {number | Date | null} [timestamp] Milliseconds since 1970, or a date. Topics with
 *   `timestamp = "event"` use it.
 */

/**
 * @typedef {EventFields & {contentType?: string | null}} HeadgateEventFields contentType: content
 *   type of the record.
 */

/** Names of `EventFields`. */
export const FIELDS = ["key", "id", "headers", "timestamp"];

/**
 * A value with the fields of its Kafka record, for `sendBatch` and `send`. (A class named `Event` is
 * the browser's.)
 */
export class HeadgateEvent {
  /**
   * @param {unknown} value Anything that `JSON.stringify` encodes, `RawJson`, bytes (an ArrayBuffer
   *   or a view), or `TOMBSTONE`.
   * @param {HeadgateEventFields} [fields]
   */
  constructor(value, fields = {}) {
    checkNames("HeadgateEvent", fields, [...FIELDS, "contentType"]);
    /** @readonly */
    this.value = value;
    /** @readonly */
    this.key = fields.key ?? null;
    /** @readonly */
    this.id = fields.id ?? null;
    /** @readonly */
    this.headers = fields.headers ?? {};
    /** @readonly */
    this.timestamp = fields.timestamp ?? null;
    /** @readonly */
    this.contentType = fields.contentType ?? null;
  }
}

/**
 * @typedef {object} CloudEventInit The attributes of CloudEvents 1.0, with extensions.
 * @property {string} id
 * @property {string} source
 * @property {string} type
 * @property {unknown} [data] A JSON value, or bytes.
 * @property {string} [data_base64]
 * @property {string | null} [subject]
 * @property {string | null} [time] Timestamp as RFC 3339 text.
 * @property {string | null} [datacontenttype]
 * @property {string | null} [dataschema]
 */

/**
 * A CloudEvent 1.0. Its record key is the extension `partitionkey`, else `subject`.
 *
 * The attributes may be an object of the `cloudevents` package.
 */
export class CloudEvent {
  /** @param {CloudEventInit & Record<string, unknown>} attributes */
  constructor(attributes) {
    const missing = ["id", "source", "type"].filter((name) => !attributes[name]);
    if (missing.length) {
      throw new InvalidEventError(`CloudEvent: ${missing.join(", ")} missing or empty`);
    }
    if ((attributes.specversion ?? "1.0") !== "1.0") {
      throw new InvalidEventError("CloudEvent: specversion is not 1.0");
    }
    const { data, data_base64, specversion: _, ...rest } = attributes;
    const given = Object.entries(rest).filter(([, value]) => value !== undefined && value !== null);
    /**
     * All attributes except the data.
     *
     * @readonly
     * @type {Readonly<Record<string, unknown>>}
     */
    this.attributes = Object.fromEntries(given);
    /** @readonly */
    this.data = data;
    /** @readonly */
    this.dataBase64 = data === undefined ? data_base64 : undefined;
  }
}
