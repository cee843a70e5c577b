/* A topic's key rule, from the JSON Pointers that Python gives. Included by _scanner.c alone. */
#ifndef HEADGATE_KEY_RULE_H
#define HEADGATE_KEY_RULE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "_json_strings.h"

static Text text_of(PyObject *bytes)
{
    return (Text){(const uint8_t *)PyBytes_AS_STRING(bytes), (size_t)PyBytes_GET_SIZE(bytes)};
}

/* A name's step in the value of `parent`; another pointer may have it already. NO_STEP: no room. */
static int add_step(KeyRule *rule, int parent, Text name)
{
    for (int i = 0; i < rule->count; i++) {
        const Step *step = &rule->steps[i];
        if (step->parent == parent && step->name.bytes == name.bytes &&
            memcmp(step->name.at, name.at, name.bytes) == 0) {
            return i;
        }
    }
    if (rule->count == MOST_STEPS) {
        return NO_STEP;
    }
    rule->steps[rule->count] = (Step){name, parent, ON_THE_WAY};
    return rule->count++;
}

/* Whether the pointer (a tuple of its names) has become steps to one more part of the key. */
static bool add_pointer(KeyRule *rule, PyObject *pointer)
{
    Py_ssize_t names = PyTuple_Check(pointer) ? PyTuple_GET_SIZE(pointer) : 0;
    int step = DOCUMENT;
    bool is_new = false;
    for (Py_ssize_t i = 0; i < names; i++) {
        PyObject *name = PyTuple_GET_ITEM(pointer, i);
        int before = rule->count;
        if (!PyBytes_Check(name) || (step != DOCUMENT && rule->ends >> step & 1)) {
            return false;
        }
        step = add_step(rule, step, text_of(name));
        if (step == NO_STEP) {
            return false;
        }
        is_new = rule->count > before;
    }
    if (!is_new || rule->parts == MOST_PARTS) {
        return false; /* it is where another one is, or on the way to it */
    }
    rule->steps[step].part = rule->parts++;
    rule->ends |= 1u << step;
    return true;
}

/* pointers: a tuple, empty where there is no key rule. It must outlive the rule. False: with an
 * exception. */
static bool take_key_rule(KeyRule *rule, PyObject *pointers)
{
    memset(rule, 0, sizeof *rule);
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(pointers); i++) {
        if (!add_pointer(rule, PyTuple_GET_ITEM(pointers, i))) {
            PyErr_Format(PyExc_ValueError, "no key rule that is read here: %R", pointers);
            return false;
        }
    }
    return true;
}

#endif
