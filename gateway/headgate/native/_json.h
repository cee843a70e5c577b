/* Accepts JSON documents (RFC 8259) in one pass: cuts bodies, validates, finds keys.
 *
 * A fast accept and nothing else: whatever is unusual ends the pass, and somebody slower decides.
 *
 * Strangers send what is read here. That nothing is read beyond a body rests on one fact: it is
 * followed by a zero that is not counted. A zero is no part of any token, and every step goes on
 * only from a sign that it has recognised, so none passes the end. Where more than one sign is
 * looked at together, the room is checked. There is no recursion: the kinds of the open arrays and
 * objects are bits in a fixed array.
 *
 * Included by _scanner.c alone; nothing here knows Python.
 */
#ifndef HEADGATE_JSON_H
#define HEADGATE_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "_text.h"

#ifdef __SSE2__
#include <immintrin.h>
#endif

enum {
    MOST_DEPTH = 512, /* levels that the fixed array has room for */
    FEW = 64,         /* documents that need no memory but the stack */
    BLANK = 1,
    LINE_END = 2,
    DIGIT = 4,
    HEXADECIMAL = 8,
};

/* What RFC 8259 says of single signs. */
static const uint8_t SIGNS[256] = {
    [' '] = BLANK,
    ['\t'] = BLANK,
    ['\n'] = LINE_END,
    ['\r'] = LINE_END,
    ['0'] = DIGIT | HEXADECIMAL,
    ['1'] = DIGIT | HEXADECIMAL,
    ['2'] = DIGIT | HEXADECIMAL,
    ['3'] = DIGIT | HEXADECIMAL,
    ['4'] = DIGIT | HEXADECIMAL,
    ['5'] = DIGIT | HEXADECIMAL,
    ['6'] = DIGIT | HEXADECIMAL,
    ['7'] = DIGIT | HEXADECIMAL,
    ['8'] = DIGIT | HEXADECIMAL,
    ['9'] = DIGIT | HEXADECIMAL,
    ['a'] = HEXADECIMAL,
    ['b'] = HEXADECIMAL,
    ['c'] = HEXADECIMAL,
    ['d'] = HEXADECIMAL,
    ['e'] = HEXADECIMAL,
    ['f'] = HEXADECIMAL,
    ['A'] = HEXADECIMAL,
    ['B'] = HEXADECIMAL,
    ['C'] = HEXADECIMAL,
    ['D'] = HEXADECIMAL,
    ['E'] = HEXADECIMAL,
    ['F'] = HEXADECIMAL,
};

typedef struct Scan Scan;

/* Where a string's plain signs end: at a quote, a backslash or a control sign. */
typedef const uint8_t *SkipPlain(Scan *scan, const uint8_t *at);

/* One body on its way. Offsets in `values` and `keys` agree. */
struct Scan {
    const uint8_t *end;
    SkipPlain *skip_plain;
    uint64_t has_high; /* not 0: a byte beyond ASCII was seen since the document began */
    bool has_escape;   /* a backslash was seen since this was cleared */
    uint8_t blanks;    /* which SIGNS may stand between tokens */
    int max_depth;
    bool has_member;
    Text member;
    size_t max_value_bytes;
    Text key; /* of this document; at == NULL: not found so far */
    Text *values, *keys;
    size_t count, room, most;
    bool has_no_memory;
    Text few[2 * FEW];
};

/* ---- Strings */

static inline bool is_plain(uint8_t sign)
{
    return sign != '"' && sign != '\\' && sign >= 0x20;
}

static const uint8_t *skip_plain_bytes(Scan *scan, const uint8_t *at)
{
    for (; is_plain(*at); at++) {
        scan->has_high |= *at & 0x80;
    }
    return at;
}

#ifdef __SSE2__

/* One bit for each of 16 signs that is not plain. A sign is a control sign if 0x1f is no less. */
static inline unsigned stops_of_16(__m128i signs)
{
    __m128i quotes = _mm_cmpeq_epi8(signs, _mm_set1_epi8('"'));
    __m128i backslashes = _mm_cmpeq_epi8(signs, _mm_set1_epi8('\\'));
    __m128i controls = _mm_cmpeq_epi8(_mm_min_epu8(signs, _mm_set1_epi8(0x1f)), signs);
    return (unsigned)_mm_movemask_epi8(_mm_or_si128(_mm_or_si128(quotes, backslashes), controls));
}

static const uint8_t *skip_plain_16(Scan *scan, const uint8_t *at)
{
    for (; scan->end - at >= 16; at += 16) {
        __m128i signs = _mm_loadu_si128((const __m128i *)at);
        unsigned stops = stops_of_16(signs);
        scan->has_high |= (unsigned)_mm_movemask_epi8(signs);
        if (stops != 0) {
            return at + __builtin_ctz(stops);
        }
    }
    return skip_plain_bytes(scan, at);
}

