// Redis commands as bytes (see plain.py), for the compiled build.
//
// A call of the suppression script has some 300 arguments. They are measured first and written into
// one object of exactly that size.

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <string.h>

#include "_decimal.h"

// Write "$<length>\r\n<text>\r\n", or return a bound of its size if `at` is NULL.
static Py_ssize_t write_text(char *at, const char *text, Py_ssize_t length)
{
    if (!at)
        return 1 + MOST_DIGITS + 2 + length + 2;
    char *begin = at;
    *at++ = '$';
    at = put_decimal(at, length);
    memcpy(at, "\r\n", 2);
    memcpy(at + 2, text, (size_t)length);
    at += 2 + length;
    memcpy(at, "\r\n", 2);
    return at + 2 - begin;
}

// Write one argument, or return a bound of its size if `at` is NULL. -1: not bytes or a small int.
static Py_ssize_t write_argument(char *at, PyObject *argument)
{
    if (PyBytes_Check(argument))
        return write_text(at, PyBytes_AS_STRING(argument), PyBytes_GET_SIZE(argument));
    if (!PyLong_Check(argument)) {
        PyErr_SetString(PyExc_TypeError, "an argument of a command is bytes or an int");
        return -1;
    }
    long long number = PyLong_AsLongLong(argument);
    if (number == -1 && PyErr_Occurred())
        return -1;
    char digits[MOST_DIGITS];
    return write_text(at, digits, put_decimal(digits, number) - digits);
}

// Write the command, or return a bound of its size if `begin` is NULL. The arguments are only
// bytes and ints, and reading them runs no foreign code: nothing changes between the two calls.
static Py_ssize_t write_command(char *begin, PyObject *name, PyObject *const *items, Py_ssize_t count)
{
    Py_ssize_t size = 1 + MOST_DIGITS + 2;
    if (begin) {
        *begin = '*';
        size = put_decimal(begin + 1, count + 1) - begin;
        memcpy(begin + size, "\r\n", 2);
        size += 2;
    }
    for (Py_ssize_t index = -1; index < count; index++) {
        PyObject *argument = index < 0 ? name : items[index];
        Py_ssize_t more = write_argument(begin ? begin + size : NULL, argument);
        if (more < 0)
            return -1;
        if (size > PY_SSIZE_T_MAX - more) {
            PyErr_NoMemory();
            return -1;
        }
        size += more;
    }
    return size;
}

static PyObject *packed(PyObject *module, PyObject *const *given, Py_ssize_t count)
{
    (void)module;
    if (count != 2 || !PyBytes_Check(given[0])) {
        PyErr_SetString(PyExc_TypeError, "packed(name: bytes, arguments)");
        return NULL;
    }
    PyObject *arguments = PySequence_Tuple(given[1]); // an own tuple: no other code changes it
    if (!arguments)
        return NULL;
    PyObject **items = &PyTuple_GET_ITEM(arguments, 0);
    Py_ssize_t size = write_command(NULL, given[0], items, PyTuple_GET_SIZE(arguments));
    PyObject *command = size < 0 ? NULL : PyBytes_FromStringAndSize(NULL, size);
    if (command) {
        char *begin = PyBytes_AS_STRING(command);
        size = write_command(begin, given[0], items, PyTuple_GET_SIZE(arguments));
        _PyBytes_Resize(&command, size); // sets it to NULL on failure
    }
    Py_DECREF(arguments);
    return command;
}

static PyMethodDef methods[] = {
    {"packed", (PyCFunction)(void (*)(void))packed, METH_FASTCALL, "A command as bytes."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "headgate.native._resp", "Redis commands as bytes.", -1, methods,
    NULL, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__resp(void)
{
    return PyModule_Create(&definition);
}
