// What a program in TypeScript relies on; compiled by `npm run check`, and never run.

import {
  BufferedProducer,
  Client,
  CloudEvent,
  HeadgateEvent,
  RejectedError,
  TOMBSTONE,
  type Observer,
  type Outcome,
} from "headgate-client";

const observer: Observer = { onAttempt: ({ durationMs }) => void durationMs.toFixed() };
const client = new Client(["http://127.0.0.1:8080", "https://gateway.example"], {
  producer: "shop",
  token: async () => "secret",
  compression: "gzip",
  retry: { patienceMs: 60_000, overtaken: "leave_out" },
  observer,
});

function place(outcome: Outcome): number | null {
  switch (outcome.name) {
    case "rejected":
    case "unknown":
      return outcome.reason === "no_answer" ? outcome.status : null;
    default:
      return outcome.offset;
  }
}

export async function all(signal: AbortSignal): Promise<number | null> {
  const outcome = await client.send("orders", { order_id: 1 }, { signal, key: "1", headers: { author: "Ada" } });
  if (outcome.succeeded) place(outcome);
  else console.log(outcome.reason, outcome.retryable);
  const { offset } = outcome.throwIfFailed();
  const events = [
    new HeadgateEvent(TOMBSTONE, { key: new Uint8Array([1]), headers: { author: "Ada" } }),
    new CloudEvent({ id: "1", source: "/shop", type: "paid", data: { total: 1 }, traceid: "x" }),
  ];
  const outcomes: Outcome[] = await client.sendBatch("orders", events);
  outcomes.map(place);

  const producer = new BufferedProducer(client, { buffering: { lingerMs: 5 }, orderingKey: () => "a" });
  const pending: Promise<Outcome> = producer.send("orders", 1);
  const taken = await producer.sendWhenRoom("orders", 2, { key: "k", timestamp: new Date(), timeoutMs: 100 });
  const isFlushed: boolean = await producer.flush({ timeoutMs: 1000 });
  try {
    (await pending).throwIfFailed();
    (await taken.outcome).throwIfFailed();
  } catch (error) {
    if (error instanceof RejectedError) console.log(error.outcome.reason, isFlushed);
  }
  return offset;
}

// @ts-expect-error: an option that does not exist
new Client("http://127.0.0.1:8080", { tokn: "secret" });
// @ts-expect-error: a value that does not exist
new Client("http://127.0.0.1:8080", { compression: "zstd" });
