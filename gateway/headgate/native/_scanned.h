/* The results of a scan as Python objects. Only _scanner.c includes this file. */
#ifndef HEADGATE_SCANNED_H
#define HEADGATE_SCANNED_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "_blake2.h"
#include "_canonical.h"
#include "_json.h" /* needs a zero after the body, which a bytes object has (PyBytes_AsString) */
#include "_murmur2.h"
#include "_pointers.h"

/* A topic's rules. */
typedef struct {
    PyObject_HEAD
    PyObject *pointers, *ignore; /* owners of the rules' names; ignore: NULL without forms */
    Pointers rule, ignored;
    uint32_t partitions;
    int max_depth;
    size_t max_value_bytes, max_key_bytes;
    size_t max_form_bytes; /* longer documents have no form here */
    bool has_digests;      /* of values, or of canonical forms with `ignore` */
    Blake2Start start;
} Scanner;

/* A value that is the full body is not copied. */
static PyObject *bytes_of(Text text, PyObject *body)
{
    if (text.bytes == (size_t)PyBytes_GET_SIZE(body) && PyBytes_CheckExact(body)) {
        return Py_NewRef(body);
    }
    return PyBytes_FromStringAndSize((const char *)text.at, (Py_ssize_t)text.bytes);
}

/* A list of `count` new objects, or NULL with an exception. */
#define LIST_OF(list, count, item)                                                                \
    PyObject *list = PyList_New((Py_ssize_t)(count));                                             \
    for (size_t i = 0; list != NULL && i < (count); i++) {                                        \
        PyObject *made = (item);                                                                  \
        if (made == NULL) {                                                                       \
            Py_CLEAR(list);                                                                       \
        } else {                                                                                  \
            PyList_SET_ITEM(list, (Py_ssize_t)i, made);                                           \
        }                                                                                         \
    }

static PyObject *list_of_bytes(const Text *texts, size_t count, PyObject *body)
{
    LIST_OF(list, count, bytes_of(texts[i], body))
    return list;
}

/* Join the parts of a key (model/keys.py, join_parts). */
static PyObject *key_of(const Text *parts, size_t count, PyObject *body)
{
    if (count == 1) {
        return bytes_of(parts[0], body);
    }
    size_t bytes = count - 1;
    for (size_t i = 0; i < count; i++) {
        bytes += parts[i].bytes;
    }
    PyObject *key = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)bytes);
    char *at = key == NULL ? NULL : PyBytes_AS_STRING(key);
    for (size_t i = 0; at != NULL && i < count; i++) {
        if (i > 0) {
            *at++ = ':';
        }
        memcpy(at, parts[i].at, parts[i].bytes);
        at += parts[i].bytes;
    }
    return key;
}

static PyObject *list_of_keys(const Scan *scan, PyObject *body)
{
    size_t parts = (size_t)scan->rule->parts;
    LIST_OF(list, scan->count, key_of(scan->keys + i * parts, parts, body))
    return list;
}

static PyObject *list_of_partitions(const Scanner *scanner, PyObject *keys)
{
    LIST_OF(list, (size_t)PyList_GET_SIZE(keys),
            PyLong_FromUnsignedLong(
                (murmur2(text_of(PyList_GET_ITEM(keys, (Py_ssize_t)i))) & 0x7fffffff) %
                scanner->partitions))
    return list;
}

/* has_digest: 1 for each document with a text, in order; NULL: all documents have one. */
static PyObject *list_of_digests(const Blake2Start *start, const Text *texts, size_t texts_count,
                                 const uint8_t *has_digest, size_t count)
{
    uint8_t few[FEW * BLAKE2_DIGEST];
    uint8_t *digests = texts_count <= FEW ? few : PyMem_New(uint8_t, texts_count * BLAKE2_DIGEST);
    const char *next = (const char *)digests;
    if (digests == NULL) {
        return PyErr_NoMemory();
    }
    blake2_many(start, texts, texts_count, digests);
    LIST_OF(list, count,
            has_digest != NULL && !has_digest[i]
                ? Py_NewRef(Py_None)
                : PyBytes_FromStringAndSize((next += BLAKE2_DIGEST) - BLAKE2_DIGEST, BLAKE2_DIGEST))
    if (digests != few) {
        PyMem_Free(digests);
    }
    return list;
}

static PyObject *digests_of(const Scanner *scanner, Scan *scan)
{
    if (!scanner->has_digests) {
        return Py_NewRef(Py_None);
    }
    if (scanner->ignore == NULL) {
        return list_of_digests(&scanner->start, scan->values, scan->count, NULL, scan->count);
    }
    Forms forms;
    if (!write_forms(&forms, scan, &scanner->ignored, scanner->max_form_bytes)) {
        return PyErr_NoMemory();
    }
    PyObject *list = list_of_digests(&scanner->start, forms.texts, forms.count, forms.has_form,
                                     scan->count);
    forms_end(&forms);
    return list;
}

/* Put a part, or NULL, into the result; return whether there is one. */
static bool put(PyObject *all, Py_ssize_t place, PyObject *part)
{
    PyTuple_SET_ITEM(all, place, part);
    return part != NULL;
}

static PyObject *scanned(const Scanner *scanner, Scan *scan, PyObject *body)
{
    size_t count = scan->count;
    bool has_keys = scan->rule->parts > 0;
    PyObject *all = PyTuple_New(4);
    if (all != NULL &&
        !(put(all, 0, list_of_bytes(scan->values, count, body)) &&
          put(all, 1, has_keys ? list_of_keys(scan, body) : Py_NewRef(Py_None)) &&
          put(all, 2, has_keys ? list_of_partitions(scanner, PyTuple_GET_ITEM(all, 1))
                               : Py_NewRef(Py_None)) &&
          put(all, 3, digests_of(scanner, scan)))) {
        Py_CLEAR(all);
    }
    return all;
}

#endif
