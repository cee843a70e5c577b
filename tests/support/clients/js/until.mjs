// Sends the same event, one after the other, until it ends in a certain way; writes that outcome.

import { Client } from "../../../../clients/js/src/index.js";

const DEADLINE_MS = 60_000;

const { url, topic, name } = JSON.parse(process.argv[2]);
const client = new Client(url);
const endMs = performance.now() + DEADLINE_MS;
let outcome;
do {
  outcome = await client.send(topic, { id: 1 });
} while (outcome.name !== name && performance.now() < endMs);
const { succeeded, isWritten } = outcome;
console.log(JSON.stringify({ ...outcome, isWritten, succeeded, kind: outcome.constructor.name }));
