/* The common part of the programs that print the results of calls: each library must print the same. */
#ifndef SAY_H
#define SAY_H
#include "check.h"

#define SAY(...) (printf("%d/%d ", rank, size), printf(__VA_ARGS__), printf("\n"))

/* A function in the form for large counts if the program is built for them, otherwise in the other form; and the types of counts. */
#ifdef LARGE
#define F(name) name##_c
typedef MPI_Count number;
typedef MPI_Aint displacement;
typedef MPI_Count address;
#else
#define F(name) name
typedef int number;
typedef int displacement;
typedef MPI_Aint address;
#endif

/* A checksum of bytes, to compare them. */
static inline unsigned long digest(const void *bytes, size_t length) {
    unsigned long sum = 5381;
    for (size_t at = 0; at < length; at++)
        sum = sum * 33 + ((const unsigned char *)bytes)[at];
    return sum;
}
#endif
