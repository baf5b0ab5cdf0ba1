/* Remote memory access (OpenSHMEM 1.6, section 9.6): every type, every size, in the heap and in static data, by name and by C11's name. */
#include "check.h"

enum { LEN = 24 };

#define OF_TYPE(NAME, TYPE)                                                                         \
    static TYPE static_##NAME[LEN];                                                                 \
    static void test_##NAME(shmem_ctx_t ctx) {                                                      \
        TYPE *heap = shmem_malloc(LEN * sizeof(TYPE)), here[LEN], got[LEN];                         \
        int next = (me + 1) % pes, last = (me + pes - 1) % pes;                                     \
        TYPE *objects[] = {heap, static_##NAME};                                                    \
        for (int object = 0; object < 2; object++) {                                                \
            TYPE *there = objects[object];                                                          \
            memset(there, 0, LEN * sizeof(TYPE));                                                   \
            for (int i = 0; i < LEN; i++)                                                           \
                here[i] = (TYPE)(me * 3 + i);                                                       \
            shmem_barrier_all();                                                                    \
            shmem_##NAME##_put(there, here, 4, next);                                               \
            shmem_put(ctx, there + 4, here + 4, 4, next);                                           \
            shmem_ctx_##NAME##_put_nbi(ctx, there + 8, here + 8, 2, next);                          \
            shmem_p(there + 10, here[10], next);                                                    \
            shmem_ctx_##NAME##_p(ctx, there + 11, here[11], next);                                  \
            shmem_iput(there + 12, here + 12, 2, 3, 3, next);                                       \
            shmem_##NAME##_ibput(there + 18, here + 18, 3, 2, 2, 2, next);                          \
            shmem_barrier_all();                                                                    \
            for (int i = 0; i < 12; i++)                                                            \
                CHECK(there[i] == (TYPE)(last * 3 + i));                                            \
            for (int i = 0; i < 3; i++)                                                             \
                CHECK(there[12 + 2 * i] == (TYPE)(last * 3 + 12 + 3 * i) && there[13 + 2 * i] == 0);\
            for (int i = 0; i < 2; i++)                                                             \
                CHECK(there[18 + 3 * i] == (TYPE)(last * 3 + 18 + 2 * i) && there[19 + 3 * i] == (TYPE)(last * 3 + 19 + 2 * i)); \
            memset(got, 0, sizeof got);                                                             \
            shmem_##NAME##_get(got, there, 4, next);                                                \
            shmem_get(ctx, got + 4, there + 4, 4, next);                                            \
            shmem_get_nbi(got + 8, there + 8, 2, next);                                             \
            shmem_quiet();                                                                          \
            got[10] = shmem_g(there + 10, next);                                                    \
            got[11] = shmem_ctx_##NAME##_g(ctx, there + 11, next);                                  \
            shmem_iget(got + 12, there + 12, 1, 2, 3, next);                                        \
            shmem_##NAME##_ibget(got + 16, there + 18, 2, 3, 2, 2, next);                           \
            for (int i = 0; i < 12; i++)                                                            \
                CHECK(got[i] == (TYPE)(me * 3 + i));                                                \
            for (int i = 0; i < 3; i++)                                                             \
                CHECK(got[12 + i] == (TYPE)(me * 3 + 12 + 3 * i));                                  \
            for (int i = 0; i < 4; i++)                                                             \
                CHECK(got[16 + i] == (TYPE)(me * 3 + 18 + i));                                      \
            shmem_barrier_all();                                                                    \
        }                                                                                           \
        shmem_free(heap);                                                                           \
    }
FOR_STANDARD(OF_TYPE)

#define OF_SIZE(BITS)                                                                               \
    {                                                                                               \
        unsigned char here[5 * BITS / 8], got[5 * BITS / 8];                                        \
        for (unsigned i = 0; i < sizeof here; i++)                                                  \
            here[i] = (unsigned char)(i * 7 + (unsigned)me);                                        \
        memset(bytes, 0, sizeof bytes);                                                             \
        shmem_barrier_all();                                                                        \
        shmem_put##BITS(bytes, here, 2, next);                                                      \
        shmem_ctx_put##BITS##_nbi(SHMEM_CTX_DEFAULT, bytes + 2 * BITS / 8, here + 2 * BITS / 8, 1, next); \
        shmem_iput##BITS(bytes + 3 * BITS / 8, here + 3 * BITS / 8, 1, 1, 2, next);                 \
        shmem_barrier_all();                                                                        \
        for (unsigned i = 0; i < sizeof here; i++)                                                  \
            CHECK(bytes[i] == (unsigned char)(i * 7 + (unsigned)last));                             \
        shmem_get##BITS(got, bytes, 3, next);                                                       \
        shmem_iget##BITS(got + 3 * BITS / 8, bytes + 3 * BITS / 8, 1, 1, 2, next);                  \
        CHECK(memcmp(got, here, sizeof got) == 0);                                                  \
        shmem_barrier_all();                                                                        \
    }

static unsigned char bytes[1 << 17];

int main(void) {
    begin();
    shmem_ctx_t ctx;
    CHECK(shmem_ctx_create(SHMEM_CTX_PRIVATE, &ctx) == 0);
#define CALL(NAME, TYPE) test_##NAME(ctx);
    FOR_STANDARD(CALL)
    shmem_ctx_destroy(ctx);
    int next = (me + 1) % pes, last = (me + pes - 1) % pes;
    OF_SIZE(8) OF_SIZE(16) OF_SIZE(32) OF_SIZE(64) OF_SIZE(128)
    /* Long data, and data of no length at any address. */
    unsigned char *large = malloc(sizeof bytes);
    memset(large, 'a' + me, sizeof bytes);
    shmem_putmem(bytes, large, sizeof bytes, next);
    shmem_putmem(NULL, large, 0, next);
    shmem_barrier_all();
    CHECK(bytes[0] == 'a' + last && bytes[sizeof bytes - 1] == 'a' + last);
    shmem_getmem(large, bytes, sizeof bytes, next);
    CHECK(large[0] == 'a' + me && large[sizeof bytes - 1] == 'a' + me);
    free(large);
    /* A PE's own memory, through the pointer that peers use, too. */
#if !HOSTS
    for (int pe = 0; pe < pes; pe++)
        CHECK(shmem_ptr(bytes, pe) != NULL && shmem_addr_accessible(bytes, pe) && shmem_pe_accessible(pe));
    CHECK(shmem_ptr(bytes, me) == bytes && shmem_ptr(&next, me) == NULL && !shmem_pe_accessible(pes));
    *((unsigned char *)shmem_ptr(bytes, next) + 5) = (unsigned char)(200 + me);
    shmem_barrier_all();
    CHECK(bytes[5] == 200 + last);
#endif
    return end();
}
