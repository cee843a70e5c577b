/** CloudEvents as members of a batch. */

import { InvalidEventError } from "../errors.js";
import { OCTETS, asBytes, encodeUtf8, isBytes, toBase64 } from "./bytes.js";
import { jsonBytes, withMember } from "./json.js";
import { checkedKey, laneOf } from "./keys.js";

/** @import {CloudEvent} from "../events.js" */
/** @import {Part} from "./encode.js" */
/** @import {Stringify} from "./json.js" */

const ATTRIBUTE = /^[a-z0-9]{1,64}$/;

/**
 * @param {CloudEvent} event
 * @param {Stringify} stringify
 * @returns {Part}
 */
export function encodeCloudEvent(event, stringify) {
  const { attributes } = event;
  for (const [name, value] of Object.entries(attributes)) {
    const isKnown = ["string", "number", "boolean"].includes(typeof value) || value instanceof Date;
    if (!ATTRIBUTE.test(name) || !isKnown) {
      throw new InvalidEventError(`CloudEvent: ${name}: the name or the value is not valid`);
    }
  }
  for (const name of ["id", "source", "type"]) {
    if (typeof attributes[name] !== "string") {
      throw new InvalidEventError(`CloudEvent: ${name} must be a string`);
    }
  }
  const { data } = event;
  const base64 = isBytes(data) ? toBase64(asBytes(data)) : event.dataBase64;
  // without a type the gateway takes them for JSON
  const type = base64 === undefined ? {} : { datacontenttype: OCTETS };
  let text = encodeUtf8(JSON.stringify({ specversion: "1.0", ...type, ...attributes }));
  if (base64 !== undefined) {
    text = withMember(text, "data_base64", encodeUtf8(JSON.stringify(base64)));
  } else if (data !== undefined) {
    text = withMember(text, "data", jsonBytes(data, stringify));
  }
  const named = attributes.partitionkey || attributes.subject;
  const key = named === undefined ? null : checkedKey(String(named));
  const eventId = String(attributes.id);
  return { form: "cloudevents", text, eventId, key, lane: laneOf(key), headers: [] };
}
