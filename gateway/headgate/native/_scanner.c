/* Reads a body of JSON documents in one pass: cuts it, validates it, finds keys, digests values.
 *
 * A fast accept and nothing else. Whatever is unusual in any document ends the pass with None, and
 * the Python path (core/formats/decode.py, core/formats/jsontext.py, core/topics/route.py) decides and explains. What is
 * accepted, that path would have read just the same; tests/unit/native/test_scanner.py compares the two.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "_blake2.h"
#include "_json.h" /* wants a zero after the body: a bytes object has it (PyBytes_AsString) */

/* A topic's rules. */
typedef struct {
    PyObject_HEAD
    PyObject *member; /* bytes, or NULL: no key rule */
    uint32_t partitions;
    int max_depth;
    size_t max_value_bytes;
    bool has_digests;
    Blake2Start start;
} Scanner;

/* ---- What Python gets */

static uint32_t load_32(const uint8_t *at)
{
    return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

/* Kafka's murmur2, as in core/keys.py. */
static uint32_t murmur2(Text key)
{
    const uint32_t multiplier = 0x5bd1e995;
    uint32_t hash = 0x9747b28c ^ (uint32_t)key.bytes;
    for (; key.bytes >= 4; key.at += 4, key.bytes -= 4) {
        uint32_t word = load_32(key.at) * multiplier;
        word ^= word >> 24;
        hash = hash * multiplier ^ word * multiplier;
    }
    if (key.bytes > 0) {
        for (size_t i = 0; i < key.bytes; i++) {
            hash ^= (uint32_t)key.at[i] << 8 * i;
        }
        hash *= multiplier;
    }
    hash ^= hash >> 13;
    hash *= multiplier;
    return hash ^ hash >> 15;
}

static Text text_of(PyObject *bytes)
{
    return (Text){(const uint8_t *)PyBytes_AS_STRING(bytes), (size_t)PyBytes_GET_SIZE(bytes)};
}

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

static PyObject *list_of_partitions(const Scanner *scanner, const Text *keys, size_t count)
{
    LIST_OF(list, count,
            PyLong_FromUnsignedLong((murmur2(keys[i]) & 0x7fffffff) % scanner->partitions))
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
    bool has_keys = scan->has_member;
    PyObject *all = PyTuple_New(4);
    if (all != NULL &&
        !(put(all, 0, list_of_bytes(scan->values, count, body)) &&
          put(all, 1, has_keys ? list_of_bytes(scan->keys, count, body) : Py_NewRef(Py_None)) &&
          put(all, 2, has_keys ? list_of_partitions(scanner, scan->keys, count)
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
    Text member = {NULL, 0}, text = text_of(body);
    if (scanner->member != NULL) {
        member = text_of(scanner->member);
    }
    Scan scan; /* not cleared: it is large */
    scan_begin(&scan, text.at + text.bytes, member, scanner->max_depth, scanner->max_value_bytes,
               most);
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

static bool is_bytes_or_none(PyObject *given, const char *name)
{
    if (given != Py_None && !PyBytes_Check(given)) {
        PyErr_Format(PyExc_TypeError, "%s is bytes or None", name);
        return false;
    }
    return true;
}

static bool take_digest_key(Scanner *scanner, PyObject *key, PyObject *prefix)
{
    scanner->has_digests = key != Py_None;
    if (!scanner->has_digests) {
        return true;
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
    static char *names[] = {"member", "partitions", "max_depth", "max_value_bytes",
                            "digest_key", "digest_prefix", NULL};
    PyObject *member, *digest_key, *digest_prefix = NULL;
    Py_ssize_t partitions, max_depth, max_value_bytes;
    if (!PyArg_ParseTupleAndKeywords(given, named, "OnnnO|S:Scanner", names, &member, &partitions,
                                     &max_depth, &max_value_bytes, &digest_key, &digest_prefix) ||
        !is_bytes_or_none(member, "member") || !is_bytes_or_none(digest_key, "digest_key")) {
        return NULL;
    }
    if (partitions < 1 || partitions > INT32_MAX) {
        return PyErr_Format(PyExc_ValueError, "%zd partitions", partitions);
    }
    Scanner *scanner = (Scanner *)type->tp_alloc(type, 0); /* cleared */
    if (scanner == NULL) {
        return NULL;
    }
    scanner->member = member == Py_None ? NULL : Py_NewRef(member);
    scanner->partitions = (uint32_t)partitions;
    scanner->max_depth = max_depth < 0 ? 0 : max_depth > MOST_DEPTH ? MOST_DEPTH : (int)max_depth;
    scanner->max_value_bytes = max_value_bytes < 0 ? 0 : (size_t)max_value_bytes;
    if (!take_digest_key(scanner, digest_key, digest_prefix)) {
        Py_CLEAR(scanner);
    }
    return (PyObject *)scanner;
}

static void scanner_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    Py_XDECREF(((Scanner *)self)->member);
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
