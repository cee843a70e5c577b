/**
 * Return the meaning of an error of `fetch` for the events of the request.
 *
 * @param {unknown} error
 * @returns {Answer}
 */
export function classify(error: unknown): Answer;
import type { Answer } from "./core/answer.js";
