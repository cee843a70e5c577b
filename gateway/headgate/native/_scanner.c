/* Reads a body of JSON documents in one pass: cuts it, validates it, finds keys, digests values.
 *
 * A fast accept and nothing else. Whatever is unusual in any document ends the pass with None, and
 * the Python path (core/formats/decode.py, core/formats/jsontext.py, core/topics/route.py) decides and explains. What is
 * accepted, that path would have read just the same; tests/unit/native/test_scanner.py compares the two.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "_blake2.h"
#include "_key_rule.h"
#include "_murmur2.h"
#include "_json.h" /* wants a zero after the body: a bytes object has it (PyBytes_AsString) */

/* A topic's rules. */
typedef struct {
    PyObject_HEAD
    PyObject *pointers; /* whose names are the rule's */
    KeyRule rule;
    uint32_t partitions;
    int max_depth;
    size_t max_value_bytes;
    bool has_digests;
    Blake2Start start;
} Scanner;

/* ---- What Python gets */

/* The whole body is not copied. */
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

/* The key of these parts (core/keys.py, join_parts). */
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

static PyObject *list_of_digests(const Scanner *scanner, const Text *values, size_t count)
{
    uint8_t few[FEW * BLAKE2_DIGEST];
    uint8_t *digests = count <= FEW ? few : PyMem_New(uint8_t, count * BLAKE2_DIGEST);
    if (digests == NULL) {
        return PyErr_NoMemory();
    }
    blake2_many(&scanner->start, values, count, digests);
    LIST_OF(list, count,
            PyBytes_FromStringAndSize((const char *)digests + BLAKE2_DIGEST * i, BLAKE2_DIGEST))
    if (digests != few) {
        PyMem_Free(digests);
    }
    return list;
}

/* Puts a part into the answer, NULL too. Whether there is one. */
static bool put(PyObject *all, Py_ssize_t place, PyObject *part)
{
    PyTuple_SET_ITEM(all, place, part);
    return part != NULL;
}

static PyObject *scanned(const Scanner *scanner, const Scan *scan, PyObject *body)
{
    size_t count = scan->count;
    bool has_keys = scan->rule->parts > 0;
    PyObject *all = PyTuple_New(4);
    if (all != NULL &&
        !(put(all, 0, list_of_bytes(scan->values, count, body)) &&
          put(all, 1, has_keys ? list_of_keys(scan, body) : Py_NewRef(Py_None)) &&
          put(all, 2, has_keys ? list_of_partitions(scanner, PyTuple_GET_ITEM(all, 1))
                               : Py_NewRef(Py_None)) &&
          put(all, 3, scanner->has_digests ? list_of_digests(scanner, scan->values, count)
                                           : Py_NewRef(Py_None)))) {
        Py_CLEAR(all);
    }
    return all;
}

static PyObject *scan_body(const Scanner *scanner, PyObject *body, size_t most, Cut *cut)
{
    if (!PyBytes_Check(body)) {
        return PyErr_Format(PyExc_TypeError, "a body is bytes, not %.100s",
                            Py_TYPE(body)->tp_name);
    }
    Text text = text_of(body);
    Scan scan; /* not cleared: it is large */
    scan_begin(&scan, text.at + text.bytes, &scanner->rule, scanner->max_depth,
               scanner->max_value_bytes, most);
    PyObject *found = NULL;
    if (cut(&scan, text.at) && scan.count > 0) {
        found = scanned(scanner, &scan, body);
    } else if (scan.has_no_memory) {
        PyErr_NoMemory();
    } else {
        found = Py_NewRef(Py_None);
    }
    scan_end(&scan);
    return found;
}

/* ---- The class */

static PyObject *scan_batch(PyObject *self, PyObject *const *given, Py_ssize_t count, Cut *cut)
{
    if (count != 2) {
        return PyErr_Format(PyExc_TypeError, "takes (body, most), not %zd arguments", count);
    }
    Py_ssize_t most = PyNumber_AsSsize_t(given[1], NULL); /* cut off at what fits */
    if (most == -1 && PyErr_Occurred()) {
        return NULL;
    }
    return scan_body((Scanner *)self, given[0], most > 0 ? (size_t)most : 0, cut);
}

static PyObject *scanner_lines(PyObject *self, PyObject *const *given, Py_ssize_t count)
{
    return scan_batch(self, given, count, scan_lines);
}

static PyObject *scanner_elements(PyObject *self, PyObject *const *given, Py_ssize_t count)
{
    return scan_batch(self, given, count, scan_elements);
}

