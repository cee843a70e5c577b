/* The header of Kafka's record batch, magic 2: written, updated after compression, sealed. */
#ifndef HEADGATE_BATCH_H
#define HEADGATE_BATCH_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdint.h>
#include <string.h>

#include "_crc32c.h"

/* Offsets of its fields. The length counts the bytes after it; the checksum begins with the
 * attributes, whose lowest bits are the codec. */
enum {
    LENGTH_AT = 8,
    AFTER_LENGTH = 12,
    CRC_AT = 17,
    ATTRIBUTES_AT = 21,
    PRODUCER_AT = 43,
    BATCH_HEADER = 61,
};

/* Big-endian. */
static char *put_big_endian(char *to, int bytes, uint64_t number) {
    for (int at = bytes - 1; at >= 0; at--, number >>= 8)
        to[at] = (char)(number & 0xFF);
    return to + bytes;
}

/* All fields but the producer and the checksum, for uncompressed records. */
static void put_header(char *to, Py_ssize_t size, int count, int64_t first_ms, int64_t max_ms) {
    to = put_big_endian(to, 8, 0); /* base offset: set by the broker */
    to = put_big_endian(to, 4, (uint64_t)(size - AFTER_LENGTH));
    to = put_big_endian(to, 4, UINT32_MAX); /* leader epoch: set by the broker */
    to = put_big_endian(to, 1, 2);          /* magic */
    to = put_big_endian(to, 4, 0);          /* checksum */
    to = put_big_endian(to, 2, 0);          /* attributes: not compressed, no transaction */
    to = put_big_endian(to, 4, (uint64_t)(count > 0 ? count - 1 : 0)); /* last offset */
    to = put_big_endian(to, 8, (uint64_t)first_ms);
    to = put_big_endian(to, 8, (uint64_t)max_ms);
    to = put_big_endian(to, 8, 0); /* producer id, epoch, base sequence */
    to = put_big_endian(to, 2, 0);
    to = put_big_endian(to, 4, 0);
    put_big_endian(to, 4, (uint64_t)count);
}

static int is_batch(PyObject *batch) {
    if (PyByteArray_GET_SIZE(batch) >= BATCH_HEADER)
        return 1;
    PyErr_SetString(PyExc_ValueError, "shorter than the header of a batch");
    return 0;
}

PyDoc_STRVAR(with_body_doc,
"with_body(batch, codec, body, /)\n--\n\n"
"The header of a batch, and its records compressed.");

static PyObject *with_body(PyObject *Py_UNUSED(module), PyObject *arguments) {
    PyObject *batch, *whole = NULL;
    unsigned char codec;
    Py_buffer body;
    if (!PyArg_ParseTuple(arguments, "O!by*:with_body", &PyByteArray_Type, &batch, &codec, &body))
        return NULL;
    if (body.len > INT32_MAX - BATCH_HEADER)
        PyErr_SetString(PyExc_ValueError, "a batch is shorter than 2 GiB");
    else if (is_batch(batch))
        whole = PyByteArray_FromStringAndSize(NULL, BATCH_HEADER + body.len);
    if (whole != NULL) {
        char *to = PyByteArray_AS_STRING(whole);
        memcpy(to, PyByteArray_AS_STRING(batch), BATCH_HEADER);
        put_big_endian(to + LENGTH_AT, 4, (uint64_t)(BATCH_HEADER + body.len - AFTER_LENGTH));
        put_big_endian(to + ATTRIBUTES_AT, 2, codec);
        if (body.len > 0)
            memcpy(to + BATCH_HEADER, body.buf, (size_t)body.len);
    }
    PyBuffer_Release(&body);
    return whole;
}

PyDoc_STRVAR(seal_doc,
"seal(batch, producer_id, epoch, base_sequence, /)\n--\n\n"
"Write what is known last: who produces it, and the checksum over all that follows it.");

static PyObject *seal(PyObject *Py_UNUSED(module), PyObject *arguments) {
    PyObject *batch;
    long long producer_id;
    short epoch;
    int base_sequence;
    if (!PyArg_ParseTuple(arguments, "O!Lhi:seal", &PyByteArray_Type, &batch, &producer_id, &epoch,
                          &base_sequence) ||
        !is_batch(batch))
        return NULL;
    char *start = PyByteArray_AS_STRING(batch), *to = start + PRODUCER_AT;
    to = put_big_endian(to, 8, (uint64_t)producer_id);
    to = put_big_endian(to, 2, (uint64_t)epoch);
    put_big_endian(to, 4, (uint64_t)base_sequence);
    size_t behind = (size_t)(PyByteArray_GET_SIZE(batch) - ATTRIBUTES_AT);
    put_big_endian(start + CRC_AT, 4, crc32c(start + ATTRIBUTES_AT, behind));
    Py_RETURN_NONE;
}

#endif
