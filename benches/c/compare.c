/* Measures an MPI library from a C program, with buffers from malloc: compare GROUP ONLY BATCHES
 * GROUP: pair (two tasks), threads (the same at MPI_THREAD_MULTIPLE), one_core, below (a latency beside am-core's), hosts, cores (a task for
 * each core), busy (two tasks beside programs that compute), crowd (more tasks than cores), kernels, files, connect (the first exchange), memory (of
 * a task), start (does nothing: the launcher is timed), version (prints the library's name and version). ONLY: names of measurements,
 * separated by commas, or - for all measurements of the group. Rank 0 prints a line for each measurement: NAME BYTES NANOSECONDS (the
 * median of the batches; for memory: bytes of a task). The Rust program `compare` builds and runs this program with each library; the source
 * does not depend on the library. */
#include <fcntl.h>
#include <mpi.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { BATCHES_MAX = 101, WINDOW = 64, BYTES_MAX = 4 << 20, FRESH_MAX = 16 << 20, LONGS = 1000, STRIDED = 1024, PACKED = 4096, PRIVATE_BLOCKS = 5000 };

static int rank, size, batches_wanted;
static const char *only;
/* The names of rows begin with this prefix, so that two groups can have the same measurement. */
static const char *prefix = "";
static char *out, *in, *fresh, *job_out, *job_in;
static MPI_Win window;
static char *window_memory;

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

/* A measurement runs `times` operations and returns the seconds that they took. */
typedef double run_fn(int bytes, int times);

static double since(double start)
{
    return MPI_Wtime() - start;
}

static void spin(double seconds)
{
    for (double start = MPI_Wtime(); since(start) < seconds;) {}
}

