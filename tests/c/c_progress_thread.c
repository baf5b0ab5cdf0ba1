/* With AM_PROGRESS_THREAD=on a long message arrives at a task that computes without a call of MPI. */
#include <time.h>

#include "check.h"

#define BYTES (1 << 20)

static char sent[BYTES], received[BYTES];

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + 1e-9 * time.tv_nsec;
}

/* Computes until the word is set. Returns false at a time limit, which only ends a test that would hang. */
static int computes_until(const volatile int *word, int value) {
    double begun = now();
    while (*word != value)
        if (now() - begun > 200) return 0;
    return 1;
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    MPI_Win win;
    int *word, *word_of_1 = NULL;
    MPI_Win_allocate_shared(sizeof(int), 1, MPI_INFO_NULL, MPI_COMM_WORLD, &word, &win);
    *word = 0;
    if (size > 1) {
        MPI_Aint bytes;
        int unit;
        MPI_Win_shared_query(win, 1, &bytes, &unit, &word_of_1);
    }
    for (int round = 1; round <= 5 && size > 1; round++) {
        MPI_Request request;
        memset(received, 0, BYTES);
        if (rank == 1) MPI_Irecv(received, BYTES, MPI_BYTE, 0, round, MPI_COMM_WORLD, &request);
        MPI_Barrier(MPI_COMM_WORLD);
        if (rank == 0) {
            memset(sent, round, BYTES);
            /* The send returns when the receiver has the whole message. */
            MPI_Ssend(sent, BYTES, MPI_BYTE, 1, round, MPI_COMM_WORLD);
            *(volatile int *)word_of_1 = round;
        } else if (rank == 1) {
            CHECK(computes_until(word, round));
            int done = 0;
            MPI_Test(&request, &done, MPI_STATUS_IGNORE);
            CHECK(done);
            CHECK(received[0] == round && !memcmp(received, received + 1, BYTES - 1));
        }
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_free(&win);
    return end();
}
