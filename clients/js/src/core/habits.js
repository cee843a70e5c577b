/** Methods that other Kafka clients have: an error that names the method to use. */

const BY_ITSELF = "it is not needed: the client connects when it sends";
const BUFFERED =
  "send waits for the outcome; to send in the background use new BufferedProducer(client)";
const TRANSACTIONS = "there are no transactions; see the documentation, Move to Headgate";
const COMMON = {
  connect: BY_ITSELF,
  disconnect: "use close()",
  produce: "use send(topic, value, { key })",
  transaction: TRANSACTIONS,
};
export const CLIENT_HABITS = {
  ...COMMON,
  producer: "use send; to send in the background use new BufferedProducer(client)",
  consumer: "keep KafkaJS for consumers",
  admin: "keep KafkaJS for topics",
  poll: BUFFERED,
  flush: BUFFERED,
};
export const PRODUCER_HABITS = {
  ...COMMON,
  poll: "it is not needed: promises are resolved without it",
  sendBatch: "use send for each event; or sendBatch of the client",
};

/**
 * Add methods to a class that throw a TypeError. They are in no types, and are not enumerable.
 *
 * @param {{name: string, prototype: object}} Kind
 * @param {Readonly<Record<string, string>>} habits What to use instead, by name of the method.
 */
export function nameHabits(Kind, habits) {
  for (const [name, fix] of Object.entries(habits)) {
    const value = () => {
      throw new TypeError(`${Kind.name} has no ${name}(): ${fix}`);
    };
    Object.defineProperty(Kind.prototype, name, { value, configurable: true, writable: true });
  }
}
