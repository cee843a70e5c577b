/* The parts of a batch's record: their sizes, and their bytes. */
#ifndef HEADGATE_RECORD_H
#define HEADGATE_RECORD_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum { MOST_VARINT = 10 };

/* Bytes with another owner. count: -1 = null. */
typedef struct {
    const char *bytes;
    Py_ssize_t count;
} Span;

typedef struct {
    Span name, value;
} Header;

/* The parts of a record, and its length once measured. */
typedef struct {
    Span key, value;
    const Header *headers;
    Py_ssize_t header_count;
    int64_t timestamp_ms, timestamp_delta;
    uint64_t length;
} Record;

/* ---- numbers */

/* Small numbers of either sign take few bytes: 0, -1, 1, -2 ... become 0, 1, 2, 3 ... */
static inline uint64_t zigzag(int64_t number) {
    return ((uint64_t)number << 1) ^ (number < 0 ? UINT64_MAX : 0);
}

static inline uint64_t varint_size(int64_t number) {
    uint64_t size = 1;
    for (uint64_t left = zigzag(number); left > 0x7F; left >>= 7)
        size++;
    return size;
}

static inline char *put_varint(char *to, int64_t number) {
    uint64_t left = zigzag(number);
    for (; left > 0x7F; left >>= 7)
        *to++ = (char)(left | 0x80);
    *to++ = (char)left;
    return to;
}

static inline uint64_t span_size(Span span) {
    return varint_size(span.count) + (span.count > 0 ? (uint64_t)span.count : 0);
}

static inline char *put_span(char *to, Span span) {
    to = put_varint(to, span.count);
    if (span.count > 0) {
        memcpy(to, span.bytes, (size_t)span.count);
        to += span.count;
    }
    return to;
}

/* ---- a record's parts */

/* A key or value: an object with bytes, or None. The caller must release `view`. */
static int borrow(PyObject *object, Py_buffer *view, Span *span) {
    if (object == Py_None) {
        *span = (Span){NULL, -1};
        return 0;
    }
    if (PyBytes_CheckExact(object)) {
        *span = (Span){PyBytes_AS_STRING(object), PyBytes_GET_SIZE(object)};
        return 0;
    }
    if (PyObject_GetBuffer(object, view, PyBUF_SIMPLE) < 0)
        return -1;
    *span = (Span){view->buf, view->len};
    return 0;
}

/* (name, value): a str, and bytes or None. */
static int read_header(PyObject *pair, Header *header) {
    if (!PyTuple_CheckExact(pair)) {
        PyErr_SetString(PyExc_TypeError, "a header is a tuple of its name and its value");
        return -1;
    }
    if (PyTuple_GET_SIZE(pair) != 2) {
        PyErr_SetString(PyExc_ValueError, "a header has a name and a value");
        return -1;
    }
    PyObject *name = PyTuple_GET_ITEM(pair, 0), *value = PyTuple_GET_ITEM(pair, 1);
    if (!PyUnicode_CheckExact(name) || !(value == Py_None || PyBytes_CheckExact(value))) {
        PyErr_SetString(PyExc_TypeError, "a header's name is a str, its value bytes or None");
        return -1;
    }
    header->name.bytes = PyUnicode_AsUTF8AndSize(name, &header->name.count);
    if (header->name.bytes == NULL)
        return -1;
    return borrow(value, NULL, &header->value);
}

#endif
