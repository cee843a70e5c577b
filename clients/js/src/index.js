/** Sends events to a Headgate gateway: batches, retries, order of each key, outcomes as types. */

export { Client } from "./client.js";
export {
  BufferFullError,
  ClosedError,
  HeadgateError,
  InvalidEventError,
  OutcomeError,
  RejectedError,
  UnknownOutcomeError,
} from "./errors.js";
export { CloudEvent, HeadgateEvent, RawJson, TOMBSTONE } from "./events.js";
export { LogObserver } from "./hooks.js";
export {
  Duplicate,
  Held,
  Published,
  Rejected,
  Spooled,
  Superseded,
  Unchanged,
  Unknown,
} from "./outcomes.js";
export { BufferedProducer } from "./producer.js";

/**
 * @typedef {import("./client.js").ClientOptions} ClientOptions
 * @typedef {import("./client.js").SendOptions} SendOptions
 * @typedef {import("./events.js").CloudEventInit} CloudEventInit
 * @typedef {import("./events.js").HeadgateEventInit} HeadgateEventInit
 * @typedef {import("./hooks.js").Attempt} Attempt
 * @typedef {import("./hooks.js").Observer} Observer
 * @typedef {import("./outcomes.js").Failure} Failure
 * @typedef {import("./outcomes.js").Key} Key
 * @typedef {import("./outcomes.js").Outcome} Outcome
 * @typedef {import("./outcomes.js").Success} Success
 * @typedef {import("./producer.js").ProducerOptions} ProducerOptions
 * @typedef {import("./settings.js").Buffering} Buffering
 * @typedef {import("./settings.js").Limits} Limits
 * @typedef {import("./settings.js").Retry} Retry
 * @typedef {import("./waiting.js").WaitOptions} WaitOptions
 */
