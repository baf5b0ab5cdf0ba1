// The header in C++, and the profiling names (OpenSHMEM 1.6, section 10): a call of the program's own stands before the library's.
#include <shmem.h>
#include <cstdio>

static long word;
static int calls;

extern "C" void shmem_long_p(long *dest, long value, int pe) {
    calls++;
    pshmem_long_p(dest, value, pe);
}

int main() {
    start_pes(0);
    int me = _my_pe(), pes = _num_pes();
    shmem_long_p(&word, me + 1, (me + 1) % pes);
    shmem_long_wait_until(&word, SHMEM_CMP_NE, 0);
    pshmem_barrier_all();
    if (calls != 1 || word != (me + pes - 1) % pes + 1)
        shmem_global_exit(1);
    long *block = static_cast<long *>(shmalloc(80));
    shfree(block);
    shmem_pcontrol(1);
    if (me == 0)
        std::puts("all good");
    return 0; // As old programs do: without shmem_finalize.
}
