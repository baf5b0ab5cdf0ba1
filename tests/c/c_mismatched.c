/* Collectives whose arguments do not match between tasks. With AM_CHECK_COLLECTIVES=on all tasks get an error that says which collective
   each of them is in, and are in step afterwards. With off, a task detects only received data of a wrong length. No case here makes a task
   wait for ever: a task that gets the error has received all messages that were sent to it. */
#include "check.h"

static MPI_Comm comm;
static int in[64], out[64];

/* Makes a new communicator, and first calls this number of matching collectives. */
static void with_calls(int calls) {
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    for (int call = 0; call < calls; call++)
        MPI_Allreduce(out, in, 1, MPI_INT, MPI_SUM, comm);
}

static void done(void) {
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Comm_free(&comm);
}

/* Different counts: a task that receives more data than fit gets MPI_ERR_TRUNCATE, and a task that receives less gets MPI_ERR_COUNT. */
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
        /* Each of the two tasks gets the other's part. */
        with_calls(calls);
        told = class_of(MPI_Allreduce(out, in, more, MPI_INT, MPI_SUM, comm));
        CHECK(told == (rank ? MPI_ERR_TRUNCATE : MPI_ERR_COUNT));
        done(), with_calls(calls);
        told = class_of(MPI_Alltoall(out, more, MPI_INT, in, more, MPI_INT, comm));
        CHECK(told == (rank ? MPI_ERR_TRUNCATE : MPI_ERR_COUNT));
        done();
    }
}

/* Every task gets the error, with this class and these words in its text, and afterwards the tasks are in step. */
static void told(int code, int class, const char *words) {
    char text[MPI_MAX_ERROR_STRING];
    int length, sum = 0, one = 1;
    CHECK(class_of(code) == class);
    MPI_Error_string(code, text, &length);
    CHECK(strstr(text, words));
    CHECK(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD) == MPI_SUCCESS && sum == size);
}

static void last(void *a, void *b, int *count, MPI_Datatype *type) {
    (void)type;
    memcpy(b, a, *count * sizeof(int));
}

static void checked(void) {
    MPI_Comm world = MPI_COMM_WORLD;
    MPI_Request request;
    MPI_Datatype pair;
    MPI_Op own;
    int odd = rank == size - 1;
    char words[64];
    snprintf(words, sizeof words, "rank %d in MPI_Barrier", size - 1);
    told(odd ? MPI_Barrier(world) : MPI_Bcast(in, 4, MPI_INT, 0, world), MPI_ERR_OTHER, words);
    told(odd ? MPI_Scan(out, in, 4, MPI_INT, MPI_SUM, world) : MPI_Allreduce(out, in, 4, MPI_INT, MPI_SUM, world), MPI_ERR_OTHER, "MPI_Scan of 16 bytes of MPI_INT with MPI_SUM");
    told(MPI_Bcast(in, 4, MPI_INT, odd, world), MPI_ERR_ROOT, "root 1");
    told(MPI_Allreduce(out, in, 4, MPI_INT, odd ? MPI_SUM : MPI_MAX, world), MPI_ERR_OP, "with MPI_MAX");
    told(MPI_Allreduce(out, in, 4, odd ? MPI_FLOAT : MPI_INT, MPI_SUM, world), MPI_ERR_TYPE, "of MPI_FLOAT");
    told(MPI_Bcast(in, odd ? 2 : 4, MPI_INT, 0, world), MPI_ERR_COUNT, "MPI_Bcast of 8 bytes");
    told(MPI_Allgather(out, odd + 1, MPI_INT, in, odd + 1, MPI_INT, world), MPI_ERR_COUNT, "MPI_Allgather");
    MPI_Op_create(last, 1, &own);
    told(MPI_Allreduce(out, in, 4, MPI_INT, odd ? own : MPI_SUM, world), MPI_ERR_OP, "a user-defined operator");
    MPI_Op_free(&own);
    MPI_Ibcast(in, 4, MPI_INT, odd, world, &request);
    told(MPI_Wait(&request, MPI_STATUS_IGNORE), MPI_ERR_ROOT, "root 0");
    MPI_Bcast_init(in, 4 + odd, MPI_INT, 0, world, MPI_INFO_NULL, &request);
    MPI_Start(&request);
    told(MPI_Wait(&request, MPI_STATUS_IGNORE), MPI_ERR_COUNT, "of 20 bytes");
    MPI_Request_free(&request);
    /* Permitted differences: another description of the same elements, and MPI_BYTE with any other type. */
    MPI_Type_contiguous(2, MPI_INT, &pair);
    MPI_Type_commit(&pair);
    CHECK(MPI_Bcast(in, odd ? 2 : 4, odd ? pair : MPI_INT, 0, world) == MPI_SUCCESS);
    CHECK(MPI_Bcast(in, odd ? 16 : 4, odd ? MPI_BYTE : MPI_INT, 0, world) == MPI_SUCCESS);
    MPI_Type_free(&pair);
}

int main(int argc, char **argv) {
    const char *check = getenv("AM_CHECK_COLLECTIVES");
    begin(&argc, &argv);
    if (check && strcmp(check, "on") == 0) {
        if (size > 1)
            checked();
    } else if (size == 2 || size == 3) {
        /* With more tasks, a task that gets the error forwards no data, and other tasks would wait for these data. */
        counts(0), counts(6);
    }
    return end();
}
