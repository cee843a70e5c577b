/**
 * Return the meaning of an error of `fetch` for the events of the request.
 *
 * @param {unknown} error
 * @param {Hide} hide Removes secrets from a text.
 * @returns {Answer}
 */
export function classify(error: unknown, hide: Hide): Answer;
/**
 * Whether an error is one of the program, which no other attempt mends.
 *
 * @param {unknown} error
 */
export function isMistake(error: unknown): boolean;
import type { Hide } from "./core/headers.js";
import type { Answer } from "./core/answer.js";
