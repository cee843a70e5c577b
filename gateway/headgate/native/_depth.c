/* The depth of JSON (see plain.py), for the compiled build. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

static PyObject *is_too_deep(PyObject *module, PyObject *arguments)
{
    const char *at;
    Py_ssize_t bytes, limit;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "y#n:is_too_deep", &at, &bytes, &limit)) {
        return NULL;
    }
    const char *const end = at + bytes;
    Py_ssize_t depth = 0;
    int is_text = 0;
    for (; at < end; at++) {
        switch (*at) {
        case '"':
            is_text = !is_text;
            break;
        case '\\': /* an escaped character never ends a text */
            if (at + 1 < end && (at[1] == '\\' || at[1] == '"')) {
                at++;
            }
            break;
        case '[':
        case '{':
            if (!is_text && ++depth > limit) {
                Py_RETURN_TRUE;
            }
            break;
        case ']':
        case '}':
            depth -= !is_text;
            break;
        default:
            break;
        }
    }
    Py_RETURN_FALSE;
}

static PyMethodDef methods[] = {
    {"is_too_deep", is_too_deep, METH_VARARGS,
     "is_too_deep(document, limit)\n--\n\nWhether arrays and objects nest deeper than limit."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "headgate.native._depth", "The depth of JSON.", -1, methods,
    NULL, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__depth(void)
{
    return PyModule_Create(&definition);
}
