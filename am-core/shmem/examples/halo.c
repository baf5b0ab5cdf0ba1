/* A field of numbers in a row of PEs: each step replaces a number by the mean of its two neighbours. The numbers at the borders come with a
 * signal, so a PE waits for its two neighbours only, and not for all. The sum does not change, since the row is a ring. */
#include <shmem.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { LEN = 1000, STEPS = 200 };

static double sum_before, sum_after, own_sum;
static uint64_t from_left, from_right; /* how many borders have come */

static void add_up(const double *field, double *sum) {
    own_sum = 0;
    for (int i = 1; i <= LEN; i++)
        own_sum += field[i];
    shmem_double_sum_reduce(SHMEM_TEAM_WORLD, sum, &own_sum, 1);
    shmem_barrier_all();
}

int main(void) {
    shmem_init();
    int me = shmem_my_pe(), pes = shmem_n_pes();
    int left = (me + pes - 1) % pes, right = (me + 1) % pes;
    /* Two fields, which take turns, with a place for the neighbours' numbers at either end. A border of the step after the next cannot come
     * before this PE has sent its own, so two are enough. */
    double *fields[2];
    for (int i = 0; i < 2; i++)
        fields[i] = shmem_calloc(LEN + 2, sizeof(double));
    for (int i = 1; i <= LEN; i++)
        fields[0][i] = (me * LEN + i) % 97;
    add_up(fields[0], &sum_before);
    for (int step = 0; step < STEPS; step++) {
        double *now = fields[step % 2], *then = fields[(step + 1) % 2];
        shmem_double_put_signal(&now[LEN + 1], &now[1], 1, &from_right, 1, SHMEM_SIGNAL_ADD, left);
        shmem_double_put_signal(&now[0], &now[LEN], 1, &from_left, 1, SHMEM_SIGNAL_ADD, right);
        shmem_signal_wait_until(&from_left, SHMEM_CMP_GE, (uint64_t)step + 1);
        shmem_signal_wait_until(&from_right, SHMEM_CMP_GE, (uint64_t)step + 1);
        for (int i = 1; i <= LEN; i++)
            then[i] = (now[i - 1] + now[i + 1]) / 2;
    }
    add_up(fields[STEPS % 2], &sum_after);
    if (fabs(sum_after - sum_before) > 1e-6 * sum_before)
        shmem_global_exit(1);
    if (me == 0)
        printf("%d steps of %d numbers: the sum is %.3f, and was %.3f\nall good\n", STEPS, pes * LEN, sum_after, sum_before);
    shmem_free(fields[0]);
    shmem_free(fields[1]);
    shmem_finalize();
    return 0;
}
