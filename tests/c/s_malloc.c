/* The program's memory with and without `mpiexec --shared-malloc`: which blocks are in job memory, that the contents of all blocks are
   right before MPI_Init, after it, after MPI_Finalize and in forked copies, and that messages between blocks arrive. The argument is the
   expected case: shared, plain, or little (shared, but the job memory does not suffice). */
#define _GNU_SOURCE
#include "check.h"
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LARGE = 1 << 20, SLOTS = 24, STEPS = 4000, THREADS = 3 };

static int shared, little;

/* Whether an address is in job memory. */
static int is_job(const void *at) {
    FILE *maps = fopen("/proc/self/maps", "r");
    char line[4096];
    int found = 0;
    while (fgets(line, sizeof line, maps)) {
        unsigned long from, to;
        if (sscanf(line, "%lx-%lx", &from, &to) == 2 && (uintptr_t)at >= from && (uintptr_t)at < to)
            found = strstr(line, "am-heap") != NULL;
    }
    fclose(maps);
    return found;
}

/* Checks where a large block is: in job memory exactly if that is enabled. If job memory may not suffice, either place is right. */
static void check_place(const void *at) {
    CHECK(at != NULL);
    if (!little)
        CHECK(is_job(at) == shared);
}

static int is_full_of(const unsigned char *at, size_t len, int byte) {
    for (size_t i = 0; i < len; i++)
        if (at[i] != byte)
            return 0;
    return 1;
}

static void functions(void) {
    unsigned char *block = malloc(LARGE), *other;
    void *placed = NULL;
    check_place(block);
    CHECK((uintptr_t)block % 16 == 0 && malloc_usable_size(block) >= LARGE);
    memset(block, 1, LARGE);
    free(block);
    block = calloc(LARGE / 8, 8);
    check_place(block);
    CHECK(is_full_of(block, LARGE, 0));
    memset(block, 2, LARGE);
    block = realloc(block, 3 * LARGE);
    check_place(block);
    CHECK(is_full_of(block, LARGE, 2));
    memset(block, 3, 3 * LARGE);
    other = realloc(block, 3 * LARGE + 100);
    CHECK(is_full_of(other, 3 * LARGE, 3));
    block = realloc(other, 100);
    CHECK(!is_job(block) && is_full_of(block, 100, 3));
    block = realloc(block, 2 * LARGE);
    check_place(block);
    CHECK(is_full_of(block, 100, 3));
    CHECK(realloc(block, 0) == NULL);
    for (size_t alignment = sizeof(void *); alignment <= 4 << 20; alignment *= 2) {
        CHECK(posix_memalign(&placed, alignment, LARGE) == 0);
        check_place(placed);
        CHECK((uintptr_t)placed % alignment == 0 && malloc_usable_size(placed) >= LARGE);
        memset(placed, 4, LARGE);
        free(placed);
    }
    placed = block;
    CHECK(posix_memalign(&placed, 24, LARGE) == EINVAL && posix_memalign(&placed, 2, LARGE) == EINVAL);
    CHECK(placed == block);
    placed = aligned_alloc(256, LARGE);
    check_place(placed);
    CHECK((uintptr_t)placed % 256 == 0);
    free(placed);
    placed = valloc(LARGE);
    CHECK((uintptr_t)placed % sysconf(_SC_PAGESIZE) == 0);
    free(placed);
    volatile size_t much = SIZE_MAX / 2, most = SIZE_MAX - 10;
    CHECK(malloc(most) == NULL && calloc(much, 4) == NULL && reallocarray(NULL, much, 4) == NULL);
    placed = malloc(1000);
    CHECK(!is_job(placed));
    free(placed);
    errno = 77;
    free(malloc(LARGE));
    free(NULL);
    CHECK(errno == 77 || errno == 0);
}

