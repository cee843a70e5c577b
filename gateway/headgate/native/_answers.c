// The JSON text of a successful event (see reply.py), for the compiled build.
//
// A fast path: if a text has a character that JSON escapes or that is not ASCII, or if it is too
// long to be repeated in full, it returns None, and reply.py writes the text.

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdbool.h>
#include <string.h>

#include "_decimal.h"

enum { MOST_SHOWN = 200 }; // bytes of a key or an event id; MAX_SHOWN in plain_answers.py

typedef struct {
    const char *begin;
    Py_ssize_t size;
} Text;

static char *put(char *at, const char *text, Py_ssize_t size)
{
    memcpy(at, text, (size_t)size);
    return at + size;
}

#define PUT(at, literal) put((at), (literal), sizeof(literal) - 1)

// True if JSON writes the character without an escape.
static bool is_plain(Text text)
{
    for (Py_ssize_t index = 0; index < text.size; index++) {
        unsigned char sign = (unsigned char)text.begin[index];
        if (sign < 0x20 || sign > 0x7e || sign == '"' || sign == '\\')
            return false;
    }
    return true;
}

// The characters of an ASCII string.
static bool ascii(PyObject *object, Text *text)
{
    if (!PyUnicode_Check(object) || !PyUnicode_IS_COMPACT_ASCII(object))
        return false;
    text->begin = (const char *)PyUnicode_1BYTE_DATA(object);
    text->size = PyUnicode_GET_LENGTH(object);
    return true;
}

// A key or an event id; NULL for None.
static bool plain(PyObject *object, Text *text)
{
    *text = (Text){NULL, 0};
    if (object == Py_None)
        return true;
    if (PyBytes_Check(object))
        *text = (Text){PyBytes_AS_STRING(object), PyBytes_GET_SIZE(object)};
    else if (!ascii(object, text))
        return false;
    return text->size <= MOST_SHOWN && is_plain(*text);
}

typedef struct {
    Text head, key, event_id;
    long long partition, offset, records;
} Shown;

static const char SHARED[] =
    ",\"partition\":,\"offset\":,\"key\":\"\",\"event_id\":\"null\",\"records\":}";

static char *write_shown(char *at, const Shown *shown)
{
    at = put(at, shown->head.begin, shown->head.size);
    at = put_decimal(PUT(at, ",\"partition\":"), shown->partition);
    at = put_decimal(PUT(at, ",\"offset\":"), shown->offset);
    if (shown->key.begin) {
        at = put(PUT(at, ",\"key\":\""), shown->key.begin, shown->key.size);
        at = PUT(at, "\"");
    }
    if (shown->event_id.begin) {
        at = put(PUT(at, ",\"event_id\":\""), shown->event_id.begin, shown->event_id.size);
        at = PUT(at, "\"");
    } else {
        at = PUT(at, ",\"event_id\":null");
    }
    at = put_decimal(PUT(at, ",\"records\":"), shown->records);
    return PUT(at, "}");
}

static bool number(PyObject *object, long long *found)
{
    *found = PyLong_AsLongLong(object);
    return *found != -1 || !PyErr_Occurred();
}

static PyObject *shown(PyObject *module, PyObject *const *given, Py_ssize_t count)
{
    (void)module;
    Shown one;
    if (count != 6) {
        PyErr_SetString(PyExc_TypeError, "shown(head, partition, offset, key, event_id, records)");
        return NULL;
    }
    if (!number(given[1], &one.partition) || !number(given[2], &one.offset) ||
        !number(given[5], &one.records))
        return NULL;
    if (!ascii(given[0], &one.head) || !plain(given[3], &one.key) || !plain(given[4], &one.event_id))
        Py_RETURN_NONE;
    Py_ssize_t most = PY_SSIZE_T_MAX / 8; // three texts in memory together are smaller
    if (one.head.size > most || one.key.size > most || one.event_id.size > most)
        Py_RETURN_NONE;
    Py_ssize_t size = one.head.size + one.key.size + one.event_id.size + (Py_ssize_t)sizeof(SHARED) +
                      3 * MOST_DIGITS;
    char small[512];
    char *begin = size <= (Py_ssize_t)sizeof(small) ? small : PyMem_Malloc((size_t)size);
    if (!begin)
        return PyErr_NoMemory();
    Py_ssize_t written = write_shown(begin, &one) - begin;
    PyObject *text = PyUnicode_New(written, 127);
    if (text)
        memcpy(PyUnicode_1BYTE_DATA(text), begin, (size_t)written);
    if (begin != small)
        PyMem_Free(begin);
    return text;
}

static PyMethodDef methods[] = {
    {"shown", (PyCFunction)(void (*)(void))shown, METH_FASTCALL,
     "The JSON text of an event that ended well, or None."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "headgate.native._answers", "The JSON text of answers.", -1, methods,
    NULL, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__answers(void)
{
    return PyModule_Create(&definition);
}
