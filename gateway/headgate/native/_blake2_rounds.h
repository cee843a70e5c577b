/* The compression function of BLAKE2b (RFC 7693, 3.2), for one block, and for four at once. */
#ifndef HEADGATE_BLAKE2_ROUNDS_H
#define HEADGATE_BLAKE2_ROUNDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "_cpu.h"

#if defined(__x86_64__) && defined(__GNUC__)
#define BLAKE2_WIDE 1
#endif

enum { BLAKE2_BLOCK = 128, BLAKE2_DIGEST = 16, BLAKE2_MOST_KEY = 64, BLAKE2_LANES = 4 };

static const uint64_t BLAKE2_IV[8] = {
    0x6a09e667f3bcc908, 0xbb67ae8584caa73b, 0x3c6ef372fe94f82b, 0xa54ff53a5f1d36f1,
    0x510e527fade682d1, 0x9b05688c2b3e6c1f, 0x1f83d9abfb41bd6b, 0x5be0cd19137e2179,
};

/* RFC 7693, 2.7; rounds 10 and 11 repeat the first two. */
static const uint8_t BLAKE2_SIGMA[12][16] = {
    {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15},
    {14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3},
    {11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4},
    {7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8},
    {9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13},
    {2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9},
    {12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11},
    {13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10},
    {6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5},
    {10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0},
    {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15},
    {14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3},
};

#define BLAKE2_TURN(x, n) ((x) >> (n) | (x) << (64 - (n)))

/* The rounds of the compression function, for single words or for vectors. The rounds are unrolled,
 * so that the compiler knows every index and keeps v in registers. */
#define BLAKE2_MIX(v, m, a, b, c, d, x, y)                                                        \
    do {                                                                                          \
        v[a] = v[a] + v[b] + m[x];                                                                \
        v[d] = BLAKE2_TURN_32(v[d] ^ v[a]);                                                       \
        v[c] = v[c] + v[d];                                                                       \
        v[b] = BLAKE2_TURN_24(v[b] ^ v[c]);                                                       \
        v[a] = v[a] + v[b] + m[y];                                                                \
        v[d] = BLAKE2_TURN_16(v[d] ^ v[a]);                                                       \
        v[c] = v[c] + v[d];                                                                       \
        v[b] = BLAKE2_TURN_63(v[b] ^ v[c]);                                                       \
    } while (0)

#define BLAKE2_ROUND(v, m, s)                                                                     \
    do {                                                                                          \
        BLAKE2_MIX(v, m, 0, 4, 8, 12, s[0], s[1]);                                                \
        BLAKE2_MIX(v, m, 1, 5, 9, 13, s[2], s[3]);                                                \
        BLAKE2_MIX(v, m, 2, 6, 10, 14, s[4], s[5]);                                               \
        BLAKE2_MIX(v, m, 3, 7, 11, 15, s[6], s[7]);                                               \
        BLAKE2_MIX(v, m, 0, 5, 10, 15, s[8], s[9]);                                               \
        BLAKE2_MIX(v, m, 1, 6, 11, 12, s[10], s[11]);                                             \
        BLAKE2_MIX(v, m, 2, 7, 8, 13, s[12], s[13]);                                              \
        BLAKE2_MIX(v, m, 3, 4, 9, 14, s[14], s[15]);                                              \
    } while (0)

#define BLAKE2_ROUNDS(v, m)                                                                       \
    do {                                                                                          \
        BLAKE2_ROUND(v, m, BLAKE2_SIGMA[0]);                                                      \
        BLAKE2_ROUND(v, m, BLAKE2_SIGMA[1]);                                                      \
        BLAKE2_ROUND(v, m, BLAKE2_SIGMA[2]);                                                      \
        BLAKE2_ROUND(v, m, BLAKE2_SIGMA[3]);                                                      \
        BLAKE2_ROUND(v, m, BLAKE2_SIGMA[4]);                                                      \
        BLAKE2_ROUND(v, m, BLAKE2_SIGMA[5]);                                                      \
        BLAKE2_ROUND(v, m, BLAKE2_SIGMA[6]);                                                      \
        BLAKE2_ROUND(v, m, BLAKE2_SIGMA[7]);                                                      \
        BLAKE2_ROUND(v, m, BLAKE2_SIGMA[8]);                                                      \
        BLAKE2_ROUND(v, m, BLAKE2_SIGMA[9]);                                                      \
        BLAKE2_ROUND(v, m, BLAKE2_SIGMA[10]);                                                     \
        BLAKE2_ROUND(v, m, BLAKE2_SIGMA[11]);                                                     \
    } while (0)

