/* SHMEM_THREAD_MULTIPLE (OpenSHMEM 1.6, section 9.2): threads with contexts of their own, waits of several threads, teams of threads. */
#include "check.h"
#include <pthread.h>

enum { THREADS = 4, ROUNDS = 300 };

static long counters[THREADS], flags[THREADS], sums_in[THREADS], sums_out[THREADS];
static shmem_team_t teams[THREADS];

static void *work(void *argument) {
    long number = (long)(intptr_t)argument;
    shmem_ctx_t ctx;
    CHECK(shmem_ctx_create(SHMEM_CTX_PRIVATE, &ctx) == 0);
    int next = (me + 1) % pes;
    for (long round = 1; round <= ROUNDS; round++) {
        shmem_atomic_add(ctx, &counters[number], 1L, next);
        shmem_ctx_quiet(ctx);
        shmem_p(ctx, &flags[number], round, next);
        shmem_wait_until(&flags[number], SHMEM_CMP_GE, round);
    }
    for (long round = 0; round < 20; round++) {
        sums_in[number] = me + round + number;
        CHECK(shmem_sum_reduce(teams[number], &sums_out[number], &sums_in[number], 1) == 0);
        CHECK(sums_out[number] == pes * (pes - 1) / 2 + pes * (round + number));
    }
    shmem_ctx_destroy(ctx);
    return NULL;
}

int main(void) {
    int provided;
    CHECK(shmem_init_thread(SHMEM_THREAD_MULTIPLE, &provided) == 0 && provided == SHMEM_THREAD_MULTIPLE);
    me = shmem_my_pe();
    pes = shmem_n_pes();
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        CHECK(shmem_team_split_strided(SHMEM_TEAM_WORLD, 0, 1, pes, NULL, 0, &teams[i]) == 0);
    for (long i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, work, (void *)(intptr_t)i) == 0);
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    shmem_barrier_all();
    for (int i = 0; i < THREADS; i++)
        CHECK(counters[i] == ROUNDS);
    return end();
}
