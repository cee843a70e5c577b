// Sends one event with each of some tokens, then one with a token that is renewed; writes the outcomes.

import { Client } from "../../../../clients/js/src/index.js";

const { url, topic, tokens } = JSON.parse(process.argv[2]);
const retry = { longestWaitMs: 500 }; // the gateway only starts
let isRenewed = false;
const renewing = async () => {
  const [good, old] = tokens;
  const token = isRenewed ? good : old;
  isRenewed = true;
  return token;
};
const ways = [...tokens, renewing];
for (const token of ways) {
  const client = new Client(url, { token, retry, log: null });
  const { name, reason, retryable, detail } = await client.send(topic, { id: 1 });
  console.log(JSON.stringify({ name, reason, retryable, detail }));
}
