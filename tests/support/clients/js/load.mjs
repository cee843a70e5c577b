// Sends events of some keys in the background until it is told to stop. It says how many have ended
// and failed, and at last everything: what was sent, how that ended, and each attempt.

import { createInterface } from "node:readline";

import { BufferedProducer, Client, HeadgateEvent } from "../../../../clients/js/src/index.js";

const KEYS = 8;
const SENDERS = 3;
const PACE_MS = 3; // of a sender: what is written has to be read again
const REPORT_MS = 50;
const GOOD = ["published", "duplicate", "unchanged"];

// retry: beside what is patient.  largest: characters of text that an event has at most.
const { urls, topic, retry = {}, largest = 0 } = JSON.parse(process.argv[2]);
const say = (what) => process.stdout.write(`${JSON.stringify(what)}\n`);
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const [sent, ended, attempts, pending] = [[], [], [], []];
let failed = 0;
let isStopping = false;

function noteAttempt(eventId, end, isBypassed = false) {
  if (!GOOD.includes(end)) failed += 1;
  attempts.push({ eventId, end, isBypassed });
}

/** `fetch`, of which is noted what it did for each event. */
async function recorded(url, init) {
  const ids = JSON.parse(new TextDecoder().decode(init.body)).events.map(({ id }) => id);
  let response, document;
  try {
    response = await fetch(url, init);
    document = await response.clone().json();
  } catch (error) {
    const wasSent = error.cause?.code !== "ECONNREFUSED";
    if (wasSent) for (const id of ids) noteAttempt(id, "no answer");
    throw error;
  }
  const isBypassed = response.headers.has("idempotency-bypassed");
  const outcomes = document.outcomes ?? ids.map(() => document);
  for (const [at, id] of ids.entries()) {
    noteAttempt(id, outcomes[at].reason ?? outcomes[at].outcome, isBypassed);
  }
  return response;
}

const client = new Client(urls, {
  producer: "shop",
  retry: { patienceMs: 600_000, longestWaitMs: 2000, ...retry },
  timeoutMs: 15_000,
  fetch: recorded,
  observer: {
    onOutcomes: (_, outcomes) => {
      for (const { name, eventId, partition, offset, reason } of outcomes) {
        ended.push({ name, eventId, partition, offset, reason });
      }
    },
  },
});
const producer = new BufferedProducer(client, {
  buffering: { maxEvents: 2000, inFlight: 3 },
  orderingKey: (_, value) => value.id,
});

async function send(sender) {
  for (let number = 0; !isStopping; number += 1) {
    const value = { id: `${sender}-${number % KEYS}`, number };
    if (largest) value.text = "x".repeat(Math.floor(Math.random() * largest));
    const eventId = crypto.randomUUID();
    sent.push({ key: value.id, eventId, value: JSON.stringify(value) });
    const { outcome } = await producer.sendWhenRoom(topic, new HeadgateEvent(value, { id: eventId }));
    pending.push(outcome);
    await pause(PACE_MS);
  }
}

createInterface({ input: process.stdin }).on("line", () => (isStopping = true));
const reports = setInterval(() => say({ ended: ended.length, failed }), REPORT_MS);
await Promise.all(Array.from({ length: SENDERS }, (_, sender) => send(sender)));
const isFlushed = await producer.close({ timeoutMs: 200_000 });
await Promise.all(pending);
clearInterval(reports);
say({ isFlushed, sent, ended, attempts });
process.stdin.destroy();
