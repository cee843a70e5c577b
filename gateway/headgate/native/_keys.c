/* Kafka's hash of keys for Python (see plain.py), for the compiled build. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "_murmur2.h"

static PyObject *hashed(PyObject *module, PyObject *key)
{
    (void)module;
    if (!PyBytes_Check(key)) {
        return PyErr_Format(PyExc_TypeError, "a key is bytes, not %.100s", Py_TYPE(key)->tp_name);
    }
    Text text = {(const uint8_t *)PyBytes_AS_STRING(key), (size_t)PyBytes_GET_SIZE(key)};
    uint32_t hash = murmur2(text);
    return PyLong_FromLongLong(hash & 0x80000000 ? (long long)hash - 0x100000000LL : (long long)hash);
}

static PyMethodDef methods[] = {
    {"murmur2", hashed, METH_O, "murmur2(key)\n--\n\nKafka's murmur2, a signed 32-bit integer."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "headgate.native._keys", "Kafka's hash of keys.", -1, methods,
    NULL, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__keys(void)
{
    return PyModule_Create(&definition);
}