/* Random calls of one thread; each block is filled with a byte value of its own. */
static void *random_calls(void *argument) {
    unsigned seed = 12345u + (unsigned)(uintptr_t)argument;
    unsigned char *blocks[SLOTS] = {0};
    size_t lengths[SLOTS] = {0};
    for (int step = 0; step < STEPS; step++) {
        int slot = rand_r(&seed) % SLOTS;
        size_t len = 1 + rand_r(&seed) % (rand_r(&seed) % 4 ? 5000 : 400000);
        size_t kept = 0;
        unsigned char *old = blocks[slot], *new = NULL;
        CHECK(!old || (old[0] == slot + 1 && old[lengths[slot] - 1] == slot + 1));
        switch (rand_r(&seed) % 4) {
        case 0:
            free(old), new = malloc(len);
            break;
        case 1:
            free(old), new = calloc(1, len);
            CHECK(is_full_of(new, len, 0));
            break;
        case 2:
            kept = old ? (len < lengths[slot] ? len : lengths[slot]) : 0;
            new = realloc(old, len);
            break;
        default:
            free(old), new = aligned_alloc(64, len);
            CHECK((uintptr_t)new % 64 == 0);
        }
        CHECK(new && (uintptr_t)new % 16 == 0 && is_full_of(new, kept, slot + 1));
        memset(new, slot + 1, len);
        blocks[slot] = new, lengths[slot] = len;
    }
    for (int slot = 0; slot < SLOTS; slot++)
        free(blocks[slot]);
    return NULL;
}

static void threads(void) {
    pthread_t all[THREADS];
    for (uintptr_t i = 0; i < THREADS; i++)
        pthread_create(&all[i], NULL, random_calls, (void *)i);
    for (int i = 0; i < THREADS; i++)
        pthread_join(all[i], NULL);
}

/* Blocks are sent around the ring. Meanwhile the task forks a copy, which writes to its own memory. */
static void ring(int forks) {
    unsigned char *out = malloc(LARGE), *in = malloc(LARGE), *aside = malloc(LARGE);
    int left = (rank + size - 1) % size, right = (rank + 1) % size, status = 0;
    MPI_Request receive;
    memset(out, 10 + rank, LARGE);
    memset(in, 200, LARGE);
    memset(aside, 7, LARGE);
    MPI_Irecv(in, LARGE, MPI_BYTE, left, 0, MPI_COMM_WORLD, &receive);
    pid_t child = forks ? fork() : 0;
    if (forks && child == 0) {
        int good = is_full_of(out, LARGE, 10 + rank) && is_full_of(aside, LARGE, 7) && is_full_of(in, 100, in[0]);
        memset(out, 99, LARGE), memset(in, 99, LARGE), memset(aside, 99, LARGE);
        usleep(20000);
        good = good && is_full_of(in, LARGE, 99);
        unsigned char *grown = realloc(aside, 3 * LARGE), *own = malloc(LARGE);
        good = good && grown && own && is_full_of(grown, LARGE, 99) && !is_job(own) && !is_job(grown);
        memset(own, 98, LARGE);
        free(own), free(grown), free(in), free(out);
        random_calls((void *)50);
        _exit(good ? 0 : 3);
    }
    CHECK(child >= 0);
    MPI_Send(out, LARGE, MPI_BYTE, right, 0, MPI_COMM_WORLD);
    MPI_Wait(&receive, MPI_STATUS_IGNORE);
    CHECK(is_full_of(in, LARGE, 10 + left) && is_full_of(out, LARGE, 10 + rank) && is_full_of(aside, LARGE, 7));
    if (forks) {
        CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
        CHECK(system("exit 5") == 5 << 8);
        CHECK(is_full_of(in, LARGE, 10 + left) && is_full_of(out, LARGE, 10 + rank) && is_full_of(aside, LARGE, 7));
    }
    free(out), free(in), free(aside);
}

int main(int argc, char **argv) {
    CHECK(argc == 2);
    shared = !strcmp(argv[1], "shared"), little = !strcmp(argv[1], "little");
    unsigned char *early = malloc(LARGE), *grown = malloc(LARGE);
    CHECK(!is_job(early) && !is_job(grown));
    memset(early, 5, LARGE), memset(grown, 6, LARGE);
    begin(&argc, &argv);
    functions();
    threads();
    for (int i = 0; i < 6; i++)
        ring(i % 2);
    grown = realloc(grown, 2 * LARGE);
    check_place(grown);
    CHECK(is_full_of(early, LARGE, 5) && is_full_of(grown, LARGE, 6));
    unsigned char *allocated;
    MPI_Alloc_mem(LARGE, MPI_INFO_NULL, &allocated);
    CHECK(little || is_job(allocated));
    memset(allocated, 8, LARGE);
    MPI_Free_mem(allocated);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    CHECK(is_full_of(early, LARGE, 5) && is_full_of(grown, LARGE, 6));
    grown = realloc(grown, 5 * LARGE);
    unsigned char *late = malloc(LARGE);
    CHECK(!is_job(late) && !is_job(grown) && is_full_of(grown, LARGE, 6));
    free(late), free(early), free(grown);
    if (rank == 0)
        printf("all good\n");
    return 0;
}
