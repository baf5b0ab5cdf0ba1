/* Each PE writes into a static variable of the next, and waits for what the one before it writes. */
#include <shmem.h>
#include <stdio.h>

static long greeting; /* symmetric: every PE has it, and others can write it */

int main(void) {
    shmem_init();
    int me = shmem_my_pe(), pes = shmem_n_pes();
    int next = (me + 1) % pes, last = (me + pes - 1) % pes;
    shmem_long_p(&greeting, me + 1, next);
    shmem_long_wait_until(&greeting, SHMEM_CMP_NE, 0);
    if (greeting != last + 1)
        shmem_global_exit(1);
    printf("PE %d of %d: PE %d wrote here\n", me, pes, last);
    shmem_barrier_all();
    if (me == 0)
        puts("all good");
    shmem_finalize();
    return 0;
}
