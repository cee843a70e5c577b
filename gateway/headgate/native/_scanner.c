/* A scanner of bodies of JSON documents in one pass: cuts, validates, finds keys, digests values.
 *
 * Only a fast path. An unusual document ends the pass with None, and the Python path
 * (formats/decode.py, formats/json_text.py, model/route.py) decides and explains.
 * For accepted bodies that path has the same result; tests/unit/native/test_scanner.py compares
 * both. Digests are of the values or, if the topic compares them, of their canonical forms
 * (_canonical.h). An unusual form only leaves out the document's digest.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "_scanned.h"

static PyObject *scan_body(const Scanner *scanner, PyObject *body, size_t most, Cut *cut)
{
    if (!PyBytes_Check(body)) {
        return PyErr_Format(PyExc_TypeError, "a body is bytes, not %.100s",
                            Py_TYPE(body)->tp_name);
    }
    Text text = text_of(body);
    Scan scan; /* not cleared: it is large */
    scan_begin(&scan, text.at + text.bytes, &scanner->rule, scanner->max_depth,
               scanner->max_value_bytes, scanner->max_key_bytes, most);
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
    Py_ssize_t most = PyNumber_AsSsize_t(given[1], NULL); /* clipped to its range */
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

/* ignore: the pointers of canonical forms; None without forms. */
static bool take_forms(Scanner *scanner, PyObject *ignore, Py_ssize_t max_form_bytes)
{
    if (ignore == NULL || ignore == Py_None) {
        return true;
    }
    if (!PyTuple_Check(ignore)) {
        PyErr_SetString(PyExc_TypeError, "ignore is a tuple or None");
        return false;
    }
    scanner->ignore = Py_NewRef(ignore);
    scanner->max_form_bytes = max_form_bytes < 0           ? 0
                              : max_form_bytes > INT32_MAX ? INT32_MAX
                                                           : (size_t)max_form_bytes;
    return take_pointers(&scanner->ignored, ignore, MOST_STEPS);
}

static PyObject *scanner_new(PyTypeObject *type, PyObject *given, PyObject *named)
{
    static char *names[] = {"pointers", "partitions", "max_depth", "max_value_bytes",
                            "digest_key", "digest_prefix", "ignore", "max_form_bytes", "max_key_bytes",
                            NULL};
    PyObject *pointers, *digest_key, *digest_prefix = NULL, *ignore = NULL;
    Py_ssize_t partitions, max_depth, max_value_bytes, max_form_bytes = 0;
    Py_ssize_t max_key_bytes = PY_SSIZE_T_MAX;
    if (!PyArg_ParseTupleAndKeywords(given, named, "O!nnnO|SOnn:Scanner", names, &PyTuple_Type,
                                     &pointers, &partitions, &max_depth, &max_value_bytes,
                                     &digest_key, &digest_prefix, &ignore, &max_form_bytes,
                                     &max_key_bytes)) {
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
    scanner->max_key_bytes = max_key_bytes < 0 ? 0 : (size_t)max_key_bytes;
    if (!take_pointers(&scanner->rule, pointers, MOST_PARTS) ||
        !take_digest_key(scanner, digest_key, digest_prefix) ||
        !take_forms(scanner, ignore, max_form_bytes)) {
        Py_CLEAR(scanner);
    }
    return (PyObject *)scanner;
}

static void scanner_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    Py_XDECREF(((Scanner *)self)->pointers);
    Py_XDECREF(((Scanner *)self)->ignore);
    type->tp_free(self);
    Py_DECREF(type); /* each object of a heap type has a reference to it */
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
