/** Names for events and requests: UUIDs of version 7, which sort by time as the gateway's own do. */
/**
 * Return a new UUID, version 7 (RFC 9562).
 *
 * @param {number} nowMs Since 1970.
 * @param {Uint8Array} random 10 bytes.
 */
export function uuid7(nowMs: number, random: Uint8Array): string;