static inline uint64_t blake2_load(const uint8_t *at)
{
    return (uint64_t)at[0] | (uint64_t)at[1] << 8 | (uint64_t)at[2] << 16 |
           (uint64_t)at[3] << 24 | (uint64_t)at[4] << 32 | (uint64_t)at[5] << 40 |
           (uint64_t)at[6] << 48 | (uint64_t)at[7] << 56;
}

/* hashed: bytes up to the end of this block; below 2^64, so the counter's upper word stays 0. */
static void blake2_compress(uint64_t state[8], const uint8_t *block, uint64_t hashed, bool is_last)
{
#define BLAKE2_TURN_32(x) BLAKE2_TURN(x, 32)
#define BLAKE2_TURN_24(x) BLAKE2_TURN(x, 24)
#define BLAKE2_TURN_16(x) BLAKE2_TURN(x, 16)
#define BLAKE2_TURN_63(x) BLAKE2_TURN(x, 63)
    uint64_t v[16], m[16];
    for (int i = 0; i < 16; i++) {
        m[i] = blake2_load(block + 8 * i);
    }
    for (int i = 0; i < 8; i++) {
        v[i] = state[i];
        v[i + 8] = BLAKE2_IV[i];
    }
    v[12] ^= hashed;
    v[14] ^= is_last ? UINT64_MAX : 0;
    BLAKE2_ROUNDS(v, m);
    for (int i = 0; i < 8; i++) {
        state[i] ^= v[i] ^ v[i + 8];
    }
#undef BLAKE2_TURN_32
#undef BLAKE2_TURN_24
#undef BLAKE2_TURN_16
#undef BLAKE2_TURN_63
}

#ifdef BLAKE2_WIDE

typedef uint64_t Blake2Wide __attribute__((vector_size(8 * BLAKE2_LANES)));
typedef uint8_t Blake2Bytes __attribute__((vector_size(8 * BLAKE2_LANES)));
typedef void Blake2Compress(uint64_t state[8][BLAKE2_LANES],
                            const uint8_t *const blocks[BLAKE2_LANES],
                            const uint64_t hashed[BLAKE2_LANES],
                            const uint64_t last[BLAKE2_LANES]);

/* Select elements of one vector, or of two in a row, by their numbers. */
#ifdef __clang__
#define BLAKE2_PICK(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#define BLAKE2_PICK_BYTES(a, ...) __builtin_shufflevector(a, a, __VA_ARGS__)
#else
#define BLAKE2_PICK(a, b, ...) __builtin_shuffle(a, b, (Blake2Wide){__VA_ARGS__})
#define BLAKE2_PICK_BYTES(a, ...) __builtin_shuffle(a, (Blake2Bytes){__VA_ARGS__})
#endif

/* Transpose four words of each block, so that a vector has the same word of all blocks. */
static inline __attribute__((always_inline)) void
blake2_load_wide(Blake2Wide m[4], const uint8_t *const blocks[BLAKE2_LANES], size_t offset)
{
    Blake2Wide a, b, c, d;
    memcpy(&a, blocks[0] + offset, sizeof a);
    memcpy(&b, blocks[1] + offset, sizeof b);
    memcpy(&c, blocks[2] + offset, sizeof c);
    memcpy(&d, blocks[3] + offset, sizeof d);
    Blake2Wide ab_even = BLAKE2_PICK(a, b, 0, 4, 2, 6);
    Blake2Wide ab_odd = BLAKE2_PICK(a, b, 1, 5, 3, 7);
    Blake2Wide cd_even = BLAKE2_PICK(c, d, 0, 4, 2, 6);
    Blake2Wide cd_odd = BLAKE2_PICK(c, d, 1, 5, 3, 7);
    m[0] = BLAKE2_PICK(ab_even, cd_even, 0, 1, 4, 5);
    m[1] = BLAKE2_PICK(ab_odd, cd_odd, 0, 1, 4, 5);
    m[2] = BLAKE2_PICK(ab_even, cd_even, 2, 3, 6, 7);
    m[3] = BLAKE2_PICK(ab_odd, cd_odd, 2, 3, 6, 7);
}