__attribute__((target("avx2"))) static const uint8_t *skip_plain_32(Scan *scan, const uint8_t *at)
{
    const __m256i quote = _mm256_set1_epi8('"'), backslash = _mm256_set1_epi8('\\');
    const __m256i last_control = _mm256_set1_epi8(0x1f);
    unsigned high = 0;
    for (; scan->end - at >= 32; at += 32) {
        __m256i signs = _mm256_loadu_si256((const __m256i *)at);
        __m256i stop = _mm256_or_si256(_mm256_cmpeq_epi8(signs, quote),
                                       _mm256_cmpeq_epi8(signs, backslash));
        stop = _mm256_or_si256(stop,
                               _mm256_cmpeq_epi8(_mm256_min_epu8(signs, last_control), signs));
        unsigned stops = (unsigned)_mm256_movemask_epi8(stop);
        high |= (unsigned)_mm256_movemask_epi8(signs);
        if (stops != 0) {
            scan->has_high |= high;
            return at + __builtin_ctz(stops);
        }
    }
    scan->has_high |= high;
    return skip_plain_16(scan, at);
}

static SkipPlain *fastest_skip(void)
{
    return __builtin_cpu_supports("avx2") ? skip_plain_32 : skip_plain_16;
}

#else

static SkipPlain *fastest_skip(void)
{
    return skip_plain_bytes;
}

#endif

/* After the escape whose backslash stands before `at`, or NULL. Escapes of surrogates are for the
 * slow way: RFC 8259 allows them alone and msgspec does not. */
static const uint8_t *skip_escape(const uint8_t *at)
{
    switch (*at) {
    case '"': case '\\': case '/': case 'b': case 'f': case 'n': case 'r': case 't':
        return at + 1;
    case 'u':
        for (int i = 1; i <= 4; i++) {
            if (!(SIGNS[at[i]] & HEXADECIMAL)) {
                return NULL;
            }
        }
        if ((at[1] | 0x20) == 'd' && at[2] >= '8') {
            return NULL; /* after the digits 8 and 9 come the letters, in both cases */
        }
        return at + 5;
    default:
        return NULL;
    }
}

static const uint8_t *skip_string_slowly(Scan *scan, const uint8_t *at)
{
    for (;;) {
        at = scan->skip_plain(scan, at);
        if (*at == '"') {
            return at + 1;
        }
        if (*at != '\\') {
            return NULL; /* a control sign, or the end of the body */
        }
        scan->has_escape = true;
        at = skip_escape(at + 1);
        if (at == NULL) {
            return NULL;
        }
    }
}

/* After the string whose opening quote stands before `at`, or NULL. Most strings are short. */
static inline const uint8_t *skip_string(Scan *scan, const uint8_t *at)
{
#ifdef __SSE2__
    if (scan->end - at >= 16) {
        __m128i signs = _mm_loadu_si128((const __m128i *)at);
        unsigned stops = stops_of_16(signs);
        scan->has_high |= (unsigned)_mm_movemask_epi8(signs);
        at += stops != 0 ? __builtin_ctz(stops) : 16;
        if (stops != 0 && *at == '"') {
            return at + 1;
        }
    }
#endif
    return skip_string_slowly(scan, at);
}

/* Where the UTF-8 (RFC 3629) of a sign beyond ASCII ends, or NULL. */
static const uint8_t *skip_utf8(const uint8_t *at)
{
    uint8_t lead = at[0], lowest = 0x80, highest = 0xbf;
    int more;
    if (lead < 0xc2 || lead > 0xf4) {
        return NULL; /* a continuation, overlong, or beyond U+10FFFF */
    }
    more = lead < 0xe0 ? 1 : lead < 0xf0 ? 2 : 3;
    if (lead == 0xe0) {
        lowest = 0xa0; /* below: overlong */
    } else if (lead == 0xed) {
        highest = 0x9f; /* above: surrogates */
    } else if (lead == 0xf0) {
        lowest = 0x90; /* below: overlong */
    } else if (lead == 0xf4) {
        highest = 0x8f; /* above: beyond U+10FFFF */
    }
    if (at[1] < lowest || at[1] > highest) {
        return NULL;
    }
    for (int i = 2; i <= more; i++) {
        if ((at[i] & 0xc0) != 0x80) {
            return NULL;
        }
    }
    return at + more + 1;
}

/* The text must be followed by an ASCII sign (a document is: it ends with a bracket). */
static bool is_utf8(const uint8_t *at, const uint8_t *end)
{
    while (at < end) {
        uint64_t eight;
        if (*at >= 0x80) {
            at = skip_utf8(at);
            if (at == NULL) {
                return false;
            }
        } else if (end - at >= 8 && (memcpy(&eight, at, 8), !(eight & 0x8080808080808080))) {
            at += 8;
        } else {
            at++;
        }
    }
    return true;
}

