/* Runs one call of OpenSHMEM on memory that both PEs have mapped, for the program `instruction_count`: count_shmem CALL BYTES MESSAGES TURNS
 * The instructions of PE 1 inside the functions named counted_* are counted; PE 0 makes no call meanwhile. */
#include <shmem.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define COUNTED __attribute__((noinline, noclone))

static long *heap, of_statics, here[1024];
static size_t bytes;

typedef void Step(void);

COUNTED void counted_p(void) { shmem_long_p(heap, 5, 0); }
COUNTED void counted_g(void) { here[0] += shmem_long_g(heap, 0); }
COUNTED void counted_fetch_add(void) { here[0] += shmem_long_atomic_fetch_add(heap, 1, 0); }
COUNTED void counted_putmem(void) { shmem_putmem(heap, here, bytes, 0); }
COUNTED void counted_getmem(void) { shmem_getmem(here, heap, bytes, 0); }
COUNTED void counted_p_static(void) { shmem_long_p(&of_statics, 5, 0); }

static const struct {
    const char *name;
    Step *step;
} steps[] = {
    { "p", counted_p }, { "g", counted_g }, { "fetch_add", counted_fetch_add },
    { "putmem", counted_putmem }, { "getmem", counted_getmem }, { "p_static", counted_p_static },
};

int main(int argc, char **argv)
{
    shmem_init();
    heap = shmem_malloc(sizeof here);
    if (argc < 5 || heap == NULL) shmem_global_exit(2);
    bytes = (size_t)atoi(argv[2]);
    Step *step = NULL;
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++)
        if (!strcmp(argv[1], steps[i].name)) step = steps[i].step;
    if (step == NULL || bytes > sizeof here) shmem_global_exit(2);
    /* The first calls bind the names, and are not counted. */
    shmem_long_p(heap, 1, 1), shmem_long_g(heap, 1), shmem_long_atomic_fetch_add(heap, 1, 1);
    shmem_putmem(heap, here, bytes, 1), shmem_getmem(here, heap, bytes, 1), shmem_long_p(&of_statics, 1, 1);
    shmem_barrier_all();
    /* PE 0 waits outside the library: a call that stores would wake it. */
    char name[4096], x = 0;
    snprintf(name, sizeof name, "%s.0", argv[4]);
    int turn = open(name, O_RDWR);
    if (turn < 0) shmem_global_exit(2);
    if (shmem_my_pe() == 1) {
        for (int i = 0; i < 16; i++) shmem_long_p(heap, 1, 0);
        for (int i = 0; i < atoi(argv[3]); i++) step();
        if (write(turn, &x, 1) != 1) shmem_global_exit(2);
    } else if (read(turn, &x, 1) != 1)
        shmem_global_exit(2);
    shmem_barrier_all();
    shmem_finalize();
    return 0;
}
