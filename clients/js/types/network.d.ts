/**
 * Return what a failure of `fetch` means for the events of the request.
 *
 * @param {unknown} error
 * @returns {Answer}
 */
export function classify(error: unknown): Answer;
import type { Answer } from "./core/answer.js";
