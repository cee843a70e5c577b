/* BLAKE2b (RFC 7693) with digests of 16 bytes, of many short texts under one key.
 *
 * One text is a chain of dependent steps and leaves most of a processor idle. So with AVX2 or
 * AVX-512 four texts are digested at once, each in one lane of a vector. A lane takes the next text
 * when its own ends, so that texts of different lengths fit.
 *
 * Only _scanner.c includes this file, which does not use Python.
 */
#ifndef HEADGATE_BLAKE2_H
#define HEADGATE_BLAKE2_H

#include "_blake2_rounds.h"
#include "_text.h"

/* The common beginning of all texts: the state after the key and the full blocks of the prefix. */
typedef struct {
    uint64_t state[8];
    uint64_t hashed;              /* bytes in the state */
    uint8_t rest[BLAKE2_BLOCK];   /* rest of the prefix, less than a block */
    size_t rest_bytes;
} Blake2Start;

/* key: up to BLAKE2_MOST_KEY bytes. Every text that is digested from here has at least one byte:
 * neither the key's block nor a full block of the prefix is ever the last one. */
static void blake2_begin(Blake2Start *start, Text key, Text prefix)
{
    uint8_t block[BLAKE2_BLOCK] = {0};
    memcpy(start->state, BLAKE2_IV, sizeof start->state);
    start->state[0] ^= 0x01010000 ^ (uint64_t)key.bytes << 8 ^ BLAKE2_DIGEST;
    start->hashed = 0;
    if (key.bytes > 0) {
        memcpy(block, key.at, key.bytes);
        blake2_compress(start->state, block, start->hashed += BLAKE2_BLOCK, false);
    }
    for (; prefix.bytes >= BLAKE2_BLOCK; prefix.at += BLAKE2_BLOCK, prefix.bytes -= BLAKE2_BLOCK) {
        blake2_compress(start->state, prefix.at, start->hashed += BLAKE2_BLOCK, false);
    }
    memset(start->rest, 0, sizeof start->rest);
    if (prefix.bytes > 0) {
        memcpy(start->rest, prefix.at, prefix.bytes);
    }
    start->rest_bytes = prefix.bytes;
}

/* A text that is being digested. */
typedef struct {
    Text left;
    uint64_t hashed;
    size_t before;                 /* bytes of the prefix that its first block begins with */
    uint8_t block[BLAKE2_BLOCK];   /* first and last block: not a full block of the text */
    uint8_t *digest;               /* destination; NULL: the lane is free */
} Blake2Lane;

static void blake2_enter(Blake2Lane *lane, const Blake2Start *start, Text text, uint8_t *digest)
{
    lane->left = text;
    lane->hashed = start->hashed;
    lane->before = start->rest_bytes;
    memcpy(lane->block, start->rest, sizeof lane->block);
    lane->digest = digest;
}

/* Return a text's next block, and never read beyond its end. No bytes left: it was the last. */
static const uint8_t *blake2_next(Blake2Lane *lane)
{
    const uint8_t *block = lane->left.at;
    size_t room = BLAKE2_BLOCK - lane->before;
    size_t taken = lane->left.bytes < room ? lane->left.bytes : room;
    if (taken < BLAKE2_BLOCK) {
        memcpy(lane->block + lane->before, block, taken);
        memset(lane->block + lane->before + taken, 0, room - taken);
        block = lane->block;
    }
    lane->hashed += lane->before + taken;
    lane->before = 0;
    lane->left.at += taken;
    lane->left.bytes -= taken;
    return block;
}

static inline void blake2_store(uint8_t *digest, uint64_t first, uint64_t second)
{
    for (int i = 0; i < 8; i++) {
        digest[i] = (uint8_t)(first >> 8 * i);
        digest[i + 8] = (uint8_t)(second >> 8 * i);
    }
}

static void blake2_one(const Blake2Start *start, Text text, uint8_t *digest)
{
    Blake2Lane lane;
    uint64_t state[8];
    blake2_enter(&lane, start, text, digest);
    memcpy(state, start->state, sizeof state);
    do {
        const uint8_t *block = blake2_next(&lane);
        blake2_compress(state, block, lane.hashed, lane.left.bytes == 0);
    } while (lane.left.bytes > 0);
    blake2_store(digest, state[0], state[1]);
}

#ifdef BLAKE2_WIDE

/* Put the next text into a lane, or nothing if no text is left. */
static void blake2_refill(Blake2Lane *lane, uint64_t state[8][BLAKE2_LANES], int column,
                          const Blake2Start *start, const Text *text, uint8_t *digest)
{
    lane->digest = NULL;
    if (text != NULL) {
        blake2_enter(lane, start, *text, digest);
        for (int i = 0; i < 8; i++) {
            state[i][column] = start->state[i];
        }
    }
}

static void blake2_wide(const Blake2Start *start, const Text *texts, size_t count,
                        uint8_t *digests, Blake2Compress *compress)
{
    static const uint8_t nothing[BLAKE2_BLOCK];
    Blake2Lane lanes[BLAKE2_LANES];
    uint64_t state[8][BLAKE2_LANES] = {{0}};
    const uint8_t *blocks[BLAKE2_LANES];
    uint64_t hashed[BLAKE2_LANES], last[BLAKE2_LANES];
    size_t begun = 0, ended = 0;
    for (int i = 0; i < BLAKE2_LANES; i++) {
        const Text *text = begun < count ? texts + begun : NULL;
        blake2_refill(&lanes[i], state, i, start, text, digests + BLAKE2_DIGEST * begun);
        begun += text != NULL;
    }
    while (ended < count) {
        for (int i = 0; i < BLAKE2_LANES; i++) {
            bool is_busy = lanes[i].digest != NULL;
            blocks[i] = is_busy ? blake2_next(&lanes[i]) : nothing;
            hashed[i] = is_busy ? lanes[i].hashed : 0;
            last[i] = is_busy && lanes[i].left.bytes == 0 ? UINT64_MAX : 0;
        }
        compress(state, blocks, hashed, last);
        for (int i = 0; i < BLAKE2_LANES; i++) {
            if (last[i] != 0) {
                const Text *text = begun < count ? texts + begun : NULL;
                blake2_store(lanes[i].digest, state[0][i], state[1][i]);
                ended++;
                blake2_refill(&lanes[i], state, i, start, text, digests + BLAKE2_DIGEST * begun);
                begun += text != NULL;
            }
        }
    }
}

#endif

/* Digest `count` texts, none of them empty, to 16 bytes each. */
static void blake2_many(const Blake2Start *start, const Text *texts, size_t count,
                        uint8_t *digests)
{
#ifdef BLAKE2_WIDE
    Blake2Compress *compress = count > 1 ? blake2_widest() : NULL;
    if (compress != NULL) {
        blake2_wide(start, texts, count, digests, compress);
        return;
    }
#endif
    for (size_t i = 0; i < count; i++) {
        blake2_one(start, texts[i], digests + BLAKE2_DIGEST * i);
    }
}

#endif
