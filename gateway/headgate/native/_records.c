/* Kafka's record batch, magic 2 (org.apache.kafka.common.record.DefaultRecordBatch), uncompressed:
 * each record is measured, then written at once behind those before it.
 *
 * The bytes and the limit of a batch are those of aiokafka's DefaultRecordBatchBuilder, which makes
 * many small Python objects for a record. One difference: aiokafka gives a first record without a
 * timestamp (-1) the timestamp of the next one. Producer and checksum are written at the end
 * (`_batch.h`); the compression between is in `plain.py`.
 *
 * Bounds: foreign code (an object that exports a buffer, or that acts as an integer) runs only
 * before the record is measured, never between measuring and writing.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "_batch.h"
#include "_record.h"

enum { FIRST_ROOM = 1024 };
/* Lengths are 32 bits in the protocol; with its batch header a record must stay below that. */
static const uint64_t MOST_RECORD = INT32_MAX - BATCH_HEADER - MOST_VARINT;
static const int64_t NO_TIMESTAMP = -1;

typedef struct {
    PyObject_HEAD
    PyObject *batch;  /* a bytearray of `room` bytes, of which `size` are written; NULL: taken */
    Py_ssize_t room, size, max_bytes;
    int count;
    int64_t first_timestamp_ms, max_timestamp_ms;
    Header *headers;  /* of the current record; room for `header_room` */
    Py_ssize_t header_room;
} Records;

/* ---- a record's headers */

