/** What can be sent: JSON values, bytes, tombstones, CloudEvents. */

import { asBytes, utf8Strict } from "./core/bytes.js";
import { checkNames } from "./core/names.js";
import { InvalidEventError } from "./errors.js";

/** A null value: the key is gone. */
export const TOMBSTONE = Symbol.for("headgate.tombstone");

/** JSON text that is ready. Kafka gets these bytes as they are. */
export class RawJson {
  /** @param {string | Uint8Array} text */
  constructor(text) {
    try {
      // It stands beside others in a request, and must not end early.
      JSON.parse(typeof text === "string" ? text : utf8Strict(text));
    } catch (error) {
      throw new InvalidEventError(`RawJson: the text is no JSON document: ${error}`);
    }
    /** @readonly */
    this.text = typeof text === "string" ? new TextEncoder().encode(text) : asBytes(text);
  }
}

/**
 * @typedef {object} HeadgateEventInit
 * @property {unknown} value What `JSON.stringify` makes JSON of, `RawJson`, bytes (an ArrayBuffer or
 *   a view, opaque to the gateway), or `TOMBSTONE`.
 * @property {string | Uint8Array | null} [key] Overrides the topic's key rule.
 * @property {string | null} [id] Yours; on topics with `dedupe_ttl_s` an event with a known id is
 *   not written again.
 * @property {Readonly<Record<string, string>>} [headers] Record headers.
 * @property {number | null} [timestampMs] Since 1970, for topics with `timestamp = "event"`.
 * @property {string | null} [contentType] Of the record.
 */

/** An event that has more than a value. (A class named `Event` is the browser's.) */
export class HeadgateEvent {
  /** @param {HeadgateEventInit} init */
  constructor(init) {
    checkNames("HeadgateEvent", init, HEADGATE_EVENT);
    /** @readonly */
    this.value = init.value;
    /** @readonly */
    this.key = init.key ?? null;
    /** @readonly */
    this.id = init.id ?? null;
    /** @readonly */
    this.headers = init.headers ?? {};
    /** @readonly */
    this.timestampMs = init.timestampMs ?? null;
    /** @readonly */
    this.contentType = init.contentType ?? null;
  }
}

/**
 * @typedef {object} CloudEventInit The attributes of CloudEvents 1.0, extensions among them.
 * @property {string} id
 * @property {string} source
 * @property {string} type
 * @property {unknown} [data] A JSON value, or bytes.
 * @property {string} [data_base64]
 * @property {string | null} [subject]
 * @property {string | null} [time] RFC 3339.
 * @property {string | null} [datacontenttype]
 * @property {string | null} [dataschema]
 */

/**
 * A CloudEvent 1.0. Its key is the extension `partitionkey`, then `subject`.
 *
 * It takes attributes by their names, so an object of the `cloudevents` package will do, too.
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
     * All but the data.
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

const HEADGATE_EVENT = ["value", "key", "id", "headers", "timestampMs", "contentType"];
