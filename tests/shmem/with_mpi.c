/* MPI and OpenSHMEM in one program: begun and ended in either order, a PE's number is its rank, both reach the same memory, and what one
   says is ordered with what the other does by its own rules. ORDER is 0 to 3: bit 0, shmem_init is first; bit 1, MPI_Finalize is last.
   With THREADS, a thread of each task calls MPI while the main thread calls OpenSHMEM. */
#include "check.h"
#include <mpi.h>
#include <pthread.h>

#ifndef ORDER
#define ORDER 0
#endif
#ifndef THREADS
#define THREADS 0
#endif

enum { WORDS = 100000, ROUNDS = 300 };

static long fixed[WORDS], flag, turn, sums[2], counted;

static void begin_mpi(void) {
    int level = -1;
    CHECK(MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &level) == MPI_SUCCESS && level == MPI_THREAD_MULTIPLE);
}

/* A message of `words` words from one symmetric object of each task to the next one's. */
static void ring_of(long *from, long *to, int words) {
    int next = (me + 1) % pes, last = (me + pes - 1) % pes;
    for (int i = 0; i < words; i++)
        from[i] = 1000L * me + i;
    memset(to, 0, words * sizeof *to);
    MPI_Status status;
    CHECK(MPI_Sendrecv(from, words, MPI_LONG, next, 5, to, words, MPI_LONG, last, 5, MPI_COMM_WORLD, &status) == MPI_SUCCESS);
    int got;
    CHECK(MPI_Get_count(&status, MPI_LONG, &got) == MPI_SUCCESS && got == words && status.MPI_SOURCE == last);
    for (int i = 0; i < words; i++)
        CHECK(to[i] == 1000L * last + i);
}

static void turns(void) {
    int next = (me + 1) % pes, last = (me + pes - 1) % pes;
    /* What was put before a message is there when the message has come. */
    for (long round = 1; round <= ROUNDS; round++) {
        shmem_p(&turn, round, next);
        shmem_quiet();
        MPI_Request request;
        CHECK(MPI_Isend(&round, 1, MPI_LONG, next, 6, MPI_COMM_WORLD, &request) == MPI_SUCCESS);
        long said = 0;
        CHECK(MPI_Recv(&said, 1, MPI_LONG, last, 6, MPI_COMM_WORLD, MPI_STATUS_IGNORE) == MPI_SUCCESS);
        CHECK(said == round && turn >= round);
        CHECK(MPI_Wait(&request, MPI_STATUS_IGNORE) == MPI_SUCCESS);
    }
    /* A wait of OpenSHMEM ends by what a PE stores after it has received a message. */
    for (long round = 1; round <= ROUNDS; round++) {
        CHECK(MPI_Send(&round, 1, MPI_LONG, next, 7, MPI_COMM_WORLD) == MPI_SUCCESS);
        long said = 0;
        CHECK(MPI_Recv(&said, 1, MPI_LONG, last, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE) == MPI_SUCCESS && said == round);
        shmem_p(&flag, round, last);
        shmem_wait_until(&flag, SHMEM_CMP_GE, round);
    }
}

/* A window of MPI over symmetric memory. */
static void window(void) {
    long *memory = shmem_malloc(64 * sizeof *memory);
    MPI_Win win;
    for (int i = 0; i < 64; i++)
        memory[i] = -1;
    CHECK(MPI_Win_create(memory, 64 * sizeof *memory, sizeof *memory, MPI_INFO_NULL, MPI_COMM_WORLD, &win) == MPI_SUCCESS);
    CHECK(MPI_Win_fence(0, win) == MPI_SUCCESS);
    long value = 40 + me;
    CHECK(MPI_Put(&value, 1, MPI_LONG, (me + 1) % pes, me, 1, MPI_LONG, win) == MPI_SUCCESS);
    CHECK(MPI_Win_fence(0, win) == MPI_SUCCESS);
    shmem_barrier_all();
    for (int pe = 0; pe < pes; pe++)
        CHECK(shmem_g(memory + (pe + pes - 1) % pes, pe) == 40 + (pe + pes - 1) % pes);
    CHECK(MPI_Win_free(&win) == MPI_SUCCESS);
    shmem_free(memory);
}

static void *in_mpi(void *unused) {
    (void)unused;
    static long from[WORDS], to[WORDS];
    for (int round = 0; round < 20; round++) {
        ring_of(from, to, round % 2 ? 100 : WORDS);
        CHECK(MPI_Barrier(MPI_COMM_WORLD) == MPI_SUCCESS);
    }
    return NULL;
}

static void threads(void) {
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, in_mpi, NULL) == 0);
    for (int round = 1; round <= 200; round++) {
        for (int pe = 0; pe < pes; pe++)
            shmem_atomic_inc(&counted, pe);
        shmem_barrier_all();
        CHECK(counted == (long)round * pes);
        shmem_barrier_all();
    }
    CHECK(pthread_join(thread, NULL) == 0);
}

int main(void) {
    flag = 77; /* statics keep what they hold, whichever library is first */
    if (ORDER & 1) {
        begin();
        begin_mpi();
    } else {
        begin_mpi();
        begin();
    }
    int rank, size, is_initialized;
    CHECK(MPI_Comm_rank(MPI_COMM_WORLD, &rank) == MPI_SUCCESS && rank == me);
    CHECK(MPI_Comm_size(MPI_COMM_WORLD, &size) == MPI_SUCCESS && size == pes);
    CHECK(MPI_Initialized(&is_initialized) == MPI_SUCCESS && is_initialized);
    shmem_query_initialized(&is_initialized);
    CHECK(is_initialized && flag == 77);
    flag = 0;
    shmem_barrier_all();
    long *heap = shmem_malloc(WORDS * sizeof *heap);
    ring_of(heap, fixed, WORDS);
    ring_of(fixed, heap, WORDS);
    ring_of(heap, fixed, 1);
    turns();
    window();
    long value = me + 1;
    CHECK(MPI_Allreduce(&value, sums, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD) == MPI_SUCCESS);
    sums[1] = 0;
    fixed[0] = value;
    CHECK(shmem_sum_reduce(SHMEM_TEAM_WORLD, sums + 1, fixed, 1) == 0);
    CHECK(sums[0] == sums[1] && sums[0] == (long)pes * (pes + 1) / 2);
    if (THREADS)
        threads();
    shmem_free(heap);
    if (ORDER & 2) {
        shmem_barrier_all();
        shmem_finalize();
        CHECK(MPI_Barrier(MPI_COMM_WORLD) == MPI_SUCCESS);
        if (rank == 0)
            puts("all good");
        return MPI_Finalize();
    }
    if (MPI_Finalize() != MPI_SUCCESS)
        return 1;
    shmem_p(&turn, -1L, (me + 1) % pes);
    shmem_barrier_all();
    CHECK(turn == -1);
    return end();
}
