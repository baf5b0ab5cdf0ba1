/* Waits and tests on words, one and many, and signals (OpenSHMEM 1.6, sections 9.8 and 9.11). */
#include "check.h"
#include <unistd.h>

enum { WORDS = 6 };

#define OF_TYPE(NAME, TYPE)                                                                         \
    static TYPE word_##NAME, words_##NAME[WORDS];                                                   \
    static void test_##NAME(void) {                                                                 \
        int next = (me + 1) % pes, status[WORDS] = {0, 1, 0, 0, 0, 0};                              \
        size_t indices[WORDS];                                                                      \
        TYPE values[WORDS] = {1, 9, 3, 4, 5, 6};                                                    \
        CHECK(!shmem_test(&word_##NAME, SHMEM_CMP_NE, 0) && shmem_test(&word_##NAME, SHMEM_CMP_LE, 0)); \
        shmem_barrier_all();                                                                        \
        shmem_p(&word_##NAME, 7, next);                                                             \
        shmem_wait_until(&word_##NAME, SHMEM_CMP_GE, 7);                                            \
        shmem_##NAME##_wait_until(&word_##NAME, SHMEM_CMP_GT, 6);                                   \
        shmem_wait_until(&word_##NAME, SHMEM_CMP_LT, 8);                                            \
        for (int i = 0; i < WORDS; i++)                                                             \
            if (i != 1)                                                                             \
                shmem_p(words_##NAME + i, (TYPE)(i + 1), next);                                     \
        shmem_wait_until_all(words_##NAME, WORDS, status, SHMEM_CMP_GT, 0);                         \
        CHECK(shmem_test_all(words_##NAME, WORDS, status, SHMEM_CMP_GT, 0));                        \
        shmem_wait_until_all_vector(words_##NAME, WORDS, status, SHMEM_CMP_EQ, values);             \
        CHECK(shmem_test_all_vector(words_##NAME, WORDS, status, SHMEM_CMP_EQ, values));            \
        CHECK(!shmem_test_all(words_##NAME, WORDS, NULL, SHMEM_CMP_GT, 0));                         \
        CHECK(shmem_wait_until_any(words_##NAME, WORDS, status, SHMEM_CMP_GE, 6) == 5);             \
        CHECK(shmem_test_any(words_##NAME, WORDS, status, SHMEM_CMP_EQ, 3) == 2);                   \
        CHECK(shmem_test_any(words_##NAME, WORDS, status, SHMEM_CMP_EQ, 77) == SIZE_MAX);           \
        CHECK(shmem_wait_until_some(words_##NAME, WORDS, indices, status, SHMEM_CMP_LE, 3) == 2);   \
        CHECK(indices[0] == 0 && indices[1] == 2);                                                  \
        CHECK(shmem_test_some(words_##NAME, WORDS, indices, NULL, SHMEM_CMP_EQ, 0) == 1 && indices[0] == 1); \
        CHECK(shmem_##NAME##_wait_until_some_vector(words_##NAME, WORDS, indices, status, SHMEM_CMP_EQ, values) == 5); \
        CHECK(shmem_test_some_vector(words_##NAME, WORDS, indices, status, SHMEM_CMP_NE, values) == 0); \
        CHECK(shmem_wait_until_any_vector(words_##NAME, 1, NULL, SHMEM_CMP_EQ, values) == 0);       \
        CHECK(shmem_test_any_vector(words_##NAME + 1, 1, NULL, SHMEM_CMP_EQ, values + 1) == SIZE_MAX); \
        /* Nothing takes part: nothing is waited for. */                                            \
        status[0] = 1;                                                                              \
        CHECK(shmem_wait_until_any(words_##NAME, 1, status, SHMEM_CMP_EQ, 99) == SIZE_MAX);         \
        CHECK(shmem_wait_until_some(words_##NAME, 1, indices, status, SHMEM_CMP_EQ, 99) == 0);      \
        shmem_wait_until_all(words_##NAME, 0, NULL, SHMEM_CMP_EQ, 99);                              \
    }
FOR_WAIT(OF_TYPE)

static uint64_t signal_word, other_signal;
static long data[1000];

int main(void) {
    begin();
#define CALL(NAME, TYPE) test_##NAME();
    FOR_WAIT(CALL)
    int next = (me + 1) % pes, last = (me + pes - 1) % pes;
    /* The data are there when the signal is seen. */
    long *mine = malloc(sizeof data);
    for (uint64_t round = 1; round <= 200; round++) {
        for (int i = 0; i < 1000; i++)
            mine[i] = (long)round * 1000 + me;
        shmem_put_signal(data, mine, 1000, &signal_word, 1, SHMEM_SIGNAL_ADD, next);
        CHECK(shmem_signal_wait_until(&signal_word, SHMEM_CMP_GE, round) >= round);
        for (int i = 0; i < 1000; i++)
            CHECK(data[i] == (long)round * 1000 + last);
        shmem_barrier_all();
    }
    shmem_ctx_putmem_signal_nbi(SHMEM_CTX_DEFAULT, data, mine, 8, &other_signal, 40 + (uint64_t)me, SHMEM_SIGNAL_SET, next);
    CHECK(shmem_signal_wait_until(&other_signal, SHMEM_CMP_NE, 0) == 40 + (uint64_t)last);
    CHECK(shmem_signal_fetch(&other_signal) == 40 + (uint64_t)last);
    shmem_barrier_all();
    shmem_signal_set(&other_signal, 5, next);
    shmem_barrier_all();
    shmem_signal_add(SHMEM_CTX_DEFAULT, &other_signal, 6, next);
    CHECK(shmem_signal_wait_until(&other_signal, SHMEM_CMP_EQ, 11) == 11);
    shmem_barrier_all();
    /* Waits that sleep: the last PE is late. */
    static long late;
    for (int round = 1; round <= 3; round++) {
        if (me == pes - 1) {
            usleep(50000);
            for (int pe = 0; pe < pes; pe++)
                shmem_atomic_set(&late, round, pe);
        }
        shmem_wait_until(&late, SHMEM_CMP_EQ, round);
        shmem_barrier_all();
    }
    free(mine);
    return end();
}
