/* Tasks of different thread levels in one job (MPI 5.0 section 11.6.2): tasks with several threads carry out some calls in a different way,
   which other tasks must not notice. */
#include "check.h"

enum { LONG = 100000 };

/* Blocking calls, with a non-blocking call between them. */
static void waiting(MPI_Comm comm) {
    int *all = malloc((size_t)size * sizeof *all), sum, word;
    double *values = malloc(LONG * sizeof *values), *sums = malloc(LONG * sizeof *sums);
    MPI_Request request;
    CHECK(MPI_Barrier(comm) == MPI_SUCCESS);
    for (int root = 0; root < size; root++) {
        word = rank == root ? root + 100 : -1;
        CHECK(MPI_Bcast(&word, 1, MPI_INT, root, comm) == MPI_SUCCESS && word == root + 100);
        CHECK(MPI_Gather(&rank, 1, MPI_INT, all, 1, MPI_INT, root, comm) == MPI_SUCCESS);
        CHECK(MPI_Scatter(all, 1, MPI_INT, &word, 1, MPI_INT, root, comm) == MPI_SUCCESS && word == rank);
    }
    CHECK(MPI_Iallreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, comm, &request) == MPI_SUCCESS);
    CHECK(MPI_Allgather(&rank, 1, MPI_INT, all, 1, MPI_INT, comm) == MPI_SUCCESS);
    for (int i = 0; i < size; i++)
        CHECK(all[i] == i);
    CHECK(MPI_Alltoall(MPI_IN_PLACE, 1, MPI_INT, all, 1, MPI_INT, comm) == MPI_SUCCESS);
    for (int i = 0; i < size; i++)
        CHECK(all[i] == rank);
    CHECK(MPI_Wait(&request, MPI_STATUS_IGNORE) == MPI_SUCCESS && sum == size * (size - 1) / 2);
    for (int i = 0; i < LONG; i++)
        values[i] = rank + i;
    CHECK(MPI_Allreduce(values, sums, LONG, MPI_DOUBLE, MPI_SUM, comm) == MPI_SUCCESS);
    for (int i = 0; i < LONG; i++)
        CHECK(sums[i] == size * (size - 1) / 2 + (double)size * i);
    free(sums);
    free(values);
    free(all);
}

/* Collectives on an intercommunicator of the tasks of even and of odd ranks. */
static void between(void) {
    MPI_Comm side, both;
    int ours = (size + 1 - rank % 2) / 2, theirs = size - ours, sum;
    CHECK(MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &side) == MPI_SUCCESS);
    CHECK(MPI_Intercomm_create(side, 0, MPI_COMM_WORLD, 1 - rank % 2, 5, &both) == MPI_SUCCESS);
    CHECK(MPI_Barrier(both) == MPI_SUCCESS);
    CHECK(MPI_Allreduce(&ours, &sum, 1, MPI_INT, MPI_SUM, both) == MPI_SUCCESS && sum == theirs * theirs);
    CHECK(MPI_Comm_free(&both) == MPI_SUCCESS);
    CHECK(MPI_Comm_free(&side) == MPI_SUCCESS);
}

/* One task starts a reduction and then enters the barrier; the other tasks do so in the reverse order. MPI 5.0 section 6.12 requires the
   same order in all tasks, but some programs break this rule, and they run with other libraries, because a blocking collective never matches
   a non-blocking one. */
static void crossed(MPI_Comm comm) {
    for (int root = 0; root < size; root++) {
        int own = rank == root ? 0xb : 0xd, both = 0, flag;
        MPI_Request request;
        if (rank != root)
            CHECK(MPI_Barrier(comm) == MPI_SUCCESS);
        CHECK(MPI_Iallreduce(&own, &both, 1, MPI_INT, MPI_BAND, comm, &request) == MPI_SUCCESS);
        if (rank == root && size > 1)
            CHECK(MPI_Test(&request, &flag, MPI_STATUS_IGNORE) == MPI_SUCCESS && !flag);
        if (rank == root)
            CHECK(MPI_Barrier(comm) == MPI_SUCCESS);
        CHECK(MPI_Wait(&request, MPI_STATUS_IGNORE) == MPI_SUCCESS);
        CHECK(both == (size > 1 ? 0x9 : 0xb));
    }
}

int main(int argc, char **argv) {
    /* The rank, which is known before MPI is started. */
    const char *task = getenv("AM_TASK");
    int level = task && atoi(task) % 2 ? MPI_THREAD_SINGLE : MPI_THREAD_MULTIPLE, provided;
    MPI_Comm comm;
    MPI_Init_thread(&argc, &argv, level, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    CHECK(provided == level);
    CHECK(MPI_Comm_dup(MPI_COMM_WORLD, &comm) == MPI_SUCCESS);
    waiting(MPI_COMM_WORLD);
    waiting(comm);
    if (size > 1)
        between();
    crossed(comm);
    CHECK(MPI_Comm_free(&comm) == MPI_SUCCESS);
    /* A communicator's first few calls also prepare later ones. These calls come before, among and after the crossed calls. */
    for (int calls = 0; calls < 10; calls++) {
        CHECK(MPI_Comm_dup(MPI_COMM_WORLD, &comm) == MPI_SUCCESS);
        for (int i = 0; i < calls; i++)
            CHECK(MPI_Barrier(comm) == MPI_SUCCESS);
        crossed(comm);
        CHECK(MPI_Barrier(comm) == MPI_SUCCESS);
        CHECK(MPI_Comm_free(&comm) == MPI_SUCCESS);
    }
    return end();
}
