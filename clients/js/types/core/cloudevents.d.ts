/**
 * @param {CloudEvent} event
 * @param {Stringify} stringify
 * @returns {Part}
 */
export function encodeCloudEvent(event: CloudEvent, stringify: Stringify): Part;
import type { CloudEvent } from "../events.js";
import type { Stringify } from "./json.js";
import type { Part } from "./encode.js";
