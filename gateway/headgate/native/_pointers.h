/* JSON Pointers as a tree of names, from tuples of Python. Only _scanner.c includes this file. */
#ifndef HEADGATE_POINTERS_H
#define HEADGATE_POINTERS_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "_json_strings.h"

static Text text_of(PyObject *bytes)
{
    return (Text){(const uint8_t *)PyBytes_AS_STRING(bytes), (size_t)PyBytes_GET_SIZE(bytes)};
}

/* Return a name's step in the value of `parent`, perhaps another pointer's. NO_STEP: no room. */
static int add_step(Pointers *pointers, int parent, Text name)
{
    for (int i = 0; i < pointers->count; i++) {
        const Step *step = &pointers->steps[i];
        if (step->parent == parent && step->name.bytes == name.bytes &&
            memcmp(step->name.at, name.at, name.bytes) == 0) {
            return i;
        }
    }
    if (pointers->count == MOST_STEPS) {
        return NO_STEP;
    }
    pointers->steps[pointers->count] = (Step){name, parent, ON_THE_WAY};
    return pointers->count++;
}

/* Add the steps of a pointer (a tuple of its names) to one more part; return whether it fits. */
static bool add_pointer(Pointers *pointers, PyObject *pointer, int most)
{
    Py_ssize_t names = PyTuple_Check(pointer) ? PyTuple_GET_SIZE(pointer) : 0;
    int step = DOCUMENT;
    bool is_new = false;
    for (Py_ssize_t i = 0; i < names; i++) {
        PyObject *name = PyTuple_GET_ITEM(pointer, i);
        int before = pointers->count;
        if (!PyBytes_Check(name) || (step != DOCUMENT && pointers->ends >> step & 1)) {
            return false;
        }
        step = add_step(pointers, step, text_of(name));
        if (step == NO_STEP) {
            return false;
        }
        is_new = pointers->count > before;
    }
    if (!is_new || pointers->parts == most) {
        return false; /* another pointer is the same, or begins with it */
    }
    pointers->steps[step].part = pointers->parts++;
    pointers->ends |= 1u << step;
    return true;
}

/* given: a tuple of at most `most` pointers, which must outlive them. False: an exception. */
static bool take_pointers(Pointers *pointers, PyObject *given, int most)
{
    memset(pointers, 0, sizeof *pointers);
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(given); i++) {
        if (!add_pointer(pointers, PyTuple_GET_ITEM(given, i), most)) {
            PyErr_Format(PyExc_ValueError, "no pointers that are read here: %R", given);
            return false;
        }
    }
    return true;
}

#endif
