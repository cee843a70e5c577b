/** A null value, which deletes the key. */
export const TOMBSTONE: unique symbol;
/** JSON text that is already encoded. Kafka gets these bytes unchanged. */
export class RawJson {
    /** @param {string | Uint8Array} text */
    constructor(text: string | Uint8Array);
    /** @readonly */
    readonly text: Uint8Array<ArrayBufferLike>;
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
export const FIELDS: string[];
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
    constructor(value: unknown, fields?: HeadgateEventFields);
    /** @readonly */
    readonly value: unknown;
    /** @readonly */
    readonly key: string | Uint8Array<ArrayBufferLike> | null;
    /** @readonly */
    readonly id: string | null;
    /** @readonly */
    readonly headers: Readonly<Record<string, string>>;
    /** @readonly */
    readonly timestamp: number | Date | null;
    /** @readonly */
    readonly contentType: string | null;
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
    constructor(attributes: CloudEventInit & Record<string, unknown>);
    /**
     * All attributes except the data.
     *
     * @readonly
     * @type {Readonly<Record<string, unknown>>}
     */
    readonly attributes: Readonly<Record<string, unknown>>;
    /** @readonly */
    readonly data: unknown;
    /** @readonly */
    readonly dataBase64: string | undefined;
}
/**
 * Fields of the Kafka record, beside its value.
 */
export type EventFields = {
    /**
     * Record key. It overrides the topic's key rule.
     */
    key?: string | Uint8Array<ArrayBufferLike> | null | undefined;
    /**
     * Event id. A topic with `dedupe_ttl_s` writes each id once.
     */
    id?: string | null | undefined;
    /**
     * Record headers.
     */
    headers?: Readonly<Record<string, string>> | undefined;
    /**
     * Milliseconds since 1970, or a date. Topics with
     * `timestamp = "event"` use it.
     */
    timestamp?: number | Date | null | undefined;
};
/**
 * contentType: content
 *   type of the record.
 */
export type HeadgateEventFields = EventFields & {
    contentType?: string | null;
};
/**
 * The attributes of CloudEvents 1.0, with extensions.
 */
export type CloudEventInit = {
    id: string;
    source: string;
    type: string;
    /**
     * A JSON value, or bytes.
     */
    data?: unknown;
    data_base64?: string | undefined;
    subject?: string | null | undefined;
    /**
     * Timestamp as RFC 3339 text.
     */
    time?: string | null | undefined;
    datacontenttype?: string | null | undefined;
    dataschema?: string | null | undefined;
};