/* AVX2 rotates a word by full bytes with one shuffle; AVX-512 has an instruction for any rotation,
 * which the compiler recognizes in the shifts. */
#define BLAKE2_SHUFFLED(x, ...)                                                                   \
    ((Blake2Wide)BLAKE2_PICK_BYTES((Blake2Bytes)(x), __VA_ARGS__))
#define BLAKE2_TURN_32(x)                                                                         \
    (by_bytes ? BLAKE2_SHUFFLED(x, 4, 5, 6, 7, 0, 1, 2, 3, 12, 13, 14, 15, 8, 9, 10, 11, 20, 21,  \
                                22, 23, 16, 17, 18, 19, 28, 29, 30, 31, 24, 25, 26, 27)           \
              : BLAKE2_TURN(x, 32))
#define BLAKE2_TURN_24(x)                                                                         \
    (by_bytes ? BLAKE2_SHUFFLED(x, 3, 4, 5, 6, 7, 0, 1, 2, 11, 12, 13, 14, 15, 8, 9, 10, 19, 20,  \
                                21, 22, 23, 16, 17, 18, 27, 28, 29, 30, 31, 24, 25, 26)           \
              : BLAKE2_TURN(x, 24))
#define BLAKE2_TURN_16(x)                                                                         \
    (by_bytes ? BLAKE2_SHUFFLED(x, 2, 3, 4, 5, 6, 7, 0, 1, 10, 11, 12, 13, 14, 15, 8, 9, 18, 19,  \
                                20, 21, 22, 23, 16, 17, 26, 27, 28, 29, 30, 31, 24, 25)           \
              : BLAKE2_TURN(x, 16))
#define BLAKE2_TURN_63(x) BLAKE2_TURN(x, 63)

static inline __attribute__((always_inline)) void
blake2_compress_wide(uint64_t state[8][BLAKE2_LANES], const uint8_t *const blocks[BLAKE2_LANES],
                     const uint64_t hashed[BLAKE2_LANES], const uint64_t last[BLAKE2_LANES],
                     const bool by_bytes)
{
    Blake2Wide v[16], m[16], turn;
    for (int i = 0; i < 4; i++) {
        blake2_load_wide(m + 4 * i, blocks, 32 * (size_t)i);
    }
    for (int i = 0; i < 8; i++) {
        memcpy(&v[i], state[i], sizeof v[i]);
        v[i + 8] = (Blake2Wide){BLAKE2_IV[i], BLAKE2_IV[i], BLAKE2_IV[i], BLAKE2_IV[i]};
    }
    memcpy(&turn, hashed, sizeof turn);
    v[12] ^= turn;
    memcpy(&turn, last, sizeof turn);
    v[14] ^= turn;
    BLAKE2_ROUNDS(v, m);
    for (int i = 0; i < 8; i++) {
        memcpy(&turn, state[i], sizeof turn);
        turn ^= v[i] ^ v[i + 8];
        memcpy(state[i], &turn, sizeof turn);
    }
}

__attribute__((target("avx2"))) static void
blake2_compress_avx2(uint64_t state[8][BLAKE2_LANES], const uint8_t *const blocks[BLAKE2_LANES],
                     const uint64_t hashed[BLAKE2_LANES], const uint64_t last[BLAKE2_LANES])
{
    blake2_compress_wide(state, blocks, hashed, last, true);
}

__attribute__((target("avx512f,avx512vl"))) static void
blake2_compress_avx512(uint64_t state[8][BLAKE2_LANES], const uint8_t *const blocks[BLAKE2_LANES],
                       const uint64_t hashed[BLAKE2_LANES], const uint64_t last[BLAKE2_LANES])
{
    blake2_compress_wide(state, blocks, hashed, last, false);
}

/* Return NULL if this processor has neither. */
static Blake2Compress *blake2_widest(void)
{
    return cpu_has(CPU_AVX512VL) ? blake2_compress_avx512
        : cpu_has(CPU_AVX2)      ? blake2_compress_avx2
                                 : NULL;
}

#endif

#endif
