/** Names for events and requests: UUIDs of version 7, which sort by time as the gateway's own do. */

/**
 * Return a new UUID, version 7 (RFC 9562).
 *
 * @param {number} nowMs Since 1970.
 * @param {Uint8Array} random 10 bytes.
 */
export function uuid7(nowMs, random) {
  const time = Math.trunc(nowMs).toString(16).padStart(12, "0");
  const bytes = Uint8Array.from(random);
  bytes[0] = ((bytes[0] ?? 0) & 0x0f) | 0x70; // the version
  bytes[2] = ((bytes[2] ?? 0) & 0x3f) | 0x80; // the variant
  const rest = Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
  const text = time + rest;
  const cuts = [0, 8, 12, 16, 20, 32];
  return cuts.slice(1).map((end, at) => text.slice(cuts[at], end)).join("-");
}
