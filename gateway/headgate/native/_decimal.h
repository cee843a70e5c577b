/* Numbers in decimal, the only writer of them. */
#ifndef HEADGATE_DECIMAL_H
#define HEADGATE_DECIMAL_H

enum { MOST_DIGITS = 20 }; /* of a signed number of 64 bits, with its sign */

/* Returns where the number ends. */
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
