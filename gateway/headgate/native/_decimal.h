/* The only writer of decimal numbers. */
#ifndef HEADGATE_DECIMAL_H
#define HEADGATE_DECIMAL_H

enum { MOST_DIGITS = 20 }; /* of a signed 64-bit number, with its sign */

/* Write a number; return its end. */
static char *put_decimal(char *at, long long number)
{
    char digits[MOST_DIGITS];
    int count = 0;
    unsigned long long rest = number < 0 ? 0ULL - (unsigned long long)number : (unsigned long long)number;
    do {
        digits[count++] = (char)('0' + rest % 10);
        rest /= 10;
    } while (rest);
    if (number < 0)
        *at++ = '-';
    while (count)
        *at++ = digits[--count];
    return at;
}


#endif
