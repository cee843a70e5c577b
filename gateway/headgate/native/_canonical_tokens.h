/* A canonical form under construction, and its tokens (see _canonical.h).
 *
 * Only _canonical.h includes this file, which does not use Python.
 */
#ifndef HEADGATE_CANONICAL_TOKENS_H
#define HEADGATE_CANONICAL_TOKENS_H

#include "_canonical_members.h"
#include "_json_documents.h"

enum {
    MOST_OPEN = 32, /* depth of arrays and objects: each may move its contents */
    WIDE = 16,
    /* orjson reads these digits into the double that it writes back as they are (DBL_DIG), and
     * integers of so many into 64 bits. Below 0.0001 some write exponents. */
    MOST_DECIMAL_DIGITS = 15,
    MOST_INTEGER_DIGITS = 18,
    MOST_LEADING_NOUGHTS = 3,
};

/* An open array or object. */
typedef struct {
    uint8_t end;    /* its closing bracket */
    bool leaves_out; /* the current member */
    int way;        /* step whose value it is; DOCUMENT; NO_STEP: nothing below counts */
    int first;      /* its first member */
    uint8_t *begin; /* position after its bracket */
} Open;

/* A form under construction. */
typedef struct {
    Scan *scan; /* scan of the document's body */
    const Pointers *ignore;
    uint8_t *form, *to; /* its beginning, and its end so far */
    uint8_t *aside;     /* a buffer of the same size */
    Open *open;         /* the innermost */
    Open all_open[MOST_OPEN + 1];
    Member members[MOST_MEMBERS];
    int count;     /* of members */
    int step;      /* step whose value comes next, or NO_STEP */
    uint32_t seen; /* bit n: the name of ignore->steps[n] was seen */
} Form;

/* ---- Tokens. All functions return the position after the token; NULL: leave the document. */

static inline void copy(Form *form, const uint8_t *from, const uint8_t *end)
{
    size_t bytes = (size_t)(end - from);
    if (bytes <= WIDE && form->scan->end - from >= WIDE) {
        memcpy(form->to, from, WIDE);
    } else {
        memcpy(form->to, from, bytes);
    }
    form->to += bytes;
}

/* True if each escape in the string is the one that orjson writes for its character. */
static bool keeps_escapes(const uint8_t *at, const uint8_t *end)
{
    while ((at = memchr(at, '\\', (size_t)(end - at))) != NULL) {
        switch (at[1]) {
        case '"': case '\\': case 'b': case 'f': case 'n': case 'r': case 't':
            at += 2; /* at least the closing quote follows */
            break;
        default:
            return false;
        }
    }
    return true;
}

static inline const uint8_t *copy_string(Form *form, const uint8_t *at)
{
    form->scan->has_escape = false;
    const uint8_t *end = skip_string(form->scan, at + 1);
    if (end == NULL || (form->scan->has_escape && !keeps_escapes(at, end))) {
        return NULL;
    }
    copy(form, at, end);
    return end;
}

/* Return the number of noughts at `at`. */
static inline size_t noughts(const uint8_t *at)
{
    const uint8_t *begin = at;
    while (*at == '0') {
        at++;
    }
    return (size_t)(at - begin);
}

static const uint8_t *copy_decimal(Form *form, const uint8_t *begin, const uint8_t *point)
{
    const uint8_t *first = begin + (*begin == '-'), *end = skip_digits(point + 1);
    if (end == NULL || (*end | 0x20) == 'e') {
        return NULL;
    }
    size_t digits = (size_t)(end - first) - 1;
    if (*first == '0') { /* noughts before the first other digit are no digits */
        size_t leading = noughts(point + 1);
        digits -= 1 + leading;
        if (leading > MOST_LEADING_NOUGHTS && digits > 0) {
            return NULL;
        }
    }
    const uint8_t *written = end;
    while (written[-1] == '0' && written - point > 2) {
        written--;
    }
    copy(form, begin, written);
    return digits <= MOST_DECIMAL_DIGITS ? end : NULL;
}

static const uint8_t *copy_number(Form *form, const uint8_t *at)
{
    bool is_negative = *at == '-';
    const uint8_t *end = skip_integer(at);
    if (end == NULL || (*end | 0x20) == 'e') {
        return NULL;
    }
    if (*end == '.') {
        return copy_decimal(form, at, end);
    }
    if (end - at - is_negative > MOST_INTEGER_DIGITS || (is_negative && at[1] == '0')) {
        return NULL;
    }
    copy(form, at, end);
    return end;
}

static inline const uint8_t *copy_scalar(Form *form, const uint8_t *at)
{
    if (*at == '"') {
        return copy_string(form, at);
    }
    if (*at == 't' || *at == 'f' || *at == 'n') {
        const uint8_t *end = at + (*at == 'f' ? 5 : 4);
        copy(form, at, end);
        return end;
    }
    return copy_number(form, at);
}

#endif
