/** Client of the Headgate gateway: batches, retries, the order of each key, typed outcomes. */

export { Client } from "./client.js";
export {
  BufferFullError,
  ClosedError,
  HeadgateError,
  InvalidEventError,
  InvalidOptionError,
  OutcomeError,
  RejectedError,
  UnknownOutcomeError,
} from "./errors.js";
export { CloudEvent, HeadgateEvent, RawJson, TOMBSTONE } from "./events.js";
export { Duplicate, Held, Published, Rejected, Spooled, Unchanged, Unknown } from "./outcomes.js";
export { BufferedProducer } from "./producer.js";
export { VERSION } from "./version.js";

/**
 * @typedef {import("./client.js").ClientOptions} ClientOptions
 * @typedef {import("./client.js").RequestOptions} RequestOptions
 * @typedef {import("./client.js").SendOptions} SendOptions
 * @typedef {import("./events.js").CloudEventInit} CloudEventInit
 * @typedef {import("./events.js").EventFields} EventFields
 * @typedef {import("./events.js").HeadgateEventFields} HeadgateEventFields
 * @typedef {import("./hooks.js").Attempt} Attempt
 * @typedef {import("./hooks.js").Log} Log
 * @typedef {import("./hooks.js").Observer} Observer
 * @typedef {import("./outcomes.js").Failure} Failure
 * @typedef {import("./outcomes.js").Key} Key
 * @typedef {import("./outcomes.js").LargePath} LargePath
 * @typedef {import("./outcomes.js").Outcome} Outcome
 * @typedef {import("./outcomes.js").Success} Success
 * @typedef {import("./outcomes.js").Violation} Violation
 * @typedef {import("./producer.js").ProducerOptions} ProducerOptions
 * @typedef {import("./settings.js").Buffering} Buffering
 * @typedef {import("./settings.js").Limits} Limits
 * @typedef {import("./settings.js").Retry} Retry
 * @typedef {import("./waiting.js").WaitOptions} WaitOptions
 */
