/* One JSON document: its tokens, its arrays and objects, and its key (see _json.h). */
#ifndef HEADGATE_JSON_DOCUMENTS_H
#define HEADGATE_JSON_DOCUMENTS_H

#include "_json_strings.h"

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
        return NULL; /* at least one digit */
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

/* Return the end of a value that is no array and no object, or NULL. */
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

/* True if the join would have to encode a part (model/keys.py). */
static bool is_unjoined(Text part)
{
    return memchr(part.at, ':', part.bytes) != NULL || memchr(part.at, '%', part.bytes) != NULL;
}

/* Return the end of the key's part at `at`. NULL: the part is no plain string and no integer, so it
 * is refused or needs more than its bytes. */
static const uint8_t *take_part(Scan *scan, const uint8_t *at, int part)
{
    Text *taken = &scan->key[part];
    const uint8_t *begin = at;
    if (*at == '"') {
        scan->has_escape = false;
        at = skip_string(scan, at + 1);
        if (at == NULL || scan->has_escape || at - begin == 2) {
            return NULL;
        }
        *taken = (Text){begin + 1, (size_t)(at - begin) - 2};
        return scan->rule->parts > 1 && is_unjoined(*taken) ? NULL : at;
    }
    at = skip_integer(at);
    if (at == NULL || *at == '.' || (*at | 0x20) == 'e') {
        return NULL;
    }
    *taken = (Text){begin, (size_t)(at - begin)};
    return at;
}

/* Return the step of a name in the value of `parent`, or NO_STEP. */
static inline int step_of(const Pointers *rule, int parent, const uint8_t *name, size_t bytes)
{
    for (int i = 0; i < rule->count; i++) {
        const Step *step = &rule->steps[i];
        if (step->parent == parent && step->name.bytes == bytes &&
            memcmp(step->name.at, name, bytes) == 0) {
            return i;
        }
    }
    return NO_STEP;
}

/* The arrays and objects around a position. */
typedef struct {
    uint64_t objects[MOST_DEPTH / 64]; /* bit n: the one of depth n is an object */
    int depth;                         /* depth of the innermost one; 1 is the document */
    bool in_object;                    /* the innermost one is an object */
    int way, way_depth;                /* the innermost one that leads to a part of the key */
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

/* Return the value of the member whose name is at `at`, or NULL. *step: the member's step. */
static inline const uint8_t *skip_name(Scan *scan, const uint8_t *at, const Levels *levels,
                                       int *step)
{
    const uint8_t *begin = at + 1;
    bool is_on_the_way = levels->depth == levels->way_depth;
    if (*at != '"') {
        return NULL;
    }
    scan->has_escape = false;
    at = skip_string(scan, begin);
    if (at == NULL || (is_on_the_way && scan->has_escape)) {
        return NULL; /* a name may have several spellings: only the plain one is compared */
    }
    if (is_on_the_way) {
        *step = step_of(scan->rule, levels->way, begin, (size_t)(at - begin) - 1);
        if (*step != NO_STEP) {
            if (scan->seen >> *step & 1) {
                return NULL; /* a second time: the last one counts */
            }
            scan->seen |= 1u << *step;
        }
    }
    at = skip_blanks(scan, at);
    return *at == ':' ? skip_blanks(scan, at + 1) : NULL;
}

/* Go on after a value: to its next sibling, or to that of a parent that ends with it. NULL: neither
 * a comma nor the right bracket follows. When the document ends, levels->depth is 0. */
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
        if (levels->depth < levels->way_depth) {
            levels->way = scan->rule->steps[levels->way].parent;
            levels->way_depth--;
        }
        at = skip_blanks(scan, at);
    }
    return skip_blanks(scan, at + 1);
}

/* Return the end of the object that begins at `at`, or NULL. */
static const uint8_t *skip_document(Scan *scan, const uint8_t *at)
{
    Levels levels = {{0}, 0, false, DOCUMENT, 1};
    int step = NO_STEP;
    scan->seen = 0;
    scan->has_high = 0;
    for (;;) { /* at: a value, the document first */
        bool has_child = false;
        int part = step == NO_STEP ? ON_THE_WAY : scan->rule->steps[step].part;
        if (*at == '{' || *at == '[') {
            if (part != ON_THE_WAY || levels.depth == scan->max_depth) {
                return NULL;
            }
            enter(&levels, *at == '{');
            if (step != NO_STEP) {
                if (!levels.in_object) {
                    return NULL; /* a pointer may go on with an element's number */
                }
                levels.way = step;
                levels.way_depth = levels.depth;
            }
            at = skip_blanks(scan, at + 1);
            has_child = *at != (levels.in_object ? '}' : ']');
        } else {
            at = part == ON_THE_WAY ? skip_scalar(scan, at) : take_part(scan, at, part);
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
        step = NO_STEP;
        if (levels.in_object) {
            at = skip_name(scan, at, &levels, &step);
            if (at == NULL) {
                return NULL;
            }
        }
    }
}

#endif
