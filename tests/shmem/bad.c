/* Bad input, one kind in each run: the job ends with an error that names the call, the argument, the value, the PE. Nothing is written. */
#include "check.h"
#include <signal.h>

static long word, guard[4] = {1, 2, 3, 4};
static shmem_team_t team;

int main(int argc, char **argv) {
    int kind = argc > 1 ? atoi(argv[1]) : 0;
    if (kind == 1)
        shmem_barrier_all();
    begin();
    long *heap = shmem_malloc(64), local = 0;
    int next = (me + 1) % pes;
    switch (kind) {
    case 2: shmem_long_p(&word, 1, pes); break;
    case 3: shmem_long_p(&word, 1, -1); break;
    case 4: shmem_long_p(&local, 1, next); break;
    case 5: shmem_putmem(heap, guard, (size_t)1 << 40, next); break;
    case 6: shmem_getmem(&local, guard, (size_t)1 << 30, next); break;
    case 7: shmem_long_atomic_add((long *)((char *)heap + 1), 1, next); break;
    case 8: shmem_free(heap + 1); break;
    case 9: shmem_malloc(me == 0 ? 64 : 128); break;
    case 10: shmem_long_wait_until(&word, 77, 1); break;
    case 11: shmem_long_broadcast(SHMEM_TEAM_WORLD, &word, guard, 1, pes); break;
    case 12: shmem_barrier(0, 0, pes + 1, guard); break;
    case 13: shmem_clear_lock(heap); break;
    case 14:
        shmem_team_split_strided(SHMEM_TEAM_WORLD, 0, 1, pes, NULL, 0, &team);
        shmem_team_destroy(team);
        shmem_team_sync(team);
        break;
    case 15: shmem_ctx_long_p(SHMEM_CTX_INVALID, &word, 1, next); break;
    case 16: shmem_long_iput(heap, guard, 0, 1, 3, next); break;
    case 17: shmem_align(48, 64); break;
    case 18: shmem_long_put_signal(&word, guard, 1, (uint64_t *)heap, 1, 9, next); break;
    case 19:
        shmem_finalize();
        shmem_my_pe();
        break;
    case 20: shmem_free(heap), shmem_free(heap); break;
    case 21: shmem_global_exit(23); break;
    case 22:
        if (me == 0)
            shmem_global_exit(0);
        shmem_long_wait_until(&word, SHMEM_CMP_EQ, 1);
        break;
    case 23:
        shmem_barrier_all();
        if (me == 1)
            raise(SIGKILL);
        shmem_long_wait_until(&word, SHMEM_CMP_EQ, 1);
        break;
    case 24:
        if (me == 0)
            shmem_long_wait_until(&guard[2], SHMEM_CMP_EQ, 77);
        shmem_barrier_all();
        break;
    default: break;
    }
    return kind == 0 ? end() : 0;
}
