/** The gateway's reasons, for the gateway in memory. */

/**
 * Each reason of docs/reference/reasons.md that a sender may get: its status, and whether the same
 * event may succeed later.
 *
 * @type {Readonly<Record<string, readonly [number, boolean]>>}
 */
export const REASONS = {
  malformed: [400, false],
  unauthenticated: [401, false],
  forbidden: [403, false],
  unknown_topic: [404, false],
  request_timeout: [408, true],
  idempotency_conflict: [409, true],
  too_large: [413, false],
  unsupported_encoding: [415, false],
  idempotency_mismatch: [422, false],
  missing_key: [422, false],
  invalid_key: [422, false],
  schema_violation: [422, false],
  timestamp_out_of_range: [422, false],
  too_many_events: [422, false],
  quota_exceeded: [429, true],
  too_many_attempts: [429, true],
  headers_too_large: [431, false],
  internal: [500, true],
  broker_refused: [502, false],
  overloaded: [503, true],
  draining: [503, true],
  kafka_unavailable: [503, true],
  redis_unavailable: [503, true],
  issuer_unavailable: [503, true],
  blobs_unavailable: [503, true],
  monitor_unavailable: [503, true],
  clock_wrong: [503, true],
  unknown: [504, true],
};
