/**
 * Return the meaning of an error of `fetch` for the events of the request.
 *
 * @param {unknown} error
 * @param {Hide} hide Removes secrets from a text.
 * @returns {Answer}
 */
export function classify(error: unknown, hide: Hide): Answer;
import type { Hide } from "./core/headers.js";
import type { Answer } from "./core/answer.js";
