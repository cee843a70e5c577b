/* Features of this processor, by its own instruction: `__builtin_cpu_supports` needs a library of
 * the compiler, which `zig cc` does not link. */
#ifndef HEADGATE_CPU_H
#define HEADGATE_CPU_H

#if defined(__x86_64__) && defined(__GNUC__)

#include <cpuid.h>
#include <stdbool.h>
#include <stdint.h>

enum { CPU_SSE42 = 1, CPU_AVX2 = 2, CPU_AVX512VL = 4, CPU_ASKED = 8 };

/* Registers that the system saves for threads (XCR0): otherwise wide ones cannot be used. */
enum { CPU_SAVES_AVX = 0x06, CPU_SAVES_AVX512 = 0xe6 };

static inline unsigned cpu_ask(void)
{
    uint32_t a, b, c, d, saved = 0, high, wide = 0;
    if (!__get_cpuid(1, &a, &b, &c, &d)) {
        return CPU_ASKED;
    }
    const uint32_t basic = c;
    if (basic & 1u << 27) {
        __asm__("xgetbv" : "=a"(saved), "=d"(high) : "c"(0));
    }
    if (__get_cpuid_count(7, 0, &a, &b, &c, &d)) {
        wide = b;
    }
    const bool avx2 = wide & 1u << 5;
    const bool avx512vl = wide & 1u << 16 && wide & 1u << 31;
    return CPU_ASKED | (basic & 1u << 20 ? CPU_SSE42 : 0)
        | (avx2 && (saved & CPU_SAVES_AVX) == CPU_SAVES_AVX ? CPU_AVX2 : 0)
        | (avx512vl && (saved & CPU_SAVES_AVX512) == CPU_SAVES_AVX512 ? CPU_AVX512VL : 0);
}

/* Read once: in a virtual machine each CPUID goes to the host and takes microseconds. */
static inline bool cpu_has(unsigned feature)
{
    static unsigned found; /* concurrent threads find the same features */
    if (found == 0) {
        found = cpu_ask();
    }
    return found & feature;
}

#endif
#endif