/* ---- Other tokens */

static inline const uint8_t *skip_blanks(const Scan *scan, const uint8_t *at)
{
    while (SIGNS[*at] & scan->blanks) {
        at++;
    }
    return at;
}

static inline const uint8_t *skip_digits(const uint8_t *at)
{
    if (!(SIGNS[*at] & DIGIT)) {
        return NULL; /* one at least */
    }
    do {
        at++;
    } while (SIGNS[*at] & DIGIT);
    return at;
}

static const uint8_t *skip_integer(const uint8_t *at)
{
    at += *at == '-';
    return *at == '0' ? at + 1 : skip_digits(at);
}

static const uint8_t *skip_number(const uint8_t *at)
{
    at = skip_integer(at);
    if (at != NULL && *at == '.') {
        at = skip_digits(at + 1);
    }
    if (at != NULL && (*at | 0x20) == 'e') {
        at += at[1] == '+' || at[1] == '-' ? 2 : 1;
        at = skip_digits(at);
    }
    return at;
}

static const uint8_t *skip_word(const uint8_t *at, const char *word)
{
    for (; *word != 0; at++, word++) {
        if (*at != (uint8_t)*word) {
            return NULL;
        }
    }
    return at;
}

/* After a value that is no array and no object, or NULL. */
static inline const uint8_t *skip_scalar(Scan *scan, const uint8_t *at)
{
    switch (*at) {
    case '"':
        return skip_string(scan, at + 1);
    case 't':
        return skip_word(at, "true");
    case 'f':
        return skip_word(at, "false");
    case 'n':
        return skip_word(at, "null");
    default:
        return skip_number(at);
    }
}

/* ---- Documents */

/* After the key that stands at `at`, or NULL: what is no plain string and no integer is either
 * refused or needs more than its bytes. */
static const uint8_t *take_key(Scan *scan, const uint8_t *at)
{
    const uint8_t *begin = at;
    if (scan->key.at != NULL) {
        return NULL; /* twice: the last one counts */
    }
    if (*at == '"') {
        scan->has_escape = false;
        at = skip_string(scan, at + 1);
        if (at == NULL || scan->has_escape || at - begin == 2) {
            return NULL;
        }
        scan->key = (Text){begin + 1, (size_t)(at - begin) - 2};
        return at;
    }
    at = skip_integer(at);
    if (at == NULL || *at == '.' || (*at | 0x20) == 'e') {
        return NULL;
    }
    scan->key = (Text){begin, (size_t)(at - begin)};
    return at;
}

/* The value of the member whose name stands at `at`, or NULL. *is_key: whether that is the key. */
static inline const uint8_t *skip_name(Scan *scan, const uint8_t *at, bool is_top, bool *is_key)
{
    const uint8_t *begin = at + 1;
    if (*at != '"') {
        return NULL;
    }
    scan->has_escape = false;
    at = skip_string(scan, begin);
    if (at == NULL || (is_top && scan->has_escape)) {
        return NULL; /* a name may be written in many ways: only the plain one is compared */
    }
    size_t bytes = (size_t)(at - begin) - 1;
    *is_key = is_top && scan->has_member && bytes == scan->member.bytes &&
              memcmp(begin, scan->member.at, bytes) == 0;
    at = skip_blanks(scan, at);
    return *at == ':' ? skip_blanks(scan, at + 1) : NULL;
}

/* The arrays and objects around a place. */
typedef struct {
    uint64_t objects[MOST_DEPTH / 64]; /* bit n: the one of depth n is an object */
    int depth;                         /* of the innermost; 1 is the document */
    bool in_object;                    /* whether the innermost is an object */
} Levels;

static inline void enter(Levels *levels, bool is_object)
{
    int depth = levels->depth++;
    uint64_t bit = (uint64_t)1 << (depth & 63);
    if (levels->in_object) {
        levels->objects[depth >> 6] |= bit;
    } else {
        levels->objects[depth >> 6] &= ~bit;
    }
    levels->in_object = is_object;
}

static inline void leave(Levels *levels)
{
    int depth = --levels->depth;
    levels->in_object = levels->objects[depth >> 6] >> (depth & 63) & 1;
}

/* After a value: its next sibling, or that of what ends with it. NULL: neither a comma nor the
 * right bracket follows. When the document ends, levels->depth is 0. */
static inline const uint8_t *skip_ends(const Scan *scan, const uint8_t *at, Levels *levels)
{
    while (*at != ',') {
        if (*at != (levels->in_object ? '}' : ']')) {
            return NULL;
        }
        leave(levels);
        at++;
        if (levels->depth == 0) {
            return at;
        }
        at = skip_blanks(scan, at);
    }
    return skip_blanks(scan, at + 1);
}

