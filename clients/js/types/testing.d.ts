export { REASONS } from "./testing/reasons.js";
export type Fault = import("./testing/gateway.js").Fault;
export type KeyOf = import("./testing/gateway.js").KeyOf;
export type FakeRecord = import("./testing/requests.js").FakeRecord;
export type FakeRequest = import("./testing/requests.js").FakeRequest;
export { FailEvents, FakeGateway, Lose, Refuse, Succeed } from "./testing/gateway.js";
