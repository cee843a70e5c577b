/* The canonical forms of documents (model/content.py): names sorted, no blanks, some
 * members left out.
 *
 * Only a fast path: it writes exactly the bytes that `canonical` returns, or leaves the document to
 * `canonical`. It leaves documents that parsing could change or refuse, or that need more than
 * copies: a name with an escape, an escape or a number that would be written in another way, two
 * members of one name, a pointer's name with an array, great depth, very many members.
 *
 * All documents here were accepted by _json.h: their tokens are right, and the zero after a body is
 * there (see _json.h). A form is never longer than its document. So it is written to a buffer of
 * that size, plus WIDE bytes for copies of fixed width.
 *
 * Only _scanner.c includes this file, which does not use Python.
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
        way = NO_STEP; /* leave all of it out */
    }
    if (bracket == '[' && way != NO_STEP) {
        return false; /* a pointer may go on with an element's number */
    }
    *form->to++ = bracket;
    *++form->open = (Open){bracket + 2, false, way, form->count, form->to};
    form->step = NO_STEP;
    return true;
}

/* Copy the member's name at `at`; return the position of its value. */
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
        return NULL; /* names are sorted without escapes */
    }
    member->name_bytes = (uint32_t)(at - name) - 1;
    if (open->way != NO_STEP) {
        form->step = step_of(form->ignore, open->way, name, member->name_bytes);
    }
    if (form->step != NO_STEP) {
        uint32_t bit = 1u << form->step;
        if (form->seen & bit) {
            return NULL; /* the first one may be left out already, but only the last one counts */
        }
        form->seen |= bit;
        open->leaves_out = form->ignore->ends & bit;
    }
    *form->to++ = ':';
    at = skip_blanks(form->scan, at);
    return skip_blanks(form->scan, at + 1);
}

/* End the member whose value has ended. */
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

/* Go on after a value: to its next sibling, or to that of a parent that ends with it. When the
 * document has ended, nothing is open. */
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

/* Write the form of the document at `at`; return whether it has one here. */
static bool write_form(Form *form, const uint8_t *at)
{
    form->open = form->all_open; /* the first entry stays unused */
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

/* The forms of a body's documents that have one. */
typedef struct {
    Text *texts;      /* the forms */
    size_t count;
    uint8_t *has_form; /* for each document: 1 if it has a form */
    void *memory;
} Forms;

static void forms_end(Forms *forms)
{
    free(forms->memory);
}

/* Write the forms of the scanned documents of up to `most` bytes. False: no memory. */
static bool write_forms(Forms *forms, Scan *scan, const Pointers *ignore, size_t most)
{
    size_t all = 0, longest = 0;
    for (size_t i = 0; i < scan->count; i++) {
        size_t bytes = scan->values[i].bytes;
        all += bytes <= most ? bytes : 0;
        longest = bytes <= most && bytes > longest ? bytes : longest;
    }
    /* no overflow: a body has at least one byte per document */
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
