/** The version of this library, which its User-Agent names. */
export const VERSION: string;
