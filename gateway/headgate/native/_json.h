/* A parser that accepts JSON documents (RFC 8259) in one pass: cuts bodies, validates, finds keys.
 *
 * Only a fast path: an unusual document ends the pass, and the slower parser decides.
 *
 * The input is not trusted. The parser never reads beyond a body, because the body is followed by a
 * zero that is not counted. A zero is no part of any token, and each step goes on only after a
 * character that it has recognized, so none passes the end. If several characters are read
 * together, the room is checked. There is no recursion: the kinds of the open arrays and objects
 * are bits in a fixed array.
 *
 * Only _scanner.c includes this file, which does not use Python.
 */
#ifndef HEADGATE_JSON_H
#define HEADGATE_JSON_H

#include "_json_documents.h"

/* ---- Bodies. False: an unusual document, or no memory. */

/* Afterwards values and keys are invalid. */
static void scan_end(Scan *scan)
{
    if (scan->values != scan->few) {
        free(scan->values);
    }
}

static bool make_room(Scan *scan)
{
    size_t room = 2 * scan->room; /* no overflow: a body has at least one byte per document */
    size_t parts = (size_t)scan->rule->parts;
    Text *values = malloc(room * (1 + parts) * sizeof(Text));
    if (values == NULL) {
        scan->has_no_memory = true;
        return false;
    }
    memcpy(values, scan->values, scan->count * sizeof(Text));
    memcpy(values + room, scan->keys, scan->count * parts * sizeof(Text));
    scan_end(scan);
    scan->values = values;
    scan->keys = values + room;
    scan->room = room;
    return true;
}

/* True if the key of the last document is too long. Its parts are all in the body, so their sum
 * does not overflow. */
static bool has_long_key(const Scan *scan)
{
    size_t bytes = 0;
    for (int i = 0; i < scan->rule->parts; i++) {
        bytes += scan->key[i].bytes + (i > 0);
    }
    return bytes > scan->max_key_bytes;
}

/* Keep the bytes between as the value of the last document. */
static bool keep(Scan *scan, const uint8_t *begin, const uint8_t *end)
{
    size_t bytes = (size_t)(end - begin);
    const Pointers *rule = scan->rule;
    if (scan->count == scan->most || bytes > scan->max_value_bytes ||
        (scan->seen & rule->ends) != rule->ends || has_long_key(scan) || (scan->has_high && !is_utf8(begin, end)) ||
        (scan->count == scan->room && !make_room(scan))) {
        return false;
    }
    size_t parts = (size_t)rule->parts;
    memcpy(scan->keys + scan->count * parts, scan->key, parts * sizeof(Text));
    scan->values[scan->count++] = (Text){begin, bytes};
    return true;
}

static void scan_begin(Scan *scan, const uint8_t *end, const Pointers *rule, int max_depth,
                       size_t max_value_bytes, size_t max_key_bytes, size_t most)
{
    scan->end = end;
    scan->skip_plain = fastest_skip();
    scan->has_escape = false;
    scan->max_depth = max_depth;
    scan->rule = rule;
    scan->max_value_bytes = max_value_bytes;
    scan->max_key_bytes = max_key_bytes;
    scan->room = 2 * FEW / (1 + (size_t)rule->parts);
    scan->values = scan->few;
    scan->keys = scan->few + scan->room;
    scan->count = 0;
    scan->most = most;
    scan->has_no_memory = false;
}

/* One of the three following ways to cut a body. */
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
