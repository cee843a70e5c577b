/**
 * Return the topic, if Kafka could have one of that name.
 *
 * @param {string} topic
 */
export function checkTopic(topic: string): string;
/**
 * Write an event as a member of a batch. Throws InvalidEventError.
 *
 * @param {unknown} event A bare value is an event that has nothing else.
 * @param {Stringify} stringify
 * @param {(() => string) | null} newId
 * @returns {Part}
 */
export function encodePart(event: unknown, stringify: Stringify, newId: (() => string) | null): Part;
/**
 * Write an event that is sent by itself: its body is the value, where headers carry the rest.
 *
 * This is the form that costs the gateway least, and the one in which a large value goes straight to
 * its blob store.
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
 * One event, ready for a request of its form.
 */
export type Part = {
    form: Form;
    text: Uint8Array;
    eventId: string | null;
    /**
     * Null where only the gateway knows it.
     */
    key: Key;
    /**
     * What its order hangs on.
     */
    lane: string | null;
    headers: Headers;
};
/**
 * What is posted for some parts.
 */
export type Body = {
    headers: Headers;
    content: Uint8Array;
};
import type { Stringify } from "./json.js";
import type { Key } from "../outcomes.js";
