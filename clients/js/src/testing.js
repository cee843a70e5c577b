/**
 * A gateway in memory, for tests of programs that send events.
 *
 *     const gateway = new FakeGateway();
 *     const client = new Client(gateway.url, { fetch: gateway.fetch, retry: { firstWaitMs: 0 } });
 *     gateway.next(new Refuse("overloaded"), new Lose({ isWritten: true }));
 *     await client.send("orders", { order_id: 1 });
 *     assert.deepEqual(gateway.records("orders").map(({ value }) => value), [{ order_id: 1 }]);
 *
 * The gateway speaks HTTP, so the client runs the code that it runs in production.
 */

export { FailEvents, FakeGateway, Lose, Refuse, Succeed } from "./testing/gateway.js";
export { REASONS } from "./testing/reasons.js";

/**
 * @typedef {import("./testing/gateway.js").Fault} Fault
 * @typedef {import("./testing/gateway.js").KeyOf} KeyOf
 * @typedef {import("./testing/requests.js").FakeRecord} FakeRecord
 * @typedef {import("./testing/requests.js").FakeRequest} FakeRequest
 */