static PyObject *scanner_one(PyObject *self, PyObject *body)
{
    return scan_body((Scanner *)self, body, 1, scan_one);
}

static bool take_digest_key(Scanner *scanner, PyObject *key, PyObject *prefix)
{
    scanner->has_digests = key != Py_None;
    if (!scanner->has_digests) {
        return true;
    }
    if (!PyBytes_Check(key)) {
        PyErr_SetString(PyExc_TypeError, "digest_key is bytes or None");
        return false;
    }
    if (PyBytes_GET_SIZE(key) > BLAKE2_MOST_KEY) {
        PyErr_SetString(PyExc_ValueError, "digest_key is longer than 64 bytes");
        return false;
    }
    Text nothing = {NULL, 0};
    blake2_begin(&scanner->start, text_of(key), prefix == NULL ? nothing : text_of(prefix));
    return true;
}

static PyObject *scanner_new(PyTypeObject *type, PyObject *given, PyObject *named)
{
    static char *names[] = {"pointers", "partitions", "max_depth", "max_value_bytes",
                            "digest_key", "digest_prefix", NULL};
    PyObject *pointers, *digest_key, *digest_prefix = NULL;
    Py_ssize_t partitions, max_depth, max_value_bytes;
    if (!PyArg_ParseTupleAndKeywords(given, named, "O!nnnO|S:Scanner", names, &PyTuple_Type,
                                     &pointers, &partitions, &max_depth, &max_value_bytes,
                                     &digest_key, &digest_prefix)) {
        return NULL;
    }
    if (partitions < 1 || partitions > INT32_MAX) {
        return PyErr_Format(PyExc_ValueError, "%zd partitions", partitions);
    }
    Scanner *scanner = (Scanner *)type->tp_alloc(type, 0); /* cleared */
    if (scanner == NULL) {
        return NULL;
    }
    scanner->pointers = Py_NewRef(pointers);
    scanner->partitions = (uint32_t)partitions;
    scanner->max_depth = max_depth < 0 ? 0 : max_depth > MOST_DEPTH ? MOST_DEPTH : (int)max_depth;
    scanner->max_value_bytes = max_value_bytes < 0 ? 0 : (size_t)max_value_bytes;
    if (!take_key_rule(&scanner->rule, pointers) ||
        !take_digest_key(scanner, digest_key, digest_prefix)) {
        Py_CLEAR(scanner);
    }
    return (PyObject *)scanner;
}

static void scanner_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    Py_XDECREF(((Scanner *)self)->pointers);
    type->tp_free(self);
    Py_DECREF(type); /* each object of a type made at run time holds it */
}

static PyMethodDef METHODS[] = {
    {"lines", (PyCFunction)(void (*)(void))scanner_lines, METH_FASTCALL,
     "lines(body, most)\n--\n\nThe documents of an NDJSON body, or None."},
    {"elements", (PyCFunction)(void (*)(void))scanner_elements, METH_FASTCALL,
     "elements(body, most)\n--\n\nThe documents of a JSON array of objects, or None."},
    {"one", scanner_one, METH_O,
     "one(body)\n--\n\nThe one JSON object that the body is, or None."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot SLOTS[] = {
    {Py_tp_doc, "Reads bodies of JSON documents by the rules of one topic."},
    {Py_tp_new, scanner_new},
    {Py_tp_dealloc, scanner_dealloc},
    {Py_tp_methods, METHODS},
    {0, NULL},
};

static PyType_Spec SPEC = {
    .name = "headgate.native._scanner.Scanner",
    .basicsize = sizeof(Scanner),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = SLOTS,
};

static int add_class(PyObject *module)
{
    PyObject *type = PyType_FromModuleAndSpec(module, &SPEC, NULL);
    int result = type == NULL ? -1 : PyModule_AddType(module, (PyTypeObject *)type);
    Py_XDECREF(type);
    return result;
}

static PyModuleDef_Slot MODULE_SLOTS[] = {
    {Py_mod_exec, add_class},
    {0, NULL},
};

static PyModuleDef MODULE = {
    PyModuleDef_HEAD_INIT,
    .m_name = "headgate.native._scanner",
    .m_doc = "Reads bodies of JSON documents in one pass (see the source, _scanner.c).",
    .m_slots = MODULE_SLOTS,
};

PyMODINIT_FUNC PyInit__scanner(void)
{
    return PyModuleDef_Init(&MODULE);
}
