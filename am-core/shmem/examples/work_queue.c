/* Work that PEs take when they have nothing to do: a counter at PE 0 gives the next piece, and results come back by puts with a signal. */
#include <shmem.h>
#include <stdio.h>
#include <stdlib.h>

enum { PIECES = 400 };

static long next_piece;
static long results[PIECES];
static uint64_t done; /* at PE 0: how many results have come */

/* The number of steps of the Collatz sequence, summed over some numbers: pieces take different times. */
static long work(long piece) {
    long steps = 0;
    for (long begin = piece * 50 + 1; begin <= piece * 50 + 50; begin++)
        for (long n = begin; n != 1; steps++)
            n = n % 2 ? 3 * n + 1 : n / 2;
    return steps;
}

int main(void) {
    shmem_init();
    int me = shmem_my_pe(), pes = shmem_n_pes();
    long mine = 0;
    for (;;) {
        long piece = shmem_long_atomic_fetch_inc(&next_piece, 0);
        if (piece >= PIECES)
            break;
        long result = work(piece);
        shmem_long_put_signal(&results[piece], &result, 1, &done, 1, SHMEM_SIGNAL_ADD, 0);
        mine++;
    }
    printf("PE %d of %d did %ld pieces\n", me, pes, mine);
    if (me == 0) {
        shmem_signal_wait_until(&done, SHMEM_CMP_EQ, PIECES);
        for (long piece = 0; piece < PIECES; piece++)
            if (results[piece] != work(piece))
                shmem_global_exit(1);
        puts("all good");
    }
    shmem_finalize();
    return 0;
}
