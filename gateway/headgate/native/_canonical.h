/* The canonical forms of documents (core/formats/canonical.py): names sorted, no blanks, some
 * members left out.
 *
 * A fast accept and nothing else: it writes the very bytes that `canonical` returns, or leaves a
 * document to it. Left is what parsing could change or refuse, and what takes more than copying: a
 * name with an escape, an escape or a number that would be written otherwise, two members of one
 * name, a pointer's name with an array, great depth, very many members.
 *
 * Only documents come here that _json.h has accepted: their tokens are right, and what it says of
 * the zero behind a body holds here, too. A form is never longer than its document, so it is
 * written to room of that size, and WIDE bytes for copies of fixed width.
 *
 * Included by _scanner.c alone; nothing here knows Python.
 */
#ifndef HEADGATE_CANONICAL_H
#define HEADGATE_CANONICAL_H

#include "_canonical_tokens.h"

/* ---- Arrays and objects */

static bool open_bracket(Form *form, uint8_t bracket)
{
    int way = form->step;
    if (form->open == form->all_open + MOST_OPEN) {
        return false;
    }
    if (way >= 0 && form->ignore->steps[way].part != ON_THE_WAY) {
        way = NO_STEP; /* all of it is left out */
    }
    if (bracket == '[' && way != NO_STEP) {
        return false; /* a pointer may go on with an element's number */
    }
    *form->to++ = bracket;
    *++form->open = (Open){bracket + 2, false, way, form->count, form->to};
    form->step = NO_STEP;
    return true;
}

/* The member's name at `at`, up to its value. */
static const uint8_t *copy_name(Form *form, const uint8_t *at)
{
    Open *open = form->open;
    const uint8_t *name = at + 1;
    if (form->count == MOST_MEMBERS) {
        return NULL;
    }
    if (form->to > open->begin) {
        *form->to++ = ',';
    }
    Member *member = &form->members[form->count++];
    member->begin = (uint32_t)(form->to - form->form);
    at = copy_string(form, at);
    if (at == NULL || form->scan->has_escape) {
        return NULL; /* names are sorted as they are without escapes */
    }
    member->name_bytes = (uint32_t)(at - name) - 1;
    if (open->way != NO_STEP) {
        form->step = step_of(form->ignore, open->way, name, member->name_bytes);
    }
    if (form->step != NO_STEP) {
        uint32_t bit = 1u << form->step;
        if (form->seen & bit) {
            return NULL; /* the first one may be left out already, and only the last one counts */
        }
        form->seen |= bit;
        open->leaves_out = form->ignore->ends & bit;
    }
    *form->to++ = ':';
    at = skip_blanks(form->scan, at);
    return skip_blanks(form->scan, at + 1);
}

/* The member whose value has ended. */
static inline void end_member(Form *form, Open *open)
{
    Member *member = &form->members[form->count - 1];
    if (open->leaves_out) {
        form->count--;
        form->to = form->form + member->begin;
        form->to -= form->to > open->begin; /* the comma */
        open->leaves_out = false;
    } else {
        member->end = (uint32_t)(form->to - form->form);
    }
}

static bool close_bracket(Form *form)
{
    Open *open = form->open;
    int count = form->count - open->first;
    if (count > 1 && !arrange(form->form, form->members + open->first, count, form->aside)) {
        return false;
    }
    form->count = open->first;
    *form->to++ = open->end;
    form->open--;
    return true;
}

/* After a value: its next sibling, or that of what ends with it. When the document has ended,
 * nothing is open. */
static const uint8_t *copy_ends(Form *form, const uint8_t *at)
{
    for (;;) {
        Open *open = form->open;
        bool is_object = open->end == '}';
        if (is_object && form->count > open->first) {
            end_member(form, open);
        }
        if (*at == ',') {
            if (!is_object) {
                *form->to++ = ',';
            }
            return skip_blanks(form->scan, at + 1);
        }
        if (!close_bracket(form)) {
            return NULL;
        }
        at++;
        if (form->open == form->all_open) {
            return at;
        }
        at = skip_blanks(form->scan, at);
    }
}

/* Whether the form of the document at `at` has been written. */
static bool write_form(Form *form, const uint8_t *at)
{
    form->open = form->all_open; /* its first place stays empty */
    form->to = form->form;
    form->count = 0;
    form->step = DOCUMENT;
    form->seen = 0;
    for (;;) { /* at: a value, the document first */
        bool has_child = false;
        if (*at == '{' || *at == '[') {
            if (!open_bracket(form, *at)) {
                return false;
            }
            at = skip_blanks(form->scan, at + 1);
            has_child = *at != form->open->end;
        } else {
            form->step = NO_STEP;
            at = copy_scalar(form, at);
            if (at == NULL) {
                return false;
            }
            at = skip_blanks(form->scan, at);
        }
        if (!has_child) {
            at = copy_ends(form, at);
            if (at == NULL || form->open == form->all_open) {
                return at != NULL;
            }
        }
        if (form->open->end == '}') {
            at = copy_name(form, at);
            if (at == NULL) {
                return false;
            }
        }
    }
}

/* ---- Bodies */

/* The forms of a body's documents, as many as have one. */
typedef struct {
    Text *texts;      /* those that there are */
    size_t count;
    uint8_t *has_form; /* of each document: whether it has one */
    void *memory;
} Forms;

static void forms_end(Forms *forms)
{
    free(forms->memory);
}

/* The documents that were scanned, but for those of more than `most` bytes. False: no memory. */
static bool write_forms(Forms *forms, Scan *scan, const Pointers *ignore, size_t most)
{
    size_t all = 0, longest = 0;
    for (size_t i = 0; i < scan->count; i++) {
        size_t bytes = scan->values[i].bytes;
        all += bytes <= most ? bytes : 0;
        longest = bytes <= most && bytes > longest ? bytes : longest;
    }
    /* far from overflowing: a body has a byte or more for each document */
    uint8_t *memory = malloc(scan->count * (sizeof(Text) + 1) + all + longest + 2 * WIDE);
    if (memory == NULL) {
        return false;
    }
    *forms = (Forms){(Text *)memory, 0, memory + scan->count * sizeof(Text), memory};
    Form form; /* not cleared: it is large */
    form.scan = scan;
    form.ignore = ignore;
    form.form = forms->has_form + scan->count;
    form.aside = form.form + all + WIDE;
    for (size_t i = 0; i < scan->count; i++) {
        Text value = scan->values[i];
        forms->has_form[i] = value.bytes <= most && write_form(&form, skip_blanks(scan, value.at));
        if (forms->has_form[i]) {
            size_t bytes = (size_t)(form.to - form.form);
            forms->texts[forms->count++] = (Text){form.form, bytes};
            form.form += bytes;
        }
    }
    return true;
}

#endif
