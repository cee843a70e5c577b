/* The members of an object, in the order of canonical forms: by the bytes of their names.
 *
 * They are in the form already, in the order of the document. Only _canonical.h includes this file,
 * which does not use Python.
 */
#ifndef HEADGATE_CANONICAL_MEMBERS_H
#define HEADGATE_CANONICAL_MEMBERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* `"name":value`: its position in the form, in bytes from the beginning. */
typedef struct {
    uint32_t begin, end, name_bytes;
} Member;

enum { MOST_MEMBERS = 256 }; /* of all open objects of a document together */

/* Compare as memcmp, which for UTF-8 is the order of code points. */
static inline int compare_names(const uint8_t *form, const Member *one, const Member *other)
{
    size_t shorter = one->name_bytes < other->name_bytes ? one->name_bytes : other->name_bytes;
    int found = memcmp(form + one->begin + 1, form + other->begin + 1, shorter);
    return found != 0 ? found
                      : (one->name_bytes > other->name_bytes) - (one->name_bytes < other->name_bytes);
}

/* True if each name is greater than the one before: most encoders keep another order. */
static bool is_ascending(const uint8_t *form, const Member *members, int count)
{
    for (int i = 1; i < count; i++) {
        if (compare_names(form, &members[i - 1], &members[i]) >= 0) {
            return false;
        }
    }
    return true;
}

/* Write the members' order as indexes. False: two have one name. It takes n log n comparisons for
 * any order that a client may send, and moves one byte for each member. */
static bool sort_members(const uint8_t *form, const Member *members, int count, uint8_t *order)
{
    for (int i = 0; i < count; i++) {
        int low = 0, high = i; /* its position is there or between */
        while (low < high) {
            int middle = (low + high) / 2;
            int found = compare_names(form, &members[i], &members[order[middle]]);
            if (found == 0) {
                return false;
            }
            if (found < 0) {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        memmove(order + low + 1, order + low, (size_t)(i - low));
        order[low] = (uint8_t)i;
    }
    return true;
}

/* Sort the members, with commas between them. aside: room for all of them. False: two have one
 * name. */
static bool arrange(uint8_t *form, const Member *members, int count, uint8_t *aside)
{
    uint8_t order[MOST_MEMBERS];
    if (is_ascending(form, members, count)) {
        return true;
    }
    if (!sort_members(form, members, count, order)) {
        return false;
    }
    uint8_t *to = aside;
    for (int i = 0; i < count; i++) {
        const Member *member = &members[order[i]];
        size_t bytes = member->end - member->begin;
        if (i > 0) {
            *to++ = ',';
        }
        memcpy(to, form + member->begin, bytes);
        to += bytes;
    }
    memcpy(form + members[0].begin, aside, (size_t)(to - aside));
    return true;
}

#endif
