/** A null value: the key is gone. */
export const TOMBSTONE: unique symbol;
/** JSON text that is ready. Kafka gets these bytes as they are. */
export class RawJson {
    /** @param {string | Uint8Array} text */
    constructor(text: string | Uint8Array);
    /** @readonly */
    readonly text: Uint8Array<ArrayBufferLike>;
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
    constructor(init: HeadgateEventInit);
    /** @readonly */
    readonly value: unknown;
    /** @readonly */
    readonly key: string | Uint8Array<ArrayBufferLike> | null;
    /** @readonly */
    readonly id: string | null;
    /** @readonly */
    readonly headers: Readonly<Record<string, string>>;
    /** @readonly */
    readonly timestampMs: number | null;
    /** @readonly */
    readonly contentType: string | null;
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
    constructor(attributes: CloudEventInit & Record<string, unknown>);
    /**
     * All but the data.
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
export type HeadgateEventInit = {
    /**
     * What `JSON.stringify` makes JSON of, `RawJson`, bytes (an ArrayBuffer or
     * a view, opaque to the gateway), or `TOMBSTONE`.
     */
    value: unknown;
    /**
     * Overrides the topic's key rule.
     */
    key?: string | Uint8Array<ArrayBufferLike> | null | undefined;
    /**
     * Yours; on topics with `dedupe_ttl_s` an event with a known id is
     * not written again.
     */
    id?: string | null | undefined;
    /**
     * Record headers.
     */
    headers?: Readonly<Record<string, string>> | undefined;
    /**
     * Since 1970, for topics with `timestamp = "event"`.
     */
    timestampMs?: number | null | undefined;
    /**
     * Of the record.
     */
    contentType?: string | null | undefined;
};
/**
 * The attributes of CloudEvents 1.0, extensions among them.
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
     * RFC 3339.
     */
    time?: string | null | undefined;
    datacontenttype?: string | null | undefined;
    dataschema?: string | null | undefined;
};
