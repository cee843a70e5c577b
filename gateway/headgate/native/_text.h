/* Bytes with another owner. */
#ifndef HEADGATE_TEXT_H
#define HEADGATE_TEXT_H

#include <stddef.h>
#include <stdint.h>

typedef struct {
    const uint8_t *at;
    size_t bytes;
} Text;

#endif
