/* The symmetric heap, static data, and what children of fork see (OpenSHMEM 1.6, sections 3 and 9.3). */
#include "check.h"
#include <sys/wait.h>
#include <unistd.h>

static int initialised[3000] = {1, 2, 3}, zero[100000];
int visible = 7;

int main(void) {
    int before = 0;
    shmem_query_initialized(&before);
    CHECK(before == 0 && initialised[2] == 3);
    visible = 8;
    begin();
    int next = (me + 1) % pes, last = (me + pes - 1) % pes;
    CHECK(visible == 8 && initialised[2] == 3 && zero[99999] == 0);
    shmem_barrier_all();
    shmem_int_p(&visible, 100 + me, next);
    shmem_int_p(&zero[99999], 200 + me, next);
    shmem_int_p(&initialised[2999], 300 + me, next);
    shmem_barrier_all();
    CHECK(visible == 100 + last && zero[99999] == 200 + last && initialised[2999] == 300 + last);
    /* A child has a copy: what it stores is its own. */
    shmem_barrier_all();
    pid_t child = fork();
    if (child == 0) {
        visible = -1;
        _exit(zero[99999] == 200 + last ? 42 : 43);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 42);
    CHECK(visible == 100 + last);
    FILE *echo = popen("echo hello", "r");
    char line[16];
    CHECK(echo != NULL && fgets(line, sizeof line, echo) != NULL && strcmp(line, "hello\n") == 0 && pclose(echo) == 0);
    shmem_barrier_all();

    CHECK(shmem_malloc(0) == NULL && shmem_calloc(0, 8) == NULL);
    long *first = shmem_malloc(1000), *second = shmem_calloc(50, sizeof(long));
    for (int i = 0; i < 50; i++)
        CHECK(second[i] == 0);
    memset(first, me, 1000);
    for (size_t alignment = 64; alignment <= 1 << 20; alignment *= 4) {
        char *aligned = shmem_align(alignment, 10);
        CHECK((uintptr_t)aligned % alignment == 0);
        shmem_char_p(aligned + 9, (char)me, next);
        shmem_barrier_all();
        CHECK(aligned[9] == (char)last);
        shmem_free(aligned);
    }
    char *grown = shmem_realloc(first, 100000);
    CHECK(grown[0] == me && grown[999] == me);
    char *again = shmem_realloc(grown, 50);
    CHECK(again == grown);
    long *hinted = shmem_malloc_with_hints(64, SHMEM_MALLOC_ATOMICS_REMOTE | SHMEM_MALLOC_SIGNAL_REMOTE);
    CHECK(hinted != NULL);
    /* More than there is: null at all PEs, and the heap goes on. */
    CHECK(shmem_malloc((size_t)1 << 45) == NULL);
    /* The same calls give the same offsets: PE 0 tells its own. */
    static ptrdiff_t offset;
    ptrdiff_t own = (char *)hinted - grown;
    shmem_ptrdiff_broadcast(SHMEM_TEAM_WORLD, &offset, &own, 1, 0);
    CHECK(offset == own);
    shmem_free(hinted);
    shmem_free(second);
    shmem_free(grown);
    shmem_free(NULL);
    /* What was freed comes together again. */
    char *blocks[100];
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 100; i++) {
            blocks[i] = shmem_malloc((size_t)(i + 1) * 100000);
            CHECK(blocks[i] != NULL);
        }
        for (int i = 0; i < 100; i++)
            shmem_free(blocks[i * 37 % 100]);
    }
    char *most = shmem_malloc((size_t)1000 << 20);
    CHECK(most != NULL);
    most[1000] = 1;
    shmem_free(most);
    int major, minor;
    char name[SHMEM_MAX_NAME_LEN];
    shmem_info_get_version(&major, &minor);
    shmem_info_get_name(name);
    CHECK(major == SHMEM_MAJOR_VERSION && minor == SHMEM_MINOR_VERSION && strcmp(name, SHMEM_VENDOR_STRING) == 0);
    shmem_query_initialized(&before);
    CHECK(before == 1);
    return end();
}
