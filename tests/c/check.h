/* The common part of the test programs. */
#ifndef CHECK_H
#define CHECK_H
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int rank, size;

#define CHECK(condition)                                                                          \
    do {                                                                                          \
        if (!(condition)) {                                                                       \
            printf("%s, line %d, rank %d: %s is false\n", __FILE__, __LINE__, rank, #condition);  \
            fflush(stdout);                                                                       \
            MPI_Abort(MPI_COMM_WORLD, 1);                                                         \
        }                                                                                         \
    } while (0)

/* The bytes of memory that this process uses. */
static inline long resident(void) {
    char line[128];
    long kilobytes = -1;
    FILE *status = fopen("/proc/self/status", "r");
    CHECK(status != NULL);
    while (fgets(line, sizeof line, status) != NULL)
        if (sscanf(line, "VmRSS: %ld", &kilobytes) == 1)
            break;
    fclose(status);
    CHECK(kilobytes > 0);
    return kilobytes * 1024;
}

/* The class of the error code that a call returns. The error handler must be MPI_ERRORS_RETURN. */
static inline int class_of(int code) {
    int class = -1;
    MPI_Error_class(code, &class);
    return class;
}

#define FAILS(call, class) CHECK(class_of(call) == (class))

/* The checks of error classes apply to this library only: other libraries return other classes for some errors. */
#ifdef MPI_ABI_VERSION
#define OWN 1
#else
#define OWN 0
#endif

static inline void begin(int *argc, char ***argv) {
    MPI_Init(argc, argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
}

static inline int end(void) {
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0)
        printf("all good\n");
    MPI_Finalize();
    return 0;
}
#endif
