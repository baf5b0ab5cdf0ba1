/* The common part of the programs that test OpenSHMEM. */
#ifndef CHECK_H
#define CHECK_H
#include <shmem.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Defined for jobs of several hosts, whose PEs do not all share memory. */
#ifndef HOSTS
#define HOSTS 0
#endif

static int me, pes;

#define CHECK(condition)                                                                        \
    do {                                                                                        \
        if (!(condition)) {                                                                     \
            printf("%s, line %d, PE %d: %s is false\n", __FILE__, __LINE__, me, #condition);    \
            fflush(stdout);                                                                     \
            shmem_global_exit(1);                                                               \
        }                                                                                       \
    } while (0)

static inline void begin(void) {
    shmem_init();
    me = shmem_my_pe();
    pes = shmem_n_pes();
}

static inline int end(void) {
    shmem_barrier_all();
    if (me == 0)
        puts("all good");
    shmem_finalize();
    return 0;
}

/* The types of OpenSHMEM 1.6, tables 4 to 8. */
#define FOR_INTEGERS(DO)                                                                                    \
    DO(char, char) DO(schar, signed char) DO(short, short) DO(int, int) DO(long, long)                      \
    DO(longlong, long long) DO(uchar, unsigned char) DO(ushort, unsigned short) DO(uint, unsigned int)      \
    DO(ulong, unsigned long) DO(ulonglong, unsigned long long) DO(int8, int8_t) DO(int16, int16_t)          \
    DO(int32, int32_t) DO(int64, int64_t) DO(uint8, uint8_t) DO(uint16, uint16_t) DO(uint32, uint32_t)      \
    DO(uint64, uint64_t) DO(size, size_t) DO(ptrdiff, ptrdiff_t)
#define FOR_STANDARD(DO) DO(float, float) DO(double, double) DO(longdouble, long double) FOR_INTEGERS(DO)
#define FOR_BITS(DO)                                                                                \
    DO(uint, unsigned int) DO(ulong, unsigned long) DO(ulonglong, unsigned long long)               \
    DO(int32, int32_t) DO(int64, int64_t) DO(uint32, uint32_t) DO(uint64, uint64_t)
#define FOR_AMO(DO) DO(int, int) DO(long, long) DO(longlong, long long) DO(size, size_t) DO(ptrdiff, ptrdiff_t) FOR_BITS(DO)
#define FOR_EXTENDED(DO) DO(float, float) DO(double, double) FOR_AMO(DO)
#define FOR_WAIT(DO) DO(short, short) DO(ushort, unsigned short) FOR_AMO(DO)
#endif
