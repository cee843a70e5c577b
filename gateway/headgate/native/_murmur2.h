/* Kafka's hash of keys. */
#ifndef HEADGATE_MURMUR2_H
#define HEADGATE_MURMUR2_H

#include "_text.h"

static uint32_t load_32(const uint8_t *at)
{
    return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

/* Kafka's murmur2, as in model/keys.py. */
static uint32_t murmur2(Text key)
{
    const uint32_t multiplier = 0x5bd1e995;
    uint32_t hash = 0x9747b28c ^ (uint32_t)key.bytes;
    for (; key.bytes >= 4; key.at += 4, key.bytes -= 4) {
        uint32_t word = load_32(key.at) * multiplier;
        word ^= word >> 24;
        hash = hash * multiplier ^ word * multiplier;
    }
    if (key.bytes > 0) {
        for (size_t i = 0; i < key.bytes; i++) {
            hash ^= (uint32_t)key.at[i] << 8 * i;
        }
        hash *= multiplier;
    }
    hash ^= hash >> 13;
    hash *= multiplier;
    return hash ^ hash >> 15;
}

#endif
