/** Errors of this library. A failed event is an outcome, not an error: see outcomes.js. */
/** @import {Rejected, Unknown} from "./outcomes.js" */
/** Base class of all errors below. */
export class HeadgateError extends Error {
    /** @override */
    override get name(): string;
}
/** The event cannot be sent. The text names the argument and the fix; nothing was sent. */
export class InvalidEventError extends HeadgateError {
}
/** An option does not exist, or its value is out of range. The text lists the allowed ones. */
export class InvalidOptionError extends HeadgateError {
}
/** The producer's buffer has no room. The event was not taken. */
export class BufferFullError extends HeadgateError {
}
/** The client or producer is closed. */
export class ClosedError extends HeadgateError {
}
/** The event was not written, or may not be. Only `throwIfFailed()` throws it. */
export class OutcomeError extends HeadgateError {
    /** @param {Rejected | Unknown} outcome */
    constructor(outcome: Rejected | Unknown);
    /** @readonly */
    readonly outcome: Rejected | Unknown;
}
/** The event was certainly not written; `outcome` has the reason. */
export class RejectedError extends OutcomeError {
}
/** The event may or may not be written; `outcome` has the reason. */
export class UnknownOutcomeError extends OutcomeError {
}
import type { Rejected } from "./outcomes.js";
import type { Unknown } from "./outcomes.js";
