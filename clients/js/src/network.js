/** The meaning of an error of `fetch`. */

import { lost, refused } from "./core/answer.js";
import { HeadgateError } from "./errors.js";

/** @import {Answer} from "./core/answer.js" */
/** @import {Hide} from "./core/headers.js" */

const NOT_LISTENING = "check that the gateway runs, and that this is its data port";
const HOST_FIX = "check the host name, and that this machine or container resolves it";
const UNKNOWN_HOST = "ENOTFOUND";
// Node's codes of a connection that was never made. Browsers give no reason: there every request
// that failed may have been sent.
const UNCONNECTED = [
  "ECONNREFUSED",
  "EHOSTUNREACH",
  "ENETUNREACH",
  UNKNOWN_HOST,
  "EAI_AGAIN",
  "UND_ERR_CONNECT_TIMEOUT",
];
// Handshakes that fail again however often they are tried.
const NO_TLS = /WRONG_VERSION_NUMBER|HTTP_REQUEST|PACKET_LENGTH_TOO_LONG|RECORD_LAYER_FAILURE/;
const REFUSED_BY_SERVER =
  /ALERT_(?:BAD_CERT|CERT|UNSUPPORTED_CERT|UNKNOWN_CA|HANDSHAKE|PROTOCOL_VERSION|ACCESS_DENIED)|CERTIFICATE_REQUIRED|UNRECOGNIZED_NAME|UNSUPPORTED_PROTOCOL/;
const UNTRUSTED = /CERT|SELF_SIGNED|UNABLE_TO_(?:GET|VERIFY)/;
// Mistakes in a program, such as its own fetch. A failed connection is a TypeError, too, so the text
// decides. Another attempt fails in the same way.
const MISTAKE = /is not (?:a function|a constructor|an object|iterable|defined)|Cannot (?:read|set|convert|mix|destructure|access)/i;
const MISTAKE_CODE = /^ERR_INVALID_(?:ARG|THIS|URL)/;
const BAD_PORT = /^bad port$/; // the text of a port that `fetch` never connects to

/**
 * Return the meaning of an error of `fetch` for the events of the request.
 *
 * @param {unknown} error
 * @param {Hide} hide Removes secrets from a text.
 * @returns {Answer}
 */
export function classify(error, hide) {
  const causes = [...causesOf(error)];
  const codes = causes.flatMap((one) => ("code" in one ? [String(one.code)] : []));
  const detail = hide([String(error), ...codes.map((code) => `(${code})`)].join(" "));
  const hint = hintOf(codes, causes);
  if (hint !== null) return refused("unreachable", `${detail}; ${hint}`, { retryable: false });
  if (isMistake(error)) {
    const why = "this is an error of the program or its fetch, so it is not sent again";
    return lost(`${detail}; ${why}`, { isFinal: true });
  }
  const unknown = codes.includes(UNKNOWN_HOST) ? `; ${HOST_FIX}` : "";
  const advice = codes.includes("ECONNREFUSED") ? `; ${NOT_LISTENING}` : unknown;
  const wasSent = !codes.some((code) => UNCONNECTED.includes(code));
  return lost(`${detail}${advice}`, {
    wasSent,
    reason: wasSent ? "no_answer" : "unreachable",
    isUnknownHost: codes.includes(UNKNOWN_HOST),
  });
}

/**
 * Whether an error is one of the program, which no other attempt mends.
 *
 * @param {unknown} error
 */
export function isMistake(error) {
  const kinds = [HeadgateError, ReferenceError, RangeError, SyntaxError, URIError];
  if (kinds.some((Kind) => error instanceof Kind)) return true;
  if (!(error instanceof TypeError) || error.cause !== undefined) return false;
  const code = "code" in error ? String(error.code) : "";
  return MISTAKE.test(error.message) || MISTAKE_CODE.test(code);
}

/**
 * Return the fix for a failure where waiting does not help, else null.
 *
 * @param {readonly string[]} codes
 * @param {readonly Error[]} causes
 */
function hintOf(codes, causes) {
  const has = (/** @type {RegExp} */ pattern) => codes.some((code) => pattern.test(code));
  if (has(NO_TLS)) return "this port does not speak TLS: use http://, or the port that has TLS";
  if (has(REFUSED_BY_SERVER)) {
    return "the gateway refused the TLS handshake: give a fetch with a client certificate";
  }
  if (has(UNTRUSTED)) return "set NODE_EXTRA_CA_CERTS to the gateway's certificate authority";
  if (causes.some(({ message }) => BAD_PORT.test(message))) {
    return "fetch never connects to this port: use another one";
  }
  return null;
}

/**
 * Yield an error and those that it comes from.
 *
 * @param {unknown} error
 * @returns {Generator<Error>}
 */
function* causesOf(error) {
  for (let cause = error; cause instanceof Error; cause = cause.cause) {
    yield cause;
    if (cause instanceof AggregateError) {
      for (const each of cause.errors) yield* causesOf(each);
    }
  }
}