/* After the object that begins at `at`, or NULL. */
static const uint8_t *skip_document(Scan *scan, const uint8_t *at)
{
    Levels levels = {{0}, 0, false};
    bool is_key = false;
    scan->key.at = NULL;
    scan->has_high = 0;
    for (;;) { /* at: a value, the document first */
        bool has_child = false;
        if (*at == '{' || *at == '[') {
            if (is_key || levels.depth == scan->max_depth) {
                return NULL;
            }
            enter(&levels, *at == '{');
            at = skip_blanks(scan, at + 1);
            has_child = *at != (levels.in_object ? '}' : ']');
        } else {
            at = is_key ? take_key(scan, at) : skip_scalar(scan, at);
            if (at == NULL) {
                return NULL;
            }
            at = skip_blanks(scan, at);
        }
        if (!has_child) {
            at = skip_ends(scan, at, &levels);
            if (at == NULL || levels.depth == 0) {
                return at;
            }
        }
        is_key = false;
        if (levels.in_object) {
            at = skip_name(scan, at, levels.depth == 1, &is_key);
            if (at == NULL) {
                return NULL;
            }
        }
    }
}

/* ---- Bodies. What returns false has met something unusual, or has no memory. */

/* Afterwards values and keys are of no use. */
static void scan_end(Scan *scan)
{
    if (scan->values != scan->few) {
        free(scan->values);
    }
}

static bool make_room(Scan *scan)
{
    size_t room = 2 * scan->room; /* far from overflowing: a body has a byte or more for each */
    Text *values = malloc(2 * room * sizeof(Text));
    if (values == NULL) {
        scan->has_no_memory = true;
        return false;
    }
    memcpy(values, scan->values, scan->count * sizeof(Text));
    memcpy(values + room, scan->keys, scan->count * sizeof(Text));
    scan_end(scan);
    scan->values = values;
    scan->keys = values + room;
    scan->room = room;
    return true;
}

/* The value of the document just read is what lies between. */
static bool keep(Scan *scan, const uint8_t *begin, const uint8_t *end)
{
    size_t bytes = (size_t)(end - begin);
    if (scan->count == scan->most || bytes > scan->max_value_bytes ||
        (scan->has_member && scan->key.at == NULL) || (scan->has_high && !is_utf8(begin, end)) ||
        (scan->count == scan->room && !make_room(scan))) {
        return false;
    }
    scan->values[scan->count] = (Text){begin, bytes};
    scan->keys[scan->count++] = scan->key;
    return true;
}

/* member: its name; at == NULL: there is no key rule. */
static void scan_begin(Scan *scan, const uint8_t *end, Text member, int max_depth,
                       size_t max_value_bytes, size_t most)
{
    scan->end = end;
    scan->skip_plain = fastest_skip();
    scan->has_escape = false;
    scan->max_depth = max_depth;
    scan->has_member = member.at != NULL;
    scan->member = member;
    scan->max_value_bytes = max_value_bytes;
    scan->values = scan->few;
    scan->keys = scan->few + FEW;
    scan->count = 0;
    scan->room = FEW;
    scan->most = most;
    scan->has_no_memory = false;
}

/* One of the three ways to cut a body that follow. */
typedef bool Cut(Scan *scan, const uint8_t *body);

static bool scan_lines(Scan *scan, const uint8_t *at)
{
    scan->blanks = BLANK;
    for (; at < scan->end; at++) {
        const uint8_t *line = at;
        at = skip_blanks(scan, at);
        if (*at == '{') {
            at = skip_document(scan, at);
            if (at == NULL) {
                return false;
            }
            at = skip_blanks(scan, at);
            if (!keep(scan, line, at)) {
                return false;
            }
        }
        if (*at != '\n' && at != scan->end) {
            return false;
        }
    }
    return true;
}

static bool scan_elements(Scan *scan, const uint8_t *at)
{
    scan->blanks = BLANK | LINE_END;
    at = skip_blanks(scan, at);
    if (*at != '[') {
        return false;
    }
    do {
        const uint8_t *element = skip_blanks(scan, at + 1);
        at = *element == '{' ? skip_document(scan, element) : NULL;
        if (at == NULL || !keep(scan, element, at)) {
            return false;
        }
        at = skip_blanks(scan, at);
    } while (*at == ',');
    return *at == ']' && skip_blanks(scan, at + 1) == scan->end;
}

static bool scan_one(Scan *scan, const uint8_t *body)
{
    scan->blanks = BLANK | LINE_END;
    const uint8_t *at = skip_blanks(scan, body);
    at = *at == '{' ? skip_document(scan, at) : NULL;
    return at != NULL && skip_blanks(scan, at) == scan->end && keep(scan, body, scan->end);
}

#endif
