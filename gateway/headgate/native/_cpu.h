/* What this processor can do. It is asked itself: `__builtin_cpu_supports` needs a library of the
 * compiler's, which `zig cc` does not link. */
#ifndef HEADGATE_CPU_H
#define HEADGATE_CPU_H

#if defined(__x86_64__) && defined(__GNUC__)

#include <cpuid.h>
#include <stdbool.h>
#include <stdint.h>

/* What the system saves of a thread's registers (XCR0): wide ones are of no use without. */
enum { CPU_SAVES_AVX = 0x06, CPU_SAVES_AVX512 = 0xe6 };

static inline bool cpu_saves(uint32_t wanted)
{
    uint32_t a, b, c, d, low, high;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & 1u << 27)) {
        return false;
    }
    __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (low & wanted) == wanted;
}

/* wanted: bits of the second register of leaf 7, where the wide instructions are. */
static inline bool cpu_has_wide(uint32_t wanted)
{
    uint32_t a, b, c, d;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b & wanted) == wanted;
}

static inline bool cpu_has_sse42(void)
{
    uint32_t a, b, c, d;
    return __get_cpuid(1, &a, &b, &c, &d) && c & 1u << 20;
}

static inline bool cpu_has_avx2(void)
{
    return cpu_saves(CPU_SAVES_AVX) && cpu_has_wide(1u << 5);
}

static inline bool cpu_has_avx512vl(void)
{
    return cpu_saves(CPU_SAVES_AVX512) && cpu_has_wide(1u << 16 | 1u << 31);
}

#endif
#endif
