/** What this library throws. How an event ended is no error: see outcomes.js. */

/** @import {Rejected, Unknown} from "./outcomes.js" */

/** The base of all errors below. */
export class HeadgateError extends Error {
  /** @override */
  get name() {
    return this.constructor.name;
  }
}

/** An argument that no gateway takes. The text names it and says what to do. */
export class InvalidEventError extends HeadgateError {}

/** There is no room for another event. Nothing was taken of it. */
export class BufferFullError extends HeadgateError {}

/** The client or producer was closed. */
export class ClosedError extends HeadgateError {}

/** An event did not end well; thrown by `throwIfFailed()` alone. */
export class OutcomeError extends HeadgateError {
  /** @param {Rejected | Unknown} outcome */
  constructor(outcome) {
    super(`${outcome.topic}: ${outcome.reason}: ${outcome.detail}`);
    /** @readonly */
    this.outcome = outcome;
  }
}

/** The event was certainly not written. */
export class RejectedError extends OutcomeError {}

/** It is not known whether the event was written. */
export class UnknownOutcomeError extends OutcomeError {}
