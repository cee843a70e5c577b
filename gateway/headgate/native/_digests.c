// Digests of the names and contents that idempotency compares (see plain.py), for the
// compiled build: the digest of an event in a batch costs less than hashlib's object for it.

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <string.h>

#include "_blake2_rounds.h"

enum { PERSON = 16 };
static const Py_ssize_t AT_ONCE = 65536; // for longer texts other threads may run meanwhile

// A digest under construction. The last block is known only at the end, so a full block waits.
struct hashing {
    uint64_t state[8];
    uint64_t hashed;
    size_t filled;
    uint8_t block[BLAKE2_BLOCK];
};

static void begin(struct hashing *one, const uint8_t person[PERSON])
{
    memcpy(one->state, BLAKE2_IV, sizeof one->state);
    one->state[0] ^= 0x01010000 ^ BLAKE2_DIGEST;
    one->state[6] ^= blake2_load(person);
    one->state[7] ^= blake2_load(person + 8);
    one->hashed = 0;
    one->filled = 0;
}

static void add(struct hashing *one, const uint8_t *at, size_t bytes)
{
    while (bytes > 0) {
        if (one->filled == BLAKE2_BLOCK) {
            blake2_compress(one->state, one->block, one->hashed += BLAKE2_BLOCK, false);
            one->filled = 0;
        }
        if (one->filled == 0) {
            for (; bytes > BLAKE2_BLOCK; at += BLAKE2_BLOCK, bytes -= BLAKE2_BLOCK)
                blake2_compress(one->state, at, one->hashed += BLAKE2_BLOCK, false);
        }
        size_t room = BLAKE2_BLOCK - one->filled;
        size_t more = bytes < room ? bytes : room;
        memcpy(one->block + one->filled, at, more);
        one->filled += more;
        at += more;
        bytes -= more;
    }
}

static PyObject *ended(struct hashing *one)
{
    uint8_t digest[BLAKE2_DIGEST];
    memset(one->block + one->filled, 0, BLAKE2_BLOCK - one->filled);
    blake2_compress(one->state, one->block, one->hashed + one->filled, true);
    for (int i = 0; i < BLAKE2_DIGEST; i++)
        digest[i] = (uint8_t)(one->state[i / 8] >> 8 * (i % 8));
    return PyBytes_FromStringAndSize((const char *)digest, BLAKE2_DIGEST);
}

// Add a part after its length. 0: it is no bytes object, or too long.
static int add_part(struct hashing *one, PyObject *part)
{
    if (!PyBytes_Check(part) || (uint64_t)PyBytes_GET_SIZE(part) > UINT32_MAX)
        return 0;
    uint32_t bytes = (uint32_t)PyBytes_GET_SIZE(part);
    uint8_t length[4] = {bytes >> 24, bytes >> 16 & 0xff, bytes >> 8 & 0xff, bytes & 0xff};
    add(one, length, sizeof length);
    add(one, (const uint8_t *)PyBytes_AS_STRING(part), bytes);
    return 1;
}

static PyObject *wrong(void)
{
    PyErr_SetString(PyExc_TypeError, "digested(person: bytes up to 16, parts: list of bytes, tail: bytes)");
    return NULL;
}

static PyObject *digested(PyObject *module, PyObject *const *arguments, Py_ssize_t count)
{
    (void)module;
    if (count != 3 || !PyBytes_Check(arguments[0]) || PyBytes_GET_SIZE(arguments[0]) > PERSON)
        return wrong();
    if (!PyList_Check(arguments[1]) || !PyBytes_Check(arguments[2]))
        return wrong();
    uint8_t person[PERSON] = {0};
    memcpy(person, PyBytes_AS_STRING(arguments[0]), (size_t)PyBytes_GET_SIZE(arguments[0]));
    struct hashing one;
    begin(&one, person);
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(arguments[1]); i++) {
        if (!add_part(&one, PyList_GET_ITEM(arguments[1], i)))
            return wrong();
    }
    const uint8_t *tail = (const uint8_t *)PyBytes_AS_STRING(arguments[2]);
    Py_ssize_t bytes = PyBytes_GET_SIZE(arguments[2]);
    if (bytes <= AT_ONCE) {
        add(&one, tail, (size_t)bytes);
    } else {
        Py_BEGIN_ALLOW_THREADS
        add(&one, tail, (size_t)bytes);
        Py_END_ALLOW_THREADS
    }
    return ended(&one);
}

static PyMethodDef methods[] = {
    {"digested", (PyCFunction)(void (*)(void))digested, METH_FASTCALL, "See plain.py."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "headgate.native._digests", "Digests of names and contents.", -1, methods,
    NULL, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__digests(void)
{
#ifdef BLAKE2_WIDE
    (void)blake2_widest; // one text cannot be digested in parallel
#endif
    return PyModule_Create(&definition);
}
