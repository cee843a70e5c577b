/** The version of this library, which its User-Agent names. */

export const VERSION = /** @type {string} */ ("0.1.0"); // `make version` writes it
