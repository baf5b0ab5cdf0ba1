/* Teams and collectives (OpenSHMEM 1.6, sections 9.4, 9.5 and 9.10), and those over active sets. */
#include "check.h"
#include <complex.h>

enum { LEN = 300 };

static long sync_array[SHMEM_SYNC_SIZE];

#define DATA(NAME, TYPE)                                                                            \
    static TYPE from_##NAME[LEN * 4], to_##NAME[LEN * 4];                                           \
    static void data_##NAME(shmem_team_t team) {                                                    \
        int my = shmem_team_my_pe(team), n = shmem_team_n_pes(team);                                \
        size_t lengths[] = {1, 7, LEN};                                                             \
        for (int length = 0; length < 3; length++) {                                                \
            size_t len = lengths[length];                                                           \
            for (size_t i = 0; i < LEN * 4; i++)                                            \
                from_##NAME[i] = (TYPE)((size_t)my * 5 + i % 50);                                   \
            memset(to_##NAME, 0, sizeof to_##NAME);                                                 \
            shmem_team_sync(team);                                                                  \
            CHECK(shmem_broadcast(team, to_##NAME, from_##NAME, len, n - 1) == 0);                  \
            for (size_t i = 0; i < len; i++)                                                        \
                CHECK(to_##NAME[i] == (TYPE)((size_t)(n - 1) * 5 + i % 50));                        \
            shmem_sync(team);                                                                       \
            CHECK(shmem_##NAME##_fcollect(team, to_##NAME, from_##NAME, len) == 0);                 \
            for (int pe = 0; pe < n; pe++)                                                          \
                for (size_t i = 0; i < len; i++)                                                    \
                    CHECK(to_##NAME[(size_t)pe * len + i] == (TYPE)((size_t)pe * 5 + i % 50));      \
            shmem_team_sync(team);                                                                  \
            /* PE p contributes p elements. */                                                      \
            CHECK(shmem_collect(team, to_##NAME, from_##NAME, (size_t)my) == 0);                    \
            for (int pe = 0, at = 0; pe < n; at += pe++)                                            \
                for (int i = 0; i < pe; i++)                                                        \
                    CHECK(to_##NAME[at + i] == (TYPE)(pe * 5 + i));                                 \
            shmem_team_sync(team);                                                                  \
            CHECK(shmem_alltoall(team, to_##NAME, from_##NAME, len) == 0);                          \
            for (int pe = 0; pe < n; pe++)                                                          \
                for (size_t i = 0; i < len; i++)                                                    \
                    CHECK(to_##NAME[(size_t)pe * len + i] == (TYPE)((size_t)pe * 5 + ((size_t)my * len + i) % 50)); \
            shmem_team_sync(team);                                                                  \
            memset(to_##NAME, 0, sizeof to_##NAME);                                                 \
            shmem_team_sync(team);                                                                  \
            CHECK(shmem_##NAME##_alltoalls(team, to_##NAME, from_##NAME, 2, 1, 2) == 0);            \
            for (int pe = 0; pe < n; pe++)                                                          \
                CHECK(to_##NAME[4 * pe + 2] == (TYPE)(pe * 5 + 2 * my + 1) && to_##NAME[4 * pe + 1] == 0); \
            shmem_team_sync(team);                                                                  \
        }                                                                                           \
    }
FOR_STANDARD(DATA)

/* Sums and the like of short and of long arrays, in place, too: the values are small, so every type can hold them. */
#define NUMBERS(NAME, TYPE)                                                                         \
    static TYPE in_##NAME[LEN], out_##NAME[LEN];                                                    \
    static void numbers_##NAME(shmem_team_t team) {                                                 \
        int my = shmem_team_my_pe(team), n = shmem_team_n_pes(team);                                \
        size_t lengths[] = {0, 1, 4, LEN};                                                          \
        for (int length = 0; length < 4; length++) {                                                \
            size_t len = lengths[length];                                                           \
            for (int in_place = 0; in_place < 2; in_place++) {                                      \
                TYPE *in = in_place ? out_##NAME : in_##NAME;                                       \
                TYPE sum[LEN] = {0}, before[LEN] = {0}, product[LEN];                               \
                _Pragma("GCC unroll 1") for (int step = 0; step < 4; step++) {                      \
                    for (size_t i = 0; i < len; i++) {                                              \
                        in[i] = (TYPE)((size_t)my + 1 + i % 3);                                     \
                        sum[i] = before[i] = 0, product[i] = 1;                                     \
                        for (int pe = 0; pe < n; pe++) {                                            \
                            TYPE value = (TYPE)((size_t)pe + 1 + i % 3);                            \
                            sum[i] = (TYPE)(sum[i] + value), product[i] = (TYPE)(product[i] * value); \
                            if (pe < my)                                                            \
                                before[i] = (TYPE)(before[i] + value);                              \
                        }                                                                           \
                    }                                                                               \
                    shmem_team_sync(team);                                                          \
                    TYPE own = (TYPE)(my + 1);                                                      \
                    if (step == 0)                                                                  \
                        CHECK(shmem_sum_reduce(team, out_##NAME, in, len) == 0);                    \
                    else if (step == 1)                                                             \
                        CHECK(shmem_##NAME##_prod_reduce(team, out_##NAME, in, len) == 0);          \
                    else if (step == 2)                                                             \
                        CHECK(shmem_sum_inscan(team, out_##NAME, in, len) == 0);                    \
                    else                                                                            \
                        CHECK(shmem_##NAME##_sum_exscan(team, out_##NAME, in, len) == 0);           \
                    for (size_t i = 0; i < len; i++) {                                              \
                        TYPE with = (TYPE)(before[i] + own + (TYPE)(i % 3));                        \
                        TYPE right = step == 0 ? sum[i] : step == 1 ? product[i] : step == 2 ? with : before[i]; \
                        CHECK(out_##NAME[i] == right);                                              \
                    }                                                                               \
                    shmem_team_sync(team);                                                          \
                }                                                                                   \
            }                                                                                       \
        }                                                                                           \
    }
FOR_STANDARD(NUMBERS)
NUMBERS(complexd, double _Complex)
NUMBERS(complexf, float _Complex)

#define ORDER(NAME, TYPE)                                                                           \
    static void order_##NAME(shmem_team_t team) {                                                   \
        int my = shmem_team_my_pe(team), n = shmem_team_n_pes(team);                                \
        for (size_t len = 1; len <= LEN; len += LEN - 1) {                                          \
            for (size_t i = 0; i < len; i++)                                                        \
                in_##NAME[i] = (TYPE)((my + (int)i) % n + 1);                                       \
            shmem_team_sync(team);                                                                  \
            CHECK(shmem_max_reduce(team, out_##NAME, in_##NAME, len) == 0);                         \
            for (size_t i = 0; i < len; i++)                                                        \
                CHECK(out_##NAME[i] == (TYPE)n);                                                    \
            CHECK(shmem_##NAME##_min_reduce(team, out_##NAME, in_##NAME, len) == 0);                \
            for (size_t i = 0; i < len; i++)                                                        \
                CHECK(out_##NAME[i] == 1);                                                          \
            shmem_team_sync(team);                                                                  \
        }                                                                                           \
    }
FOR_STANDARD(ORDER)

static unsigned mask_in[LEN], mask_out[LEN];

static void masks(shmem_team_t team) {
    int my = shmem_team_my_pe(team), n = shmem_team_n_pes(team);
    for (size_t len = 1; len <= LEN; len += LEN - 1) {
        for (size_t i = 0; i < len; i++)
            mask_in[i] = 1u << my | 1u << 20;
        shmem_team_sync(team);
        CHECK(shmem_or_reduce(team, mask_out, mask_in, len) == 0 && mask_out[len - 1] == (((1u << n) - 1) | 1u << 20));
        shmem_team_sync(team);
        CHECK(shmem_and_reduce(team, mask_out, mask_in, len) == 0 && mask_out[len - 1] == (n == 1 ? 1u << 20 | 1 : 1u << 20));
        shmem_team_sync(team);
        CHECK(shmem_uint_xor_reduce(team, mask_out, mask_in, len) == 0);
        CHECK(mask_out[len - 1] == (((1u << n) - 1) | (n % 2 ? 1u << 20 : 0)));
        shmem_team_sync(team);
    }
}

static void all(shmem_team_t team) {
#define CALL(NAME, TYPE) data_##NAME(team), numbers_##NAME(team), order_##NAME(team);
    /* Between hosts each token is a message and a fence. */
    if (HOSTS) {
        if (team == SHMEM_TEAM_WORLD) {
            CALL(double, double)
        }
        return;
    }
    FOR_STANDARD(CALL)
    numbers_complexd(team);
    numbers_complexf(team);
    masks(team);
}

static int int_in[LEN], int_out[LEN * 4], work[LEN];
static uint64_t wide_in[8], wide_out[64];

static void active_sets(void) {
    /* Every second PE from 0 on. */
    int size = (pes + 1) / 2;
    if (me % 2 == 0) {
        for (int i = 0; i < LEN; i++)
            int_in[i] = me + i;
        shmem_barrier(0, 1, size, sync_array);
        shmem_int_sum_to_all(int_out, int_in, LEN, 0, 1, size, work, sync_array);
        int sum = 0;
        for (int pe = 0; pe < pes; pe += 2)
            sum += pe + 5;
        CHECK(int_out[5] == sum);
        shmem_sync(0, 1, size, sync_array);
        shmem_int_max_to_all(int_out, int_in, 1, 0, 1, size, work, sync_array);
        CHECK(int_out[0] == 2 * (size - 1));
        shmem_sync(0, 1, size, sync_array);
        int_out[0] = -1;
        shmem_sync(0, 1, size, sync_array);
        shmem_broadcast32(int_out, int_in, 3, 0, 0, 1, size, sync_array);
        CHECK(int_out[0] == (me == 0 ? -1 : 0));
        for (int i = 0; i < 8; i++)
            wide_in[i] = (uint64_t)(me * 10 + i);
        shmem_barrier(0, 1, size, sync_array);
        shmem_fcollect64(wide_out, wide_in, 2, 0, 1, size, sync_array);
        CHECK(wide_out[2 * (size - 1) + 1] == (uint64_t)(20 * (size - 1) + 1));
        shmem_barrier(0, 1, size, sync_array);
        shmem_collect64(wide_out, wide_in, me == 0 ? 3 : 1, 0, 1, size, sync_array);
        CHECK(wide_out[2] == 2 && (size == 1 || wide_out[3] == 20));
        shmem_barrier(0, 1, size, sync_array);
        shmem_alltoall64(wide_out, wide_in, 1, 0, 1, size, sync_array);
        CHECK(wide_out[size - 1] == (uint64_t)(20 * (size - 1) + me / 2));
        shmem_barrier(0, 1, size, sync_array);
        shmem_alltoalls64(wide_out, wide_in, 2, 1, 1, 0, 1, size, sync_array);
        CHECK(wide_out[2 * (size - 1)] == (uint64_t)(20 * (size - 1) + me / 2));
    }
    shmem_barrier_all();
}

int main(void) {
    begin();
    CHECK(pes <= 4);
    all(SHMEM_TEAM_WORLD);
    shmem_team_t even, reversed, row, column, none;
    CHECK(shmem_team_split_strided(SHMEM_TEAM_WORLD, 0, 2, (pes + 1) / 2, NULL, 0, &even) == 0);
    CHECK((even == SHMEM_TEAM_INVALID) == (me % 2 == 1));
    if (even != SHMEM_TEAM_INVALID) {
        CHECK(shmem_team_my_pe(even) == me / 2 && shmem_team_n_pes(even) == (pes + 1) / 2);
        CHECK(shmem_team_translate_pe(even, shmem_team_n_pes(even) - 1, SHMEM_TEAM_WORLD) == (pes - 1) / 2 * 2);
        all(even);
        /* A context of the team has its numbers. */
        shmem_ctx_t ctx;
        shmem_team_t found;
        static long word;
        CHECK(shmem_team_create_ctx(even, 0, &ctx) == 0 && shmem_ctx_get_team(ctx, &found) == 0 && found == even);
        int n = shmem_team_n_pes(even), next = (me / 2 + 1) % n;
        shmem_p(ctx, &word, me + 1L, next);
        shmem_ctx_quiet(ctx);
        shmem_team_sync(even);
        CHECK(word == (me / 2 + n - 1) % n * 2 + 1L);
        shmem_ctx_destroy(ctx);
    }
    shmem_team_destroy(even);
    CHECK(shmem_team_my_pe(SHMEM_TEAM_INVALID) == -1 && shmem_team_sync(SHMEM_TEAM_INVALID) != 0);
    CHECK(shmem_team_split_strided(SHMEM_TEAM_WORLD, pes - 1, -1, pes, NULL, 0, &reversed) == 0);
    CHECK(shmem_team_my_pe(reversed) == pes - 1 - me);
    all(reversed);
    CHECK(shmem_team_split_strided(reversed, 0, 1, pes + 1, NULL, 0, &none) != 0 && none == SHMEM_TEAM_INVALID);
    shmem_team_config_t config = {3}, got = {0};
    CHECK(shmem_team_split_2d(reversed, 2, &config, SHMEM_TEAM_NUM_CONTEXTS, &row, NULL, 0, &column) == 0);
    CHECK(shmem_team_get_config(row, SHMEM_TEAM_NUM_CONTEXTS, &got) == 0 && got.num_contexts == 3);
    int place = pes - 1 - me;
    CHECK(shmem_team_my_pe(row) == place % 2 && shmem_team_my_pe(column) == place / 2);
    numbers_long(row);
    numbers_long(column);
    shmem_team_destroy(row);
    shmem_team_destroy(column);
    shmem_team_destroy(reversed);
    CHECK((shmem_team_n_pes(SHMEM_TEAM_SHARED) == pes || HOSTS) && shmem_team_ptr(SHMEM_TEAM_SHARED, mask_in, shmem_team_my_pe(SHMEM_TEAM_SHARED)) == mask_in);
    /* Slots are free again. */
    for (int round = 0; round < (HOSTS ? 70 : 200); round++) {
        CHECK(shmem_team_split_strided(SHMEM_TEAM_WORLD, 0, 1, pes, NULL, 0, &even) == 0);
        shmem_team_sync(even);
        shmem_team_destroy(even);
    }
    active_sets();
    return end();
}
