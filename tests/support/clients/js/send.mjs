// Sends one event; writes its outcome and the number of requests.

import { Client } from "../../../../clients/js/src/index.js";

const { url, options = {} } = JSON.parse(process.argv[2]);
let requests = 0;
const observer = { onAttempt: () => (requests += 1) };
const client = new Client(url, { ...options, observer, log: null });
const { name, reason, retryable, detail } = await client.send("orders", { id: 1 });
console.log(JSON.stringify({ name, reason, retryable, detail, requests }));
