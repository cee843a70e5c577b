// The framing of HTTP requests in received bytes, and the values that each request has alone
// (see plain.py), for the compiled build.
//
// It recognizes seven header names, in any case, and one shape of values. A head with one of these
// names and another shape takes the slow path. All other headers stay in the text, which must equal
// that of a head that aiohttp has accepted.

#define _GNU_SOURCE // memmem
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <string.h>

enum { HEAD_MAX = 4096, VALUE_MAX = 128, LENGTH_DIGITS = 9 };

// The first one is the length.
static const char *const NAMES[] = {
    "content-length", "x-request-id",       "traceparent",
    "headgate-key",   "headgate-event-id",  "headgate-timestamp", "idempotency-key",
};
enum { NAME_COUNT = sizeof NAMES / sizeof *NAMES };
static PyObject *names[NAME_COUNT];

// Return the beginning of the text after "<name>: ", or NULL. Letters may be capitals.
static const char *behind_name(const char *at, const char *end, const char *name)
{
    for (; *name; name++, at++) {
        if (at == end)
            return NULL;
        if (*at != *name && !(*name >= 'a' && *at == *name - ('a' - 'A')))
            return NULL;
    }
    if (at == end || *at++ != ':')
        return NULL;
    return at < end && *at == ' ' ? at + 1 : at;
}

// Return the end of a value of visible ASCII that fills the rest of its line, or NULL. end: of the
// last line, with its line break.
static const char *value_end(const char *at, const char *end)
{
    const char *begin = at;
    while (at < end && *at >= '!' && *at <= '~')
        at++;
    if (at == begin || at - begin > VALUE_MAX || end - at < 2 || at[0] != '\r' || at[1] != '\n')
        return NULL;
    return at;
}

// Return the number of the digits, or -1.
static Py_ssize_t length_of(const char *at, Py_ssize_t digits)
{
    Py_ssize_t length = digits > 0 && digits <= LENGTH_DIGITS ? 0 : -1;
    for (Py_ssize_t i = 0; i < digits && length >= 0; i++)
        length = at[i] >= '0' && at[i] <= '9' ? length * 10 + (at[i] - '0') : -1;
    return length;
}

// The result so far: `same` has `filled` bytes of the head, up to `kept`.
struct found {
    char same[HEAD_MAX];
    Py_ssize_t filled;
    const char *kept;
    PyObject *own;
    Py_ssize_t length; // -1: not seen yet
};

static void keep(struct found *found, const char *end)
{
    memcpy(found->same + found->filled, found->kept, (size_t)(end - found->kept));
    found->filled += end - found->kept;
}

// Take a value. 1: it was taken.  0: the head takes the slow path.  -1: an error.
static int take(struct found *found, int name, const char *value, const char *end)
{
    keep(found, value);
    found->kept = end;
    if (name == 0) {
        if (found->length >= 0)
            return 0;
        found->length = length_of(value, end - value);
        return found->length >= 0;
    }
    int is_known = PyDict_Contains(found->own, names[name]);
    if (is_known)
        return is_known < 0 ? -1 : 0;
    PyObject *text = PyBytes_FromStringAndSize(value, end - value);
    int state = text ? PyDict_SetItem(found->own, names[name], text) : -1;
    Py_XDECREF(text);
    return state < 0 ? -1 : 1;
}

// As `take`, for all lines that end before `end`. No such value may stay in the head, because the
// head would look like one whose value was removed.
static int take_values(struct found *found, const char *begin, const char *end)
{
    for (const char *at = begin; (at = memchr(at, '\r', (size_t)(end - at)));) {
        if (end - ++at < 1 || *at != '\n')
            continue;
        at++;
        for (int name = 0; name < NAME_COUNT; name++) {
            const char *value = behind_name(at, end, NAMES[name]);
            if (!value)
                continue;
            const char *stop = value_end(value, end);
            if (!stop)
                return 0;
            int state = take(found, name, value, stop);
            if (state != 1)
                return state;
            at = stop;
            break;
        }
    }
    return 1;
}

static PyObject *framed(PyObject *module, PyObject *data)
{
    (void)module;
    if (!PyBytes_Check(data)) {
        PyErr_SetString(PyExc_TypeError, "framed(data: bytes)");
        return NULL;
    }
    const char *begin = PyBytes_AS_STRING(data);
    Py_ssize_t size = PyBytes_GET_SIZE(data);
    const char *stop = memmem(begin, (size_t)(size < HEAD_MAX ? size : HEAD_MAX), "\r\n\r\n", 4);
    if (!stop)
        Py_RETURN_NONE;
    struct found found = {.filled = 0, .kept = begin, .own = PyDict_New(), .length = -1};
    if (!found.own)
        return NULL;
    int state = take_values(&found, begin, stop + 2);
    PyObject *result = NULL;
    if (state == 1 && found.length >= 0) {
        keep(&found, stop);
        Py_ssize_t start = stop + 4 - begin;
        result = Py_BuildValue("y#Onn", found.same, found.filled, found.own, start, start + found.length);
    }
    else if (state >= 0)
        result = Py_NewRef(Py_None);
    Py_DECREF(found.own);
    return result;
}

static PyMethodDef methods[] = {
    {"framed", framed, METH_O, "Where a request lies, and the values that are its own."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "headgate.native._heads", "Heads of requests.", -1, methods,
    NULL, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__heads(void)
{
    for (int name = 0; name < NAME_COUNT; name++) {
        names[name] = PyBytes_FromString(NAMES[name]);
        if (!names[name])
            return NULL;
    }
    return PyModule_Create(&definition);
}
