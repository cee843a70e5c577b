/** What it means that `fetch` failed. */

import { lost, refused } from "./core/answer.js";

/** @import {Answer} from "./core/answer.js" */

// Node says these of a connection that was never there. Browsers tell nothing: there everything that
// fails may have been sent.
const UNCONNECTED = [
  "ECONNREFUSED",
  "EHOSTUNREACH",
  "ENETUNREACH",
  "ENOTFOUND",
  "EAI_AGAIN",
  "UND_ERR_CONNECT_TIMEOUT",
];
// The other side is not who it should be, which waiting does not mend.
const STRANGER = /CERT|SELF_SIGNED|UNABLE_TO_(?:GET|VERIFY)/;

/**
 * Return what a failure of `fetch` means for the events of the request.
 *
 * @param {unknown} error
 * @returns {Answer}
 */
export function classify(error) {
  const codes = [...causes(error)];
  const detail = [String(error), ...codes.map((code) => `(${code})`)].join(" ");
  if (codes.some((code) => STRANGER.test(code))) {
    return refused("unreachable", detail, { retryable: false });
  }
  return lost(detail, { wasSent: !codes.some((code) => UNCONNECTED.includes(code)) });
}

/**
 * The codes of an error and of those that it comes from.
 *
 * @param {unknown} error
 * @returns {Generator<string>}
 */
function* causes(error) {
  for (let one = error; one instanceof Error; one = one.cause) {
    if ("code" in one && typeof one.code === "string") yield one.code;
    if (one instanceof AggregateError) yield* one.errors.flatMap((each) => [...causes(each)]);
  }
}
