/* The strings of JSON documents, and the state of a body's scan (see _json.h). */
#ifndef HEADGATE_JSON_STRINGS_H
#define HEADGATE_JSON_STRINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "_cpu.h"
#include "_text.h"

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
#endif

enum {
    MOST_DEPTH = 512, /* levels in the fixed array */
    MOST_STEPS = 16,  /* names in a rule's pointers, as in formats/decode.py */
    MOST_PARTS = 4,   /* parts of a key, as there */
    FEW = 64,         /* documents that fit on the stack, if a key has one part */
    BLANK = 1,
    LINE_END = 2,
    DIGIT = 4,
    HEXADECIMAL = 8,
};

/* Classes of single characters in RFC 8259. */
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

/* A name in a rule's JSON Pointers, which form a tree of names. */
typedef struct {
    Text name;
    int parent; /* the step whose value has the name; DOCUMENT: the document has it */
    int part;   /* number of the pointer to the value; ON_THE_WAY: an object with further steps */
} Step;

enum { NO_STEP = -2, DOCUMENT = -1, ON_THE_WAY = -1 };

/* The pointers of a key rule, each to a part of the key, or of members that canonical comparison
 * leaves out. parts: their number; 0 without a rule.  ends: bit n: a pointer ends at steps[n]. */
typedef struct {
    Step steps[MOST_STEPS];
    int count, parts;
    uint32_t ends;
} Pointers;

typedef struct Scan Scan;

/* Return the end of a string's plain characters: a quote, a backslash or a control character. */
typedef const uint8_t *SkipPlain(Scan *scan, const uint8_t *at);

/* The scan of one body. `keys` has the parts of each document's key one after the other. */
struct Scan {
    const uint8_t *end;
    SkipPlain *skip_plain;
    uint64_t has_high; /* not 0: a byte beyond ASCII was seen since the document began */
    bool has_escape;   /* a backslash was seen since this was cleared */
    uint8_t blanks;    /* SIGNS that may be between tokens */
    int max_depth;
    const Pointers *rule;
    size_t max_value_bytes, max_key_bytes;
    Text key[MOST_PARTS]; /* of this document; valid if `seen` has the step */
    uint32_t seen;        /* bit n: the name of rule->steps[n] was seen */
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

#if defined(__x86_64__) && defined(__GNUC__)

/* One bit for each of 16 characters that is not plain. Control characters are up to 0x1f. */
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
    return cpu_has(CPU_AVX2) ? skip_plain_32 : skip_plain_16;
}

#else

static SkipPlain *fastest_skip(void)
{
    return skip_plain_bytes;
}

#endif

/* Return the end of the escape whose backslash is before `at`, or NULL. Escapes of surrogates take
 * the slow path: RFC 8259 allows single ones, and msgspec does not. */
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
            return NULL; /* the letters follow the digits 8 and 9, in upper and lower case */
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
            return NULL; /* a control character, or the end of the body */
        }
        scan->has_escape = true;
        at = skip_escape(at + 1);
        if (at == NULL) {
            return NULL;
        }
    }
}

/* Return the end of the string whose opening quote is before `at`, or NULL. Most are short. */
static inline const uint8_t *skip_string(Scan *scan, const uint8_t *at)
{
#if defined(__x86_64__) && defined(__GNUC__)
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

/* Return the end of a character beyond ASCII in UTF-8 (RFC 3629), or NULL. */
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

/* An ASCII character must follow the text (a document ends with a bracket). */
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

#endif
