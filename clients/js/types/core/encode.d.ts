/**
 * Return the topic if Kafka allows the name. Throws InvalidEventError.
 *
 * @param {string} topic
 */
export function checkTopic(topic: string): string;
/**
 * Return the events of a batch. Throws InvalidEventError for one event without a list.
 *
 * @param {any} events
 * @returns {Iterable<unknown>}
 */
export function checkedBatch(events: any): Iterable<unknown>;
/**
 * Whether a bare value looks like a record of KafkaJS, with a key of its own.
 *
 * @param {unknown} event
 */
export function isRecord(event: unknown): boolean;
/**
 * Return the event that the arguments of `send` describe. Throws InvalidEventError.
 *
 * @param {unknown} value
 * @param {EventFields} fields Other members are ignored.
 * @returns {HeadgateEvent | CloudEvent}
 */
export function eventOf(value: unknown, { key, id, headers, timestamp }: EventFields): HeadgateEvent | CloudEvent;
/**
 * Encode an event as a member of a batch. Throws InvalidEventError.
 *
 * @param {unknown} event A bare value is an event without other fields.
 * @param {Stringify} stringify
 * @param {(() => string) | null} newId
 * @returns {Part}
 */
export function encodePart(event: unknown, stringify: Stringify, newId: (() => string) | null): Part;
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
export function encodeAlone(event: unknown, stringify: Stringify, newId: (() => string) | null): Part;
/**
 * Join parts of one form.
 *
 * @param {readonly Part[]} parts
 * @returns {Body}
 */
export function bodyOf(parts: readonly Part[]): Body;
export type Form = "envelope" | "cloudevents" | "single";
export type Headers = readonly (readonly [string, string])[];
/**
 * One encoded event.
 */
export type Part = {
    form: Form;
    text: Uint8Array;
    eventId: string | null;
    /**
     * Null if only the gateway knows it.
     */
    key: Key;
    /**
     * Ordering key.
     */
    lane: string | null;
    /**
     * HTTP headers of its request; only events that are sent alone have them.
     */
    headers: Headers;
};
/**
 * Headers and body of a request.
 */
export type Body = {
    headers: Headers;
    content: Uint8Array;
};
import type { EventFields } from "../events.js";
import { HeadgateEvent } from "../events.js";
import { CloudEvent } from "../events.js";
import type { Stringify } from "./json.js";
import type { Key } from "../outcomes.js";
