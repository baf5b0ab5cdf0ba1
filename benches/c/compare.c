/* What a C program sees of an MPI library: half round trips, one-way streams and collectives, with buffers from malloc.
 * Prints a line a measurement: NAME BYTES NANOSECONDS (the median of the batches), from rank 0. An argument is the only NAME.
 * Built and run with each library in turn by the program `compare`; nothing in it knows which one it is. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BATCHES = 11, WINDOW = 64, BYTES_MAX = 4 << 20 };

static int rank, size;
static const char *only;
static char *out, *in;

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void fail(const char *what, int bytes)
{
    fprintf(stderr, "compare: %s of %d bytes: the data are wrong\n", what, bytes);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

/* Half round trips between ranks 0 and 1. The last byte is another one each time, and is looked at. */
static void round_trips(char *from, int bytes, int times)
{
    for (int i = 0; i < times; i++) {
        if (bytes > 0) from[bytes - 1] = (char)i;
        if (rank == 0) {
            MPI_Send(from, bytes, MPI_BYTE, 1, 1, MPI_COMM_WORLD);
            MPI_Recv(in, bytes, MPI_BYTE, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        } else if (rank == 1) {
            MPI_Recv(in, bytes, MPI_BYTE, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Send(from, bytes, MPI_BYTE, 0, 1, MPI_COMM_WORLD);
        }
        if (rank < 2 && bytes > 0 && in[bytes - 1] != (char)i) fail("a round trip", bytes);
    }
}

/* Each sends what it has just got: every line of the cache is new to the other one. */
static void ping_pong(int bytes, int times)
{
    round_trips(in, bytes, times);
}

/* Each sends a buffer in which only the last byte changes: the rest stays in both caches. */
static void same_data(int bytes, int times)
{
    round_trips(out, bytes, times);
}

/* Windows of non-blocking messages one way, with an answer a window. */
static void stream(int bytes, int times)
{
    MPI_Request requests[WINDOW];
    for (int i = 0; i < times; i += WINDOW) {
        if (rank == 0) {
            for (int w = 0; w < WINDOW; w++) MPI_Isend(out, bytes, MPI_BYTE, 1, 2, MPI_COMM_WORLD, &requests[w]);
            MPI_Waitall(WINDOW, requests, MPI_STATUSES_IGNORE);
            MPI_Recv(in, 0, MPI_BYTE, 1, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        } else if (rank == 1) {
            for (int w = 0; w < WINDOW; w++) MPI_Irecv(in, bytes, MPI_BYTE, 0, 2, MPI_COMM_WORLD, &requests[w]);
            MPI_Waitall(WINDOW, requests, MPI_STATUSES_IGNORE);
            MPI_Send(out, 0, MPI_BYTE, 0, 3, MPI_COMM_WORLD);
        }
    }
}

static void barrier(int bytes, int times)
{
    (void)bytes;
    for (int i = 0; i < times; i++) MPI_Barrier(MPI_COMM_WORLD);
}

static void allreduce(int bytes, int times)
{
    for (int i = 0; i < times; i++)
        MPI_Allreduce(out, in, bytes / (int)sizeof(double), MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
}

static void broadcast(int bytes, int times)
{
    for (int i = 0; i < times; i++) MPI_Bcast(out, bytes, MPI_BYTE, i % size, MPI_COMM_WORLD);
}

static void alltoall(int bytes, int times)
{
    for (int i = 0; i < times; i++) MPI_Alltoall(out, bytes, MPI_BYTE, in, bytes, MPI_BYTE, MPI_COMM_WORLD);
}

/* Times one measurement; `parts` is by how much its time is divided. */
static void measure(const char *name, void (*run)(int, int), int bytes, int times, int parts)
{
    double batches[BATCHES];
    if (only && strcmp(only, name)) return;
    run(bytes, times / 4 + 1);
    for (int b = 0; b < BATCHES; b++) {
        MPI_Barrier(MPI_COMM_WORLD);
        double start = MPI_Wtime();
        run(bytes, times);
        batches[b] = (MPI_Wtime() - start) * 1e9 / times / parts;
    }
    qsort(batches, BATCHES, sizeof *batches, by_value);
    if (rank == 0) printf("%s %d %.1f\n", name, bytes, batches[BATCHES / 2]);
}

static int times_for(int bytes)
{
    return bytes <= 8192 ? 1024 : bytes <= 65536 ? 256 : bytes <= 1 << 20 ? 64 : 16;
}

int main(int argc, char **argv)
{
    static const int sizes[] = { 0, 8, 64, 256, 1024, 4096, 16384, 65536, 262144, 1 << 20, BYTES_MAX };
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (argc > 1) only = argv[1];
    out = malloc((size_t)BYTES_MAX);
    in = malloc((size_t)BYTES_MAX);
    if (size < 2 || !out || !in) MPI_Abort(MPI_COMM_WORLD, 2);
    memset(out, 0, BYTES_MAX);
    memset(in, 0, BYTES_MAX);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        measure("ping_pong", ping_pong, sizes[i], times_for(sizes[i]), 2);
    for (size_t i = 5; i < sizeof sizes / sizeof *sizes; i++)
        measure("same_data", same_data, sizes[i], times_for(sizes[i]), 2);
    for (size_t i = 1; i < sizeof sizes / sizeof *sizes; i++) {
        int times = times_for(sizes[i]);
        measure("stream", stream, sizes[i], times < WINDOW ? WINDOW : times, 1);
    }
    measure("barrier", barrier, 0, 512, 1);
    for (int bytes = 8; bytes <= 1 << 20; bytes *= 32) {
        int times = times_for(bytes) / 2;
        measure("allreduce", allreduce, bytes, times, 1);
        measure("broadcast", broadcast, bytes, times, 1);
        if (bytes * size <= BYTES_MAX) measure("alltoall", alltoall, bytes, times, 1);
    }
    free(out);
    free(in);
    MPI_Finalize();
    return 0;
}
