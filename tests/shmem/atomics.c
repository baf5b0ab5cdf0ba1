/* Atomic operations (OpenSHMEM 1.6, section 9.7): every type and form. All PEs add to a word of each. */
#include "check.h"

#define ADDS(NAME, TYPE)                                                                            \
    static TYPE word_##NAME;                                                                        \
    static void adds_##NAME(void) {                                                                 \
        TYPE old, *heap = shmem_calloc(2, sizeof(TYPE));                                            \
        for (int pe = 0; pe < pes; pe++) {                                                          \
            shmem_##NAME##_atomic_add(&word_##NAME, 3, pe);                                         \
            shmem_atomic_inc(&word_##NAME, pe);                                                     \
            old = shmem_atomic_fetch_add(SHMEM_CTX_DEFAULT, heap, 2, pe);                           \
            CHECK(old % 3 <= 2 && old < (TYPE)(3 * pes));                                           \
            shmem_ctx_##NAME##_atomic_fetch_inc_nbi(SHMEM_CTX_DEFAULT, &old, heap, pe);             \
            shmem_quiet();                                                                          \
            CHECK(old >= 2 && old < (TYPE)(3 * pes));                                               \
        }                                                                                           \
        shmem_barrier_all();                                                                        \
        CHECK(word_##NAME == (TYPE)(4 * pes) && heap[0] == (TYPE)(3 * pes));                        \
        /* Of all that try, one changes the word. */                                                \
        old = shmem_atomic_compare_swap(heap + 1, 0, (TYPE)(me + 1), 0);                            \
        CHECK(old <= (TYPE)pes);                                                                    \
        shmem_##NAME##_atomic_compare_swap_nbi(&old, heap + 1, (TYPE)(pes + 9), 1, 0);              \
        shmem_barrier_all();                                                                        \
        if (me == 0)                                                                                \
            CHECK(heap[1] >= 1 && heap[1] <= (TYPE)pes);                                            \
        CHECK(shmem_##NAME##_fadd(&word_##NAME, 0, me) == (TYPE)(4 * pes));                         \
        shmem_free(heap);                                                                           \
    }
FOR_AMO(ADDS)

#define SWAPS(NAME, TYPE)                                                                           \
    static TYPE swapped_##NAME;                                                                     \
    static void swaps_##NAME(void) {                                                                \
        TYPE old;                                                                                   \
        int next = (me + 1) % pes, last = (me + pes - 1) % pes;                                     \
        shmem_atomic_set(&swapped_##NAME, (TYPE)(me + 1), next);                                    \
        shmem_barrier_all();                                                                        \
        CHECK(shmem_atomic_fetch(&swapped_##NAME, me) == (TYPE)(last + 1));                         \
        shmem_barrier_all();                                                                        \
        shmem_##NAME##_atomic_fetch_nbi(&old, &swapped_##NAME, next);                               \
        shmem_quiet();                                                                              \
        CHECK(old == (TYPE)(me + 1));                                                               \
        CHECK(shmem_atomic_swap(SHMEM_CTX_DEFAULT, &swapped_##NAME, (TYPE)(me + 50), next) == (TYPE)(me + 1)); \
        shmem_atomic_swap_nbi(&old, &swapped_##NAME, (TYPE)(me + 60), next);                        \
        shmem_quiet();                                                                              \
        CHECK(old == (TYPE)(me + 50) && shmem_##NAME##_fetch(&swapped_##NAME, next) == (TYPE)(me + 60)); \
        shmem_barrier_all();                                                                        \
    }
FOR_EXTENDED(SWAPS)

#define BITS(NAME, TYPE)                                                                            \
    static TYPE bits_##NAME[3];                                                                     \
    static void bits_of_##NAME(void) {                                                              \
        TYPE bit = (TYPE)1 << me, all = ((TYPE)1 << pes) - 1, old;                                  \
        bits_##NAME[0] = all;                                                                       \
        shmem_barrier_all();                                                                        \
        for (int pe = 0; pe < pes; pe++) {                                                          \
            shmem_atomic_and(bits_##NAME, (TYPE)~bit, pe);                                          \
            CHECK((shmem_atomic_fetch_and(bits_##NAME, all, pe) & bit) == 0);                       \
            shmem_##NAME##_atomic_or(bits_##NAME + 1, bit, pe);                                     \
            CHECK((shmem_##NAME##_atomic_fetch_or(bits_##NAME + 1, bit, pe) & bit) != 0);           \
            shmem_atomic_xor(bits_##NAME + 2, bit, pe);                                             \
            shmem_##NAME##_atomic_fetch_xor_nbi(&old, bits_##NAME + 2, 0, pe);                      \
            shmem_quiet();                                                                          \
            CHECK((old & bit) != 0);                                                                \
        }                                                                                           \
        shmem_barrier_all();                                                                        \
        CHECK(bits_##NAME[0] == 0 && bits_##NAME[1] == all && bits_##NAME[2] == all);               \
    }
FOR_BITS(BITS)

static long lock, guarded;

int main(void) {
    begin();
#define CALLS(NAME, TYPE) adds_##NAME();
    FOR_AMO(CALLS)
#undef CALLS
#define CALLS(NAME, TYPE) swaps_##NAME();
    FOR_EXTENDED(CALLS)
#undef CALLS
#define CALLS(NAME, TYPE) bits_of_##NAME();
    FOR_BITS(CALLS)
    /* Locks (section 9.13): a word that is read, changed and written under a lock. */
    for (int round = 0; round < 20; round++) {
        if (round % 2 == 0)
            shmem_set_lock(&lock);
        else
            while (shmem_test_lock(&lock)) {
            }
        long value = shmem_g(&guarded, 0);
        shmem_p(&guarded, value + 1, 0);
        shmem_clear_lock(&lock);
    }
    shmem_barrier_all();
    if (me == 0)
        CHECK(guarded == 20 * pes);
    return end();
}