static int make_room_for_headers(Records *self, Py_ssize_t count) {
    if (count <= self->header_room)
        return 0;
    size_t bytes = (size_t)count * sizeof(Header); /* a list has less than 2^60 items */
    Header *headers = PyMem_Realloc(self->headers, bytes);
    if (headers == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    self->headers = headers;
    self->header_room = count;
    return 0;
}

static int read_headers(Records *self, PyObject *list, Record *record) {
    if (!PyList_CheckExact(list)) {
        PyErr_SetString(PyExc_TypeError, "headers are a list");
        return -1;
    }
    record->header_count = PyList_GET_SIZE(list);
    if (make_room_for_headers(self, record->header_count) < 0)
        return -1;
    for (Py_ssize_t at = 0; at < record->header_count; at++)
        if (read_header(PyList_GET_ITEM(list, at), &self->headers[at]) < 0)
            return -1;
    record->headers = self->headers;
    return 0;
}

/* ---- measuring and writing */

static int too_long(void) {
    PyErr_SetString(PyExc_ValueError, "a record is shorter than 2 GiB");
    return -1;
}

/* Measure the record, without the varint of its length. */
static int measure(const Records *self, Record *record) {
    uint64_t first = (uint64_t)self->first_timestamp_ms, now = (uint64_t)record->timestamp_ms;
    /* The first timestamp may be -1: a record without one. */
    record->timestamp_delta = self->count == 0 ? 0 : (int64_t)(now - first);
    uint64_t length = 1 + varint_size(record->timestamp_delta) + varint_size(self->count);
    /* Each is below 2^63, so that no sum of two overflows. */
    length += span_size(record->key);
    if (length > MOST_RECORD || (length += span_size(record->value)) > MOST_RECORD)
        return too_long();
    length += varint_size(record->header_count);
    for (Py_ssize_t at = 0; at < record->header_count; at++) {
        length += span_size(record->headers[at].name);
        if (length > MOST_RECORD)
            return too_long();
        length += span_size(record->headers[at].value);
        if (length > MOST_RECORD)
            return too_long();
    }
    record->length = length;
    return 0;
}

/* Grow by doubling, but never beyond the limit of a batch. */
static int make_room(Records *self, Py_ssize_t needed) {
    if (needed <= self->room)
        return 0;
    Py_ssize_t room = self->room > PY_SSIZE_T_MAX / 2 ? needed : self->room * 2;
    if (room > self->max_bytes)
        room = self->max_bytes;
    if (room < needed)
        room = needed;
    if (PyByteArray_Resize(self->batch, room) < 0)
        return -1;
    self->room = room;
    return 0;
}

static char *put_record(char *to, const Records *self, const Record *record) {
    to = put_varint(to, (int64_t)record->length);
    *to++ = 0; /* attributes: none are defined */
    to = put_varint(to, record->timestamp_delta);
    to = put_varint(to, self->count);
    to = put_span(to, record->key);
    to = put_span(to, record->value);
    to = put_varint(to, record->header_count);
    for (Py_ssize_t at = 0; at < record->header_count; at++) {
        to = put_span(to, record->headers[at].name);
        to = put_span(to, record->headers[at].value);
    }
    return to;
}

static void count_record(Records *self, const Record *record, Py_ssize_t size) {
    if (self->count == 0)
        self->first_timestamp_ms = self->max_timestamp_ms = record->timestamp_ms;
    if (self->max_timestamp_ms < record->timestamp_ms)
        self->max_timestamp_ms = record->timestamp_ms;
    self->size += size;
    self->count++;
}

/* 1: added; 0: full; -1: an error. After 0 and -1 the batch is unchanged. */
static int add(Records *self, Record *record, PyObject *headers) {
    if (self->batch == NULL) {
        PyErr_SetString(PyExc_ValueError, "the batch was taken");
        return -1;
    }
    if (read_headers(self, headers, record) < 0 || measure(self, record) < 0)
        return -1;
    uint64_t size = varint_size((int64_t)record->length) + record->length;
    if (self->count > 0 && (uint64_t)self->size + size >= (uint64_t)self->max_bytes)
        return 0;
    if (make_room(self, self->size + (Py_ssize_t)size) < 0)
        return -1;
    put_record(PyByteArray_AS_STRING(self->batch) + self->size, self, record);
    count_record(self, record, (Py_ssize_t)size);
    return 1;
}

/* ---- the type */

PyDoc_STRVAR(append_doc,
"append(timestamp_ms, key, value, headers, /)\n--\n\n"
"Add a record. False: the batch is full and as it was; the first record always fits.");

static PyObject *Records_append(Records *self, PyObject *const *arguments, Py_ssize_t count) {
    if (count != 4) {
        PyErr_SetString(PyExc_TypeError, "append takes timestamp_ms, key, value and headers");
        return NULL;
    }
    Record record = {.timestamp_ms = PyLong_AsLongLong(arguments[0])};
    if (record.timestamp_ms == -1 && PyErr_Occurred())
        return NULL;
    Py_buffer key = {0}, value = {0};
    int added = -1;
    if (borrow(arguments[1], &key, &record.key) == 0) {
        if (borrow(arguments[2], &value, &record.value) == 0)
            added = add(self, &record, arguments[3]);
        PyBuffer_Release(&value);
    }
    PyBuffer_Release(&key);
    return added < 0 ? NULL : PyBool_FromLong(added);
}

PyDoc_STRVAR(take_doc,
"take()\n--\n\n"
"Give the batch away: its header, without producer and checksum, and the records.");

static PyObject *Records_take(Records *self, PyObject *Py_UNUSED(nothing)) {
    if (self->batch == NULL) {
        PyErr_SetString(PyExc_ValueError, "the batch was taken");
        return NULL;
    }
    if (PyByteArray_Resize(self->batch, self->size) < 0)
        return NULL;
    self->room = self->size;
    put_header(PyByteArray_AS_STRING(self->batch), self->size, self->count,
               self->first_timestamp_ms, self->max_timestamp_ms);
    PyObject *batch = self->batch;
    self->batch = NULL;
    return batch;
}

static PyObject *Records_new(PyTypeObject *type, PyObject *arguments, PyObject *named) {
    static char *names[] = {"max_bytes", NULL};
    Py_ssize_t max_bytes;
    if (!PyArg_ParseTupleAndKeywords(arguments, named, "n:Records", names, &max_bytes))
        return NULL;
    Records *self = (Records *)type->tp_alloc(type, 0);
    if (self == NULL)
        return NULL;
    self->max_bytes = max_bytes < 0 ? 0 : max_bytes > INT32_MAX ? INT32_MAX : max_bytes;
    self->first_timestamp_ms = self->max_timestamp_ms = NO_TIMESTAMP;
    self->size = BATCH_HEADER;
    self->room = FIRST_ROOM;
    self->batch = PyByteArray_FromStringAndSize(NULL, FIRST_ROOM);
    if (self->batch == NULL)
        Py_CLEAR(self);
    return (PyObject *)self;
}

static void Records_dealloc(Records *self) {
    PyTypeObject *type = Py_TYPE(self);
    Py_XDECREF(self->batch);
    PyMem_Free(self->headers);
    type->tp_free(self);
    Py_DECREF(type);
}

static PyObject *Records_count(Records *self, void *Py_UNUSED(nothing)) {
    return PyLong_FromLong(self->count);
}

static PyObject *Records_size(Records *self, void *Py_UNUSED(nothing)) {
    return PyLong_FromSsize_t(self->size);
}

static PyMethodDef methods[] = {
    {"append", (PyCFunction)(void (*)(void))Records_append, METH_FASTCALL, append_doc},
    {"take", (PyCFunction)Records_take, METH_NOARGS, take_doc},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef attributes[] = {
    {"count", (getter)Records_count, NULL, "how many records", NULL},
    {"size", (getter)Records_size, NULL, "bytes of the batch, with its header", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

PyDoc_STRVAR(records_doc,
"Records(max_bytes)\n--\n\n"
"A record batch under construction.  max_bytes: of the batch, with its header.");

static PyType_Slot slots[] = {
    {Py_tp_doc, (void *)records_doc}, {Py_tp_new, Records_new},
    {Py_tp_dealloc, Records_dealloc}, {Py_tp_methods, methods},
    {Py_tp_getset, attributes},       {0, NULL},
};

static PyType_Spec records_spec = {
    .name = "headgate.native._records.Records",
    .basicsize = sizeof(Records),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = slots,
};

static PyMethodDef functions[] = {
    {"with_body", with_body, METH_VARARGS, with_body_doc},
    {NULL, NULL, 0, NULL},
};

static PyMethodDef sealing[] = {
    {"seal", seal, METH_VARARGS, seal_doc},
    {NULL, NULL, 0, NULL},
};

static int fill_module(PyObject *module) {
    if (crc32c_is_there() && PyModule_AddFunctions(module, sealing) < 0)
        return -1;
    PyObject *type = PyType_FromModuleAndSpec(module, &records_spec, NULL);
    if (type == NULL)
        return -1;
    int added = PyModule_AddType(module, (PyTypeObject *)type);
    Py_DECREF(type);
    return added;
}

static PyModuleDef_Slot module_slots[] = {
    {Py_mod_exec, fill_module},
    {0, NULL},
};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT,
    .m_name = "headgate.native._records",
    .m_doc = "Kafka's record batches, encoded at once.",
    .m_methods = functions,
    .m_slots = module_slots,
};

PyMODINIT_FUNC PyInit__records(void) {
    return PyModuleDef_Init(&module);
}
