/** Words of log lines and error texts. */
/**
 * Return `1 event`, `2 events`.
 *
 * @param {number} number
 * @param {string} noun
 */
export function counted(number: number, noun: string): string;