/* Half round trips between ranks 0 and 1. The last byte changes each time, and is checked. */
static double round_trips(char *from, char *to, int bytes, int times)
{
    double start = MPI_Wtime();
    for (int i = 0; i < times; i++) {
        if (bytes > 0) from[bytes - 1] = (char)i;
        if (rank == 0) {
            MPI_Send(from, bytes, MPI_BYTE, 1, 1, MPI_COMM_WORLD);
            MPI_Recv(to, bytes, MPI_BYTE, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        } else if (rank == 1) {
            MPI_Recv(to, bytes, MPI_BYTE, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Send(from, bytes, MPI_BYTE, 0, 1, MPI_COMM_WORLD);
        }
        if (rank < 2 && bytes > 0 && to[bytes - 1] != (char)i) fail("a round trip", bytes);
    }
    return since(start) / 2;
}

/* Each task sends the data that it has just received, so every cache line is new to its peer. */
static double latency_new(int bytes, int times)
{
    return round_trips(in, in, bytes, times);
}

/* Each task sends a buffer in which only the last byte changes: the other bytes stay in both caches. */
static double latency_same(int bytes, int times)
{
    return round_trips(out, in, bytes, times);
}

/* The same with buffers from MPI_Alloc_mem, where a library may place memory that its tasks share. */
static double latency_job_new(int bytes, int times)
{
    return round_trips(job_in, job_in, bytes, times);
}

static double latency_job_same(int bytes, int times)
{
    return round_trips(job_out, job_in, bytes, times);
}

/* A window of non-blocking messages one way, and one answer. The buffers of successive messages are `step` bytes apart. */
static double one_window(char *from, size_t step, size_t wrap, int bytes)
{
    MPI_Request requests[WINDOW];
    double start = MPI_Wtime();
    if (rank == 0) {
        for (int w = 0; w < WINDOW; w++)
            MPI_Isend(from + w * step % wrap, bytes, MPI_BYTE, 1, 2, MPI_COMM_WORLD, &requests[w]);
        MPI_Waitall(WINDOW, requests, MPI_STATUSES_IGNORE);
        MPI_Recv(in, 0, MPI_BYTE, 1, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else if (rank == 1) {
        for (int w = 0; w < WINDOW; w++) MPI_Irecv(in, bytes, MPI_BYTE, 0, 2, MPI_COMM_WORLD, &requests[w]);
        MPI_Waitall(WINDOW, requests, MPI_STATUSES_IGNORE);
        MPI_Send(out, 0, MPI_BYTE, 0, 3, MPI_COMM_WORLD);
    }
    return since(start);
}

static double stream_same(int bytes, int times)
{
    double seconds = 0;
    for (int i = 0; i < times; i += WINDOW) seconds += one_window(out, 0, 1, bytes);
    return seconds;
}

/* Before each window, outside the measured time, the sender writes the data that it will send. Each message of up to 256 KiB has a buffer
 * of its own. */
static double stream_new(int bytes, int times)
{
    size_t step = ((size_t)bytes + 63) / 64 * 64, wrap = FRESH_MAX / step * step;
    double seconds = 0;
    for (int i = 0; i < times; i += WINDOW) {
        if (rank == 0) memset(fresh, i, wrap < step * WINDOW ? wrap : step * WINDOW);
        seconds += one_window(fresh, step, wrap, bytes);
    }
    return seconds;
}

/* Each task sends to the next task, and receives from the previous task. */
static double shift(int bytes, int times)
{
    int next = (rank + 1) % size, before = (rank + size - 1) % size;
    double start = MPI_Wtime();
    for (int i = 0; i < times; i++)
        MPI_Sendrecv(out, bytes, MPI_BYTE, next, 4, in, bytes, MPI_BYTE, before, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    return since(start);
}

/* The system's clock, which is the same for all tasks of a machine. */
static double clock_of_machine(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* The one-way time of a message that arrives when rank 1 has waited in its receive for this number of microseconds. Rank 1 answers with the
 * time of the arrival: the way back is that of a task that has not waited. */
static double latency_after(int microseconds, int times)
{
    double seconds = 0, arrived = 0;
    for (int i = 0; i < times; i++) {
        if (rank == 0) {
            spin(microseconds * 1e-6);
            double start = clock_of_machine();
            MPI_Send(out, 8, MPI_BYTE, 1, 1, MPI_COMM_WORLD);
            MPI_Recv(&arrived, 1, MPI_DOUBLE, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            seconds += arrived - start;
        } else if (rank == 1) {
            MPI_Recv(in, 8, MPI_BYTE, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            arrived = clock_of_machine();
            MPI_Send(&arrived, 1, MPI_DOUBLE, 0, 1, MPI_COMM_WORLD);
        }
    }
    return seconds;
}

#define COLLECTIVE(name, call)                    \
    static double name(int bytes, int times)      \
    {                                             \
        (void)bytes;                              \
        double start = MPI_Wtime();               \
        for (int i = 0; i < times; i++) call;     \
        return since(start);                      \
    }
static MPI_Request started;
#define WAITED (MPI_Wait(&started, MPI_STATUS_IGNORE))
#define DOUBLES (bytes / (int)sizeof(double)), MPI_DOUBLE
#define BYTES bytes, MPI_BYTE
COLLECTIVE(barrier, MPI_Barrier(MPI_COMM_WORLD))
COLLECTIVE(bcast, MPI_Bcast(out, BYTES, 0, MPI_COMM_WORLD))
COLLECTIVE(bcast_rotating, MPI_Bcast(out, BYTES, i % size, MPI_COMM_WORLD))
COLLECTIVE(allreduce, MPI_Allreduce(out, in, DOUBLES, MPI_SUM, MPI_COMM_WORLD))
COLLECTIVE(alltoall, MPI_Alltoall(out, BYTES, in, BYTES, MPI_COMM_WORLD))
COLLECTIVE(ibarrier, (MPI_Ibarrier(MPI_COMM_WORLD, &started), WAITED))
COLLECTIVE(iallreduce, (MPI_Iallreduce(out, in, DOUBLES, MPI_SUM, MPI_COMM_WORLD, &started), WAITED))
COLLECTIVE(ialltoall, (MPI_Ialltoall(out, BYTES, in, BYTES, MPI_COMM_WORLD, &started), WAITED))
COLLECTIVE(allgather, MPI_Allgather(out, BYTES, in, BYTES, MPI_COMM_WORLD))
COLLECTIVE(reduce, MPI_Reduce(out, in, DOUBLES, MPI_SUM, 0, MPI_COMM_WORLD))
COLLECTIVE(reduce_rotating, MPI_Reduce(out, in, DOUBLES, MPI_SUM, i % size, MPI_COMM_WORLD))
COLLECTIVE(gather, MPI_Gather(out, BYTES, in, BYTES, 0, MPI_COMM_WORLD))
COLLECTIVE(gather_rotating, MPI_Gather(out, BYTES, in, BYTES, i % size, MPI_COMM_WORLD))
COLLECTIVE(scatter, MPI_Scatter(out, BYTES, in, BYTES, 0, MPI_COMM_WORLD))
COLLECTIVE(scatter_rotating, MPI_Scatter(out, BYTES, in, BYTES, i % size, MPI_COMM_WORLD))

/* One-sided: rank 0 to rank 1, which waits in a barrier. */
#define ONE_SIDED(name, call)                                  \
    static double name(int bytes, int times)                   \
    {                                                          \
        (void)bytes;                                           \
        double seconds = 0;                                    \
        if (rank == 0) {                                       \
            double start = MPI_Wtime();                        \
            for (int i = 0; i < times; i++) {                  \
                call;                                          \
                MPI_Win_flush(1, window);                      \
            }                                                  \
            seconds = since(start);                            \
        }                                                      \
        MPI_Barrier(MPI_COMM_WORLD);                           \
        return seconds;                                        \
    }
static MPI_Datatype strided;
ONE_SIDED(put_flush, MPI_Put(out, BYTES, 1, 0, BYTES, window))
ONE_SIDED(get_flush, MPI_Get(in, BYTES, 1, 0, BYTES, window))
ONE_SIDED(fetch_and_op, MPI_Fetch_and_op(out, in, MPI_INT64_T, 1, 0, MPI_SUM, window))
ONE_SIDED(compare_and_swap, MPI_Compare_and_swap(out, out, in, MPI_INT64_T, 1, 0, window))
ONE_SIDED(accumulate, MPI_Accumulate(out, 1, MPI_INT64_T, 1, 0, 1, MPI_INT64_T, MPI_SUM, window))
ONE_SIDED(get_accumulate, MPI_Get_accumulate(out, bytes / 8, MPI_INT64_T, in, bytes / 8, MPI_INT64_T, 1, 0, bytes / 8, MPI_INT64_T, MPI_SUM, window))
ONE_SIDED(put_strided, MPI_Put(out, 1, strided, 1, 0, 1, strided, window))
ONE_SIDED(get_strided, MPI_Get(in, 1, strided, 1, 0, 1, strided, window))

/* The same in memory of malloc: PRIVATE_BLOCKS ints, every second one, out of contiguous memory or into it. */
static MPI_Datatype every_second;
ONE_SIDED(put_private, MPI_Put(out, PRIVATE_BLOCKS, MPI_INT, 1, 0, 1, every_second, window))
ONE_SIDED(get_private, MPI_Get(in, PRIVATE_BLOCKS, MPI_INT, 1, 0, 1, every_second, window))
ONE_SIDED(accumulate_private, MPI_Accumulate(out, PRIVATE_BLOCKS, MPI_INT, 1, 0, 1, every_second, MPI_SUM, window))

/* Packs and unpacks every second of PACKED doubles, as a vector or as a list of blocks. Rank 0 alone, without messages. */
static MPI_Datatype packed_vector, packed_blocks;
#define PACKING(name, call)                                                        \
    static double name(int bytes, int times)                                       \
    {                                                                              \
        (void)bytes;                                                               \
        double start = MPI_Wtime();                                                \
        for (int i = 0, at = 0; rank == 0 && i < times; i++, at = 0) call;         \
        return since(start);                                                       \
    }
PACKING(pack_vector, MPI_Pack(out, 1, packed_vector, in, BYTES_MAX, &at, MPI_COMM_WORLD))
PACKING(unpack_vector, MPI_Unpack(in, BYTES_MAX, &at, out, 1, packed_vector, MPI_COMM_WORLD))
PACKING(pack_blocks, MPI_Pack(out, 1, packed_blocks, in, BYTES_MAX, &at, MPI_COMM_WORLD))
PACKING(unpack_blocks, MPI_Unpack(in, BYTES_MAX, &at, out, 1, packed_blocks, MPI_COMM_WORLD))

/* The vector by a loop. */
#define BY_HAND(name, target, source, assignment)                                  \
    static double name(int bytes, int times)                                       \
    {                                                                              \
        double start = MPI_Wtime();                                                \
        for (int i = 0; rank == 0 && i < times; i++) {                             \
            double *to = (double *)target;                                         \
            const double *from = (const double *)source;                           \
            for (int j = 0; j < bytes / 8; j++) assignment;                        \
            __asm__ volatile("" ::: "memory");                                     \
        }                                                                          \
        return since(start);                                                       \
    }
BY_HAND(pack_by_hand, in, out, to[j] = from[2 * j])
BY_HAND(unpack_by_hand, out, in, to[2 * j] = from[j])

/* Two tasks of several threads: pair t of threads has tag t. */
static int pairs, pair_bytes, pair_times;

static void *one_pair(void *tag)
{
    int t = (int)(size_t)tag;
    char mine[64] = { 0 };
    for (int i = 0; i < pair_times; i++) {
        if (rank == 0) MPI_Send(mine, pair_bytes, MPI_BYTE, 1, t, MPI_COMM_WORLD);
        MPI_Recv(mine, pair_bytes, MPI_BYTE, 1 - rank, t, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (rank == 1) MPI_Send(mine, pair_bytes, MPI_BYTE, 0, t, MPI_COMM_WORLD);
    }
    return NULL;
}

static double run_pairs(int bytes, int times)
{
    pthread_t threads[2];
    pair_bytes = bytes;
    pair_times = times / pairs;
    double start = MPI_Wtime();
    for (int t = 1; t < pairs; t++)
        if (pthread_create(&threads[t], NULL, one_pair, (void *)(size_t)t)) MPI_Abort(MPI_COMM_WORLD, 2);
    one_pair(NULL);
    for (int t = 1; t < pairs; t++) pthread_join(threads[t], NULL);
    return since(start) / 2;
}

static double threads_one_pair(int bytes, int times)
{
    pairs = 1;
    return run_pairs(bytes, times);
}

static double threads_two_pairs(int bytes, int times)
{
    pairs = 2;
    return run_pairs(bytes, times);
}

static int is_wanted(const char *name)
{
    size_t len = strlen(name);
    if (!strcmp(only, "-")) return 1;
    for (const char *at = only; at; at = strchr(at, ',')) {
        at += *at == ',';
        if (!strncmp(at, name, len) && (at[len] == ',' || !at[len])) return 1;
    }
    return 0;
}

static void measure(const char *measurement, run_fn *run, int bytes, int times)
{
    double batches[BATCHES_MAX];
    char name[64];
    snprintf(name, sizeof name, "%s%s", prefix, measurement);
    if (!is_wanted(name)) return;
    run(bytes, times / 4 + 1);
    for (int b = 0; b < batches_wanted; b++) {
        MPI_Barrier(MPI_COMM_WORLD);
        batches[b] = run(bytes, times) * 1e9 / times;
    }
    qsort(batches, (size_t)batches_wanted, sizeof *batches, by_value);
    if (rank == 0) printf("%s %d %.1f\n", name, bytes, batches[batches_wanted / 2]);
    if (rank == 0) fflush(stdout);
}

#include "files.h"
#include "kernels.h"

static void packing(void)
{
    static int at[PACKED];
    /* At unequal distances, so that the datatype is not a vector. */
    for (int i = 0; i < PACKED; i++) at[i] = 2 * i + i % 3 % 2;
    MPI_Type_vector(PACKED, 1, 2, MPI_DOUBLE, &packed_vector);
    MPI_Type_create_indexed_block(PACKED, 1, at, MPI_DOUBLE, &packed_blocks);
    MPI_Type_commit(&packed_vector);
    MPI_Type_commit(&packed_blocks);
    measure("pack_by_hand", pack_by_hand, 8 * PACKED, 64);
    measure("unpack_by_hand", unpack_by_hand, 8 * PACKED, 64);
    measure("pack_vector", pack_vector, 8 * PACKED, 64);
    measure("unpack_vector", unpack_vector, 8 * PACKED, 64);
    measure("pack_blocks", pack_blocks, 8 * PACKED, 64);
    measure("unpack_blocks", unpack_blocks, 8 * PACKED, 64);
    MPI_Type_free(&packed_vector);
    MPI_Type_free(&packed_blocks);
}

static int times_for(int bytes)
{
    return bytes <= 8192 ? 1024 : bytes <= 65536 ? 256 : bytes <= 1 << 20 ? 64 : 16;
}

static int window_times(int bytes)
{
    int times = times_for(bytes);
    return times < WINDOW ? WINDOW : times;
}

static void collectives(int bytes)
{
    static const struct { const char *name; run_fn *run; int parts; } all[] = {
        { "bcast", bcast, 1 }, { "bcast_rotating", bcast_rotating, 1 }, { "allreduce", allreduce, 1 },
        { "alltoall", alltoall, 2 }, { "allgather", allgather, 2 }, { "reduce", reduce, 1 },
        { "reduce_rotating", reduce_rotating, 1 }, { "gather", gather, 2 }, { "gather_rotating", gather_rotating, 2 },
        { "scatter", scatter, 2 }, { "scatter_rotating", scatter_rotating, 2 },
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i].parts == 1 || bytes * size <= BYTES_MAX) measure(all[i].name, all[i].run, bytes, times_for(bytes) / 2);
}

static void open_window(void)
{
    MPI_Win_allocate(1 << 20, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &window_memory, &window);
    memset(window_memory, 0, 1 << 20);
    MPI_Type_vector(STRIDED, 1, 2, MPI_INT64_T, &strided);
    MPI_Type_commit(&strided);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock_all(0, window);
}

static void close_window(void)
{
    MPI_Win_unlock_all(window);
    MPI_Type_free(&strided);
    MPI_Win_free(&window);
}

static void private_window(void)
{
    static const int bytes = 4 * PRIVATE_BLOCKS;
    void *memory = calloc(2, bytes);
    MPI_Win_create(memory, 2 * bytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &window);
    MPI_Type_vector(PRIVATE_BLOCKS, 1, 2, MPI_INT, &every_second);
    MPI_Type_commit(&every_second);
    MPI_Win_lock_all(0, window);
    measure("put_private", put_private, bytes, 4);
    measure("get_private", get_private, bytes, 4);
    measure("accumulate_private", accumulate_private, bytes, 4);
    MPI_Win_unlock_all(window);
    MPI_Type_free(&every_second);
    MPI_Win_free(&window);
    free(memory);
}

static void job_memory(void)
{
    static const int sizes[] = { 65536, 262144, 1 << 20, BYTES_MAX };
    MPI_Alloc_mem(BYTES_MAX, MPI_INFO_NULL, &job_out);
    MPI_Alloc_mem(BYTES_MAX, MPI_INFO_NULL, &job_in);
    memset(job_out, 0, BYTES_MAX);
    memset(job_in, 0, BYTES_MAX);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        measure("latency_job_new", latency_job_new, sizes[i], times_for(sizes[i]));
        measure("latency_job_same", latency_job_same, sizes[i], times_for(sizes[i]));
    }
    MPI_Free_mem(job_out);
    MPI_Free_mem(job_in);
}

static void pair(void)
{
    static const int sizes[] = { 8, 64, 256, 1024, 4096, 16384, 65536, 262144, 1 << 20, BYTES_MAX };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        measure("latency_new", latency_new, sizes[i], times_for(sizes[i]));
        measure("latency_same", latency_same, sizes[i], times_for(sizes[i]));
    }
    job_memory();
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        measure("stream_new", stream_new, sizes[i], window_times(sizes[i]));
        measure("stream_same", stream_same, sizes[i], window_times(sizes[i]));
    }
    measure("latency_after", latency_after, 200, 32);
    measure("latency_after", latency_after, 500, 16);
    measure("latency_after", latency_after, 2000, 8);
    measure("barrier", barrier, 0, 512);
    collectives(8);
    collectives(1024);
    collectives(65536);
    collectives(1 << 20);
    open_window();
    measure("put_flush", put_flush, 8, 1024);
    measure("get_flush", get_flush, 8, 1024);
    measure("fetch_and_op", fetch_and_op, 8, 1024);
    measure("compare_and_swap", compare_and_swap, 8, 1024);
    measure("accumulate", accumulate, 8, 1024);
    if (batches_wanted > 5) measure("get_accumulate", get_accumulate, 8 * LONGS, 2);
    measure("put_strided", put_strided, 8 * STRIDED, 16);
    measure("get_strided", get_strided, 8 * STRIDED, 16);
    close_window();
    private_window();
    packing();
}

/* Two tasks on two hosts. */
static void hosts(void)
{
    static const int sizes[] = { 8, 1024, 65536, 1 << 20 };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        measure("hosts_latency", latency_new, sizes[i], times_for(sizes[i]));
        measure("stream_hosts", stream_new, sizes[i], window_times(sizes[i]));
    }
}

/* A task for each core. */
static void cores(void)
{
    static const int sizes[] = { 8, 1024, 65536, 1 << 20 };
    prefix = "cores_";
    measure("barrier", barrier, 0, 512);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        measure("shift", shift, sizes[i], times_for(sizes[i]) / 2);
        collectives(sizes[i]);
    }
}

/* Short exchanges after short sleeps: the time that the slower task has spent in all of them. */
static void busy(void)
{
    enum { EXCHANGES = 1200, SLEEP_MICROSECONDS = 500 };
    const int bytes = 16;
    double seconds = 0, slowest;
    if (!is_wanted("busy_exchange")) return;
    for (int i = 0; i < EXCHANGES; i++) {
        usleep(SLEEP_MICROSECONDS);
        double start = MPI_Wtime();
        MPI_Sendrecv_replace(in, BYTES, 1 - rank, 1, 1 - rank, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        seconds += since(start);
    }
    MPI_Reduce(&seconds, &slowest, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    if (rank == 0) printf("busy_exchange %d %.1f\n", bytes, slowest * 1e9 / EXCHANGES);
}

static void crowd(void)
{
    measure("crowd_barrier", barrier, 0, 64);
    measure("crowd_allreduce", allreduce, 8, 64);
    measure("crowd_alltoall", alltoall, 1024, 32);
    measure("crowd_ibarrier", ibarrier, 0, 64);
    measure("crowd_iallreduce", iallreduce, 8, 64);
    measure("crowd_ialltoall", ialltoall, 1024, 32);
}

/* The first exchange among tasks that have not all sent to each other: once in a job. */
static void connect_all(void)
{
    enum { BYTES_OF_EACH = 256 };
    MPI_Barrier(MPI_COMM_WORLD);
    double start = MPI_Wtime();
    MPI_Alltoall(out, BYTES_OF_EACH, MPI_BYTE, in, BYTES_OF_EACH, MPI_BYTE, MPI_COMM_WORLD);
    double seconds = since(start);
    if (rank == 0 && is_wanted("first_alltoall")) printf("first_alltoall %d %.1f\n", size, seconds * 1e9);
}

/* Memory of a task that has exchanged a message with every other task. A page that several tasks share counts with its share. */
static void memory(void)
{
    long pss = 0, all = 0;
    char line[256];
    for (int i = 0; i < 4; i++) MPI_Alltoall(out, 64, MPI_BYTE, in, 64, MPI_BYTE, MPI_COMM_WORLD);
    FILE *file = fopen("/proc/self/smaps_rollup", "r");
    while (file && fgets(line, sizeof line, file))
        if (!strncmp(line, "Pss:", 4)) pss = atol(line + 4) * 1024;
    if (file) fclose(file);
    MPI_Reduce(&pss, &all, 1, MPI_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0) printf("memory %d %.1f\n", size, (double)all / size);
}

/* The library's text about itself. */
static void version(void)
{
    char text[MPI_MAX_LIBRARY_VERSION_STRING];
    int length;
    MPI_Get_library_version(text, &length);
    printf("%s\n", text);
}

/* The core-to-core latency of a cache line between ranks 0 and 1: the median of several batches. The library is not involved. Ranks on two
 * machines share no memory, and print nothing. */
static void core_to_core(void)
{
    enum { PAGE = 4096, ROUND_TRIPS = 500, LINE_BATCHES = 21 };
    char name[64];
    double nanoseconds[LINE_BATCHES];
    int file = -1, round_trip = 0, have_file, all_have_file;
    snprintf(name, sizeof name, "/am-compare-line-%ld", (long)getpid());
    MPI_Bcast(name, sizeof name, MPI_CHAR, 0, MPI_COMM_WORLD);
    if (rank == 0) file = shm_open(name, O_CREAT | O_EXCL | O_RDWR, 0600);
    if (rank == 0 && (file < 0 || ftruncate(file, PAGE))) {
        perror("compare: shared memory for the cores' distance");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 1) file = shm_open(name, O_RDWR, 0600);
    have_file = file >= 0;
    MPI_Allreduce(&have_file, &all_have_file, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    if (!all_have_file) {
        if (have_file) close(file);
        if (rank == 0) shm_unlink(name);
        return;
    }
    _Atomic int *line = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (line == MAP_FAILED) {
        perror("compare: shared memory for the cores' distance");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    close(file);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) shm_unlink(name);
    for (int b = 0; b < LINE_BATCHES; b++) {
        double start = MPI_Wtime();
        for (int i = 0; i < ROUND_TRIPS; i++) {
            int there = 2 * ++round_trip - 1, back = there + 1;
            if (rank == 0) atomic_store_explicit(line, there, memory_order_release);
            while (atomic_load_explicit(line, memory_order_acquire) != (rank == 0 ? back : there)) {}
            if (rank == 1) atomic_store_explicit(line, back, memory_order_release);
        }
        nanoseconds[b] = since(start) * 1e9 / ROUND_TRIPS / 2;
    }
    munmap((void *)line, PAGE);
    qsort(nanoseconds, LINE_BATCHES, sizeof *nanoseconds, by_value);
    if (rank == 0) printf("core_to_core 64 %.1f\n", nanoseconds[LINE_BATCHES / 2]);
}

int main(int argc, char **argv)
{
    int level;
    if (argc != 4) {
        fprintf(stderr, "usage: compare GROUP ONLY BATCHES\n");
        return 2;
    }
    const char *group = argv[1];
    int with_threads = !strcmp(group, "threads");
    MPI_Init_thread(&argc, &argv, with_threads ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    only = argv[2];
    batches_wanted = atoi(argv[3]);
    if (batches_wanted < 1 || batches_wanted > BATCHES_MAX) MPI_Abort(MPI_COMM_WORLD, 2);
    int is_small = !strcmp(group, "memory") || !strcmp(group, "start") || !strcmp(group, "connect") || !strcmp(group, "version");
    size_t length = is_small ? (size_t)size * 256 : BYTES_MAX;
    out = calloc(length, 1);
    in = calloc(length, 1);
    fresh = is_small ? NULL : calloc(FRESH_MAX, 1);
    if (!out || !in || (!fresh && !is_small)) MPI_Abort(MPI_COMM_WORLD, 2);
    if (!is_small) {
        memset(out, 0, length);
        memset(in, 0, length);
        memset(fresh, 0, FRESH_MAX);
    }
    int have_cores =
        size == 2 && (with_threads || !strcmp(group, "pair") || !strcmp(group, "hosts") || !strcmp(group, "kernels"));
    if (have_cores) core_to_core();
    if (with_threads && level >= MPI_THREAD_MULTIPLE) {
        measure("threads_one_pair", threads_one_pair, 8, 1024);
        measure("threads_two_pairs", threads_two_pairs, 8, 1024);
    }
    if (!strcmp(group, "one_core")) measure("one_core", latency_new, 8, 1024);
    if (!strcmp(group, "below")) measure("mpi_beside_amsend", latency_new, 8, 1024);
    if (!strcmp(group, "pair") && size == 2) pair();
    if (!strcmp(group, "hosts") && size == 2) hosts();
    if (!strcmp(group, "cores")) cores();
    if (!strcmp(group, "busy") && size == 2) busy();
    if (!strcmp(group, "crowd")) crowd();
    if (!strcmp(group, "kernels")) kernels();
    if (!strcmp(group, "files")) files();
    if (!strcmp(group, "connect")) connect_all();
    if (!strcmp(group, "memory")) memory();
    if (!strcmp(group, "version")) version();
    if (have_cores) core_to_core();
    free(fresh);
    free(out);
    free(in);
    MPI_Finalize();
    return 0;
}
