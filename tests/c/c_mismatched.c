/* Collectives whose arguments do not fit together, in several tasks. What one task can see from what comes to it is an error there: in
 * the first collectives of a communicator, whose messages say nothing of what they are, and in later ones, whose messages and puts do.
 * Nothing here makes a task wait for what never comes: who has the error has taken all that was sent to it. Run it also with
 * AM_COLLECTIVE_PUTS_BYTES_MAX=16384, by which all but the long ones go by puts: these are asked for in their order, so that one
 * more mistake is seen. */
#include "check.h"

static MPI_Comm comm;
static int in[64], out[64];

/* A new communicator, and so many collectives that suit each other before. */
static void with_calls(int calls) {
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    for (int call = 0; call < calls; call++)
        MPI_Allreduce(out, in, 1, MPI_INT, MPI_SUM, comm);
}

static void done(void) {
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Comm_free(&comm);
}

/* Counts that differ: who gets more than there is room for says MPI_ERR_TRUNCATE, who gets less MPI_ERR_COUNT. */
static void counts(int calls) {
    int more = rank == 0 ? 8 : 4, less = rank == 0 ? 4 : 8;
    MPI_Request request;
    with_calls(calls);
    int told = class_of(MPI_Bcast(in, more, MPI_INT, 0, comm));
    CHECK(told == (rank ? MPI_ERR_TRUNCATE : MPI_SUCCESS));
    done(), with_calls(calls);
    told = class_of(MPI_Bcast(in, less, MPI_INT, 0, comm));
    CHECK(told == (rank ? MPI_ERR_COUNT : MPI_SUCCESS));
    done(), with_calls(calls);
    told = class_of(MPI_Gather(out, rank ? 2 : 4, MPI_INT, in, 4, MPI_INT, 0, comm));
    CHECK(told == (rank ? MPI_SUCCESS : MPI_ERR_COUNT));
    done(), with_calls(calls);
    told = class_of(MPI_Scatter(out, 4, MPI_INT, in, rank ? 2 : 4, MPI_INT, 0, comm));
    CHECK(told == (rank ? MPI_ERR_TRUNCATE : MPI_SUCCESS));
    done(), with_calls(calls);
    MPI_Ibcast(in, more, MPI_INT, 0, comm, &request);
    told = class_of(MPI_Wait(&request, MPI_STATUS_IGNORE));
    CHECK(told == (rank ? MPI_ERR_TRUNCATE : MPI_SUCCESS));
    done();
    if (size == 2) {
        /* Each of the two gets the other's part. */
        with_calls(calls);
        told = class_of(MPI_Allreduce(out, in, more, MPI_INT, MPI_SUM, comm));
        CHECK(told == (rank ? MPI_ERR_TRUNCATE : MPI_ERR_COUNT));
        done(), with_calls(calls);
        told = class_of(MPI_Alltoall(out, more, MPI_INT, in, more, MPI_INT, comm));
        CHECK(told == (rank ? MPI_ERR_TRUNCATE : MPI_ERR_COUNT));
        done();
    }
}

/* The same lengths: it is also seen to which collective a part belongs, and with which root. */
static void others(void) {
    const char *longest = getenv("AM_COLLECTIVE_PUTS_BYTES_MAX");
    int told, by_puts = longest && atoi(longest) > 0;
    if (size < 4) {
        with_calls(6);
        told = class_of(rank ? MPI_Bcast(in, 4, MPI_INT, 0, comm) : MPI_Scan(out, in, 4, MPI_INT, MPI_SUM, comm));
        /* Of two that see it, one may be told by the other before: then it knows only that tasks disagree. */
        CHECK(rank ? told == MPI_ERR_OTHER || (size == 3 && told == MPI_ERR_TRUNCATE) : told == MPI_SUCCESS);
        done();
    }
    if (size == 2) {
        with_calls(6);
        told = class_of(rank ? MPI_Allreduce(out, in, 4, MPI_INT, MPI_SUM, comm) : MPI_Allgather(out, 4, MPI_INT, in, 4, MPI_INT, comm));
        CHECK(told == MPI_ERR_OTHER);
        done(), with_calls(6);
        /* Both are a root, and get nothing: by puts it is seen in the next collective; by messages, which nobody asks for, it is not. */
        told = class_of(MPI_Bcast(in, 4, MPI_INT, rank, comm));
        CHECK(told == MPI_SUCCESS);
        told = class_of(MPI_Allreduce(out, in, 4, MPI_INT, MPI_SUM, comm));
        CHECK(told == (by_puts ? MPI_ERR_OTHER : MPI_SUCCESS));
        done(), with_calls(6);
        /* A barrier has no data, and who waits for a root's sends nothing: what the barrier leaves says what it is. */
        told = class_of(rank ? MPI_Bcast(in, 4, MPI_INT, 0, comm) : MPI_Barrier(comm));
        CHECK(told == MPI_ERR_OTHER || (rank == 0 && told == MPI_ERR_TRUNCATE));
        done();
    }
    if (size == 4) {
        /* The last one has its part from rank 2, which has passed on what came from rank 0. */
        with_calls(6);
        told = class_of(MPI_Bcast(in, 4, MPI_INT, rank == 3 ? 2 : 0, comm));
        CHECK(told == (rank == 3 ? MPI_ERR_ROOT : MPI_SUCCESS));
        done();
    }
}

/* Long in some tasks, and short in others, which do something else then: nobody waits for ever, and somebody knows. */
static void ways(void) {
    static int out[8192], in[8192];
    for (int call = 0; call < 6; call++) {
        int count = (rank + call) % 2 ? 8 : 8192, code = MPI_SUCCESS, failed;
        with_calls(6);
        if (call < 2) code = MPI_Allreduce(out, in, count, MPI_INT, MPI_SUM, comm);
        else if (call < 4) code = MPI_Bcast(in, count, MPI_INT, size - 1, comm);
        else code = MPI_Reduce(out, in, count, MPI_INT, MPI_SUM, 0, comm);
        CHECK(code == MPI_SUCCESS || class_of(code) == MPI_ERR_TRUNCATE || class_of(code) == MPI_ERR_COUNT);
        failed = code != MPI_SUCCESS;
        MPI_Allreduce(MPI_IN_PLACE, &failed, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        CHECK(failed > 0);
        done();
    }
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    /* With more tasks one that has the error passes nothing on, and others wait for it. */
    if (size == 2 || size == 3)
        counts(0), counts(6);
    if (size > 1 && OWN)
        others(), ways();
    return end();
}
