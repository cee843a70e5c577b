/**
 * Add methods to a class that throw a TypeError. They are in no types, and are not enumerable.
 *
 * @param {{name: string, prototype: object}} Kind
 * @param {Readonly<Record<string, string>>} habits What to use instead, by name of the method.
 */
export function nameHabits(Kind: {
    name: string;
    prototype: object;
}, habits: Readonly<Record<string, string>>): void;
export namespace CLIENT_HABITS {
    export let producer: string;
    export let consumer: string;
    export let admin: string;
    export { BUFFERED as poll };
    export { BUFFERED as flush };
    export { BY_ITSELF as connect };
    export let disconnect: string;
    export let produce: string;
    export { TRANSACTIONS as transaction };
}
export namespace PRODUCER_HABITS {
    let poll: string;
    let sendBatch: string;
}
declare const BUFFERED: "send waits for the outcome; to send in the background use new BufferedProducer(client)";
/** Methods that other Kafka clients have: an error that names the method to use. */
declare const BY_ITSELF: "it is not needed: the client connects when it sends";
declare const TRANSACTIONS: "there are no transactions; see the documentation, Move to Headgate";
export {};
