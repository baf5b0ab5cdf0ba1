/* Requests of this library: operations that complete in the call that starts them, invalid handles, many requests, and waits for any of
   several requests. */
#include "check.h"
#include <malloc.h>
#include <stdint.h>
#include <time.h>

static int is_empty(const MPI_Status *status) {
    int count = -1, cancelled = -1;
    MPI_Get_count(status, MPI_BYTE, &count);
    MPI_Test_cancelled(status, &cancelled);
    return status->MPI_SOURCE == MPI_ANY_SOURCE && status->MPI_TAG == MPI_ANY_TAG && count == 0 && cancelled == 0;
}

/* All sends that complete in their call have the same handle, which every call accepts as that of a completed send, however often it is
   passed. */
static void ended_sends(void) {
    enum { SENDS = 12 };
    int values[SENDS], got = -1, flag = 0, index = -1, count = -1, indices[SENDS];
    MPI_Request requests[SENDS], copy;
    MPI_Status status, statuses[SENDS];
    for (int i = 0; i < SENDS; i++) {
        values[i] = i;
        CHECK(MPI_Isend(&values[i], 1, MPI_INT, rank, 1, MPI_COMM_WORLD, &requests[i]) == MPI_SUCCESS);
        CHECK(requests[i] != MPI_REQUEST_NULL && (uintptr_t)requests[i] < (uintptr_t)1 << 31);
        CHECK(requests[i] == requests[0]);
    }
    CHECK(MPI_Request_fromint(MPI_Request_toint(requests[0])) == requests[0]);
    CHECK(MPI_Cancel(&requests[0]) == MPI_SUCCESS && requests[0] == requests[1]);
    CHECK(MPI_Request_get_status(requests[0], &flag, &status) == MPI_SUCCESS && flag && is_empty(&status));
    CHECK(MPI_Wait(&requests[0], &status) == MPI_SUCCESS && requests[0] == MPI_REQUEST_NULL && is_empty(&status));
    copy = requests[1];
    CHECK(MPI_Request_free(&copy) == MPI_SUCCESS && copy == MPI_REQUEST_NULL);
    flag = 0;
    CHECK(MPI_Test(&requests[1], &flag, &status) == MPI_SUCCESS && flag && requests[1] == MPI_REQUEST_NULL);
    FAILS(MPI_Start(&requests[2]), MPI_ERR_REQUEST);
    FAILS(MPI_Pready(0, requests[2]), MPI_ERR_ARG);
    memset(statuses, -1, sizeof statuses);
    CHECK(MPI_Waitany(SENDS, requests, &index, &status) == MPI_SUCCESS && index == 2 && is_empty(&status));
    CHECK(requests[2] == MPI_REQUEST_NULL && requests[3] != MPI_REQUEST_NULL);
    CHECK(MPI_Testany(SENDS, requests, &index, &flag, &status) == MPI_SUCCESS && flag && index == 3);
    CHECK(MPI_Waitsome(2, &requests[4], &count, indices, statuses) == MPI_SUCCESS && count == 2);
    CHECK(requests[4] == MPI_REQUEST_NULL && requests[5] == MPI_REQUEST_NULL && is_empty(&statuses[1]));
    CHECK(MPI_Testsome(2, &requests[6], &count, indices, statuses) == MPI_SUCCESS && count == 2 && indices[1] == 1);
    CHECK(MPI_Testall(2, &requests[8], &flag, statuses) == MPI_SUCCESS && flag && requests[9] == MPI_REQUEST_NULL);
    memset(statuses, -1, sizeof statuses);
    CHECK(MPI_Waitall(SENDS, requests, statuses) == MPI_SUCCESS);
    for (int i = 0; i < SENDS; i++)
        CHECK(requests[i] == MPI_REQUEST_NULL && is_empty(&statuses[i]) && statuses[i].MPI_ERROR == MPI_SUCCESS);
    for (int i = 0; i < SENDS; i++) {
        MPI_Recv(&got, 1, MPI_INT, rank, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        CHECK(got == i);
    }
    /* A receive from MPI_PROC_NULL has its own status. */
    MPI_Irecv(&got, 1, MPI_INT, MPI_PROC_NULL, 1, MPI_COMM_WORLD, &requests[0]);
    MPI_Isend(&got, 1, MPI_INT, MPI_PROC_NULL, 1, MPI_COMM_WORLD, &requests[1]);
    requests[2] = requests[0];
    CHECK(MPI_Waitall(3, requests, statuses) == MPI_SUCCESS && is_empty(&statuses[1]));
    CHECK(statuses[0].MPI_SOURCE == MPI_PROC_NULL && statuses[2].MPI_SOURCE == MPI_PROC_NULL);
    /* The starting call itself reports errors. */
    FAILS(MPI_Isend(&got, 1, MPI_INT, size, 1, MPI_COMM_WORLD, &requests[0]), MPI_ERR_RANK);
    FAILS(MPI_Isend(&got, 1, MPI_INT, 0, -7, MPI_COMM_WORLD, &requests[0]), MPI_ERR_TAG);
}

/* Short operations on a communicator whose error handler records the class of the error. */
static int heard;
static void hear(MPI_Comm *comm, int *code, ...) { heard = *comm == MPI_COMM_WORLD ? 0 : class_of(*code); }

static void failures(void) {
    MPI_Comm own;
    MPI_Errhandler handler;
    MPI_Request requests[2];
    MPI_Status statuses[2];
    long two[2] = {1, 2}, one = 0;
    MPI_Comm_dup(MPI_COMM_WORLD, &own);
    MPI_Comm_create_errhandler(hear, &handler);
    MPI_Comm_set_errhandler(own, handler);
    heard = -1;
    MPI_Irecv(&one, 1, MPI_LONG, rank, 2, own, &requests[0]);
    MPI_Send(two, 2, MPI_LONG, rank, 2, own);
    FAILS(MPI_Wait(&requests[0], &statuses[0]), MPI_ERR_TRUNCATE);
    CHECK(heard == MPI_ERR_TRUNCATE && requests[0] == MPI_REQUEST_NULL && one == 1);
    heard = -1;
    MPI_Irecv(&one, 1, MPI_LONG, rank, 3, MPI_COMM_WORLD, &requests[0]);
    MPI_Irecv(&one, 1, MPI_LONG, rank, 2, own, &requests[1]);
    MPI_Send(two, 1, MPI_LONG, rank, 3, MPI_COMM_WORLD);
    MPI_Send(two, 2, MPI_LONG, rank, 2, own);
    FAILS(MPI_Waitall(2, requests, statuses), MPI_ERR_IN_STATUS);
    CHECK(heard == MPI_ERR_IN_STATUS && statuses[0].MPI_ERROR == MPI_SUCCESS);
    CHECK(class_of(statuses[1].MPI_ERROR) == MPI_ERR_TRUNCATE && requests[1] == MPI_REQUEST_NULL);
    MPI_Errhandler_free(&handler);
    MPI_Comm_free(&own);
}

/* The handle of a completed request stays invalid until its slot has been reused many times. */
static void old_handles(void) {
    int value = 0;
    MPI_Request request, old;
    for (int i = 0; i < 20; i++) {
        MPI_Irecv(&value, 1, MPI_INT, rank, 4, MPI_COMM_WORLD, &request);
        old = request;
        MPI_Send(&i, 1, MPI_INT, rank, 4, MPI_COMM_WORLD);
        CHECK(MPI_Wait(&request, MPI_STATUS_IGNORE) == MPI_SUCCESS && value == i);
        FAILS(MPI_Wait(&old, MPI_STATUS_IGNORE), MPI_ERR_REQUEST);
        FAILS(MPI_Waitall(1, &old, MPI_STATUSES_IGNORE), MPI_ERR_REQUEST);
    }
    old = (MPI_Request)(intptr_t)0x40000000; /* the handle of a blocking receive */
    FAILS(MPI_Wait(&old, MPI_STATUS_IGNORE), MPI_ERR_REQUEST);
    old = (MPI_Request)(intptr_t)-1;
    FAILS(MPI_Wait(&old, MPI_STATUS_IGNORE), MPI_ERR_REQUEST);
}

/* More than a million requests, in the job of one task. */
static void many(void) {
    enum { MANY = (1 << 20) + 1000 };
    static int value;
    MPI_Request *requests = malloc(MANY * sizeof *requests);
    int flag = -1;
    for (int i = 0; i < MANY; i++)
        CHECK(MPI_Irecv(&value, 1, MPI_INT, rank, 5, MPI_COMM_WORLD, &requests[i]) == MPI_SUCCESS);
    MPI_Test(&requests[MANY - 1], &flag, MPI_STATUS_IGNORE);
    CHECK(flag == 0 && requests[MANY - 1] != requests[0]);
    for (int i = 0; i < MANY; i++)
        CHECK(MPI_Cancel(&requests[i]) == MPI_SUCCESS);
    CHECK(MPI_Waitall(MANY, requests, MPI_STATUSES_IGNORE) == MPI_SUCCESS && requests[MANY - 1] == MPI_REQUEST_NULL);
    free(requests);
}

/* Waits for any of many requests, which complete one at a time and not in their order. */
static void waits_for_any(void) {
    enum { RECEIVES = 200 };
    int values[RECEIVES], index = -1, out, count, indices[RECEIVES];
    MPI_Request requests[RECEIVES], exchange[2];
    MPI_Status status;
    for (int i = 0; i < RECEIVES; i++)
        MPI_Irecv(&values[i], 1, MPI_INT, rank, 100 + i, MPI_COMM_WORLD, &requests[i]);
    for (int i = 0; i < RECEIVES; i++) {
        out = (i * 77) % RECEIVES;
        MPI_Send(&out, 1, MPI_INT, rank, 100 + out, MPI_COMM_WORLD);
        if (i % 2) {
            MPI_Waitany(RECEIVES, requests, &index, &status);
            CHECK(index == out && status.MPI_TAG == 100 + out);
        } else {
            MPI_Waitsome(RECEIVES, requests, &count, indices, &status);
            CHECK(count == 1 && indices[0] == out && status.MPI_TAG == 100 + out);
        }
        CHECK(values[out] == out && requests[out] == MPI_REQUEST_NULL);
    }
    MPI_Waitany(RECEIVES, requests, &index, &status);
    CHECK(index == MPI_UNDEFINED);
    /* Waits for one of two requests; one of them is for a send and a receive. */
    int left = (rank + size - 1) % size, right = (rank + 1) % size;
    MPI_Irecv(&values[0], 1, MPI_INT, rank, 6, MPI_COMM_WORLD, &exchange[0]);
    MPI_Isendrecv(&rank, 1, MPI_INT, right, 7, &values[1], 1, MPI_INT, left, 7, MPI_COMM_WORLD, &exchange[1]);
    MPI_Waitany(2, exchange, &index, &status);
    CHECK(index == 1 && values[1] == left && status.MPI_SOURCE == left);
    MPI_Cancel(&exchange[0]);
    MPI_Wait(&exchange[0], &status);
}

/* A task that only starts short sends and waits for them still makes progress for other tasks. It sends so slowly that it never has to wait
   for its receiver. */
static void progress(void) {
    enum { MESSAGES = 3000, LONG = 1 << 18 };
    static char data[LONG];
    struct timespec pause = {0, 20000};
    MPI_Request request;
    int flag = 0, done_at = MESSAGES;
    MPI_Barrier(MPI_COMM_WORLD);
    if (size < 2 || rank > 1) return;
    if (rank == 0) {
        MPI_Request receive;
        MPI_Irecv(data, LONG, MPI_BYTE, 1, 9, MPI_COMM_WORLD, &receive);
        MPI_Send(NULL, 0, MPI_BYTE, 1, 8, MPI_COMM_WORLD);
        for (int i = 0; i < MESSAGES; i++) {
            nanosleep(&pause, NULL);
            MPI_Isend(&i, 1, MPI_INT, 1, 8, MPI_COMM_WORLD, &request);
            MPI_Wait(&request, MPI_STATUS_IGNORE);
        }
        MPI_Recv(&done_at, 1, MPI_INT, 1, 10, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        CHECK(done_at < MESSAGES);
        MPI_Wait(&receive, MPI_STATUS_IGNORE);
    } else {
        MPI_Recv(NULL, 0, MPI_BYTE, 0, 8, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Issend(data, LONG, MPI_BYTE, 0, 9, MPI_COMM_WORLD, &request);
        for (int i = 0, got; i < MESSAGES; i++) {
            MPI_Recv(&got, 1, MPI_INT, 0, 8, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            CHECK(got == i);
            if (!flag) {
                MPI_Test(&request, &flag, MPI_STATUS_IGNORE);
                if (flag) done_at = i;
            }
        }
        MPI_Send(&done_at, 1, MPI_INT, 0, 10, MPI_COMM_WORLD);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
}

/* The functions of a Fortran program, which takes references. */
void mpi_grequest_start_(void (*query)(MPI_Aint *, MPI_Status *, int *), void (*free)(MPI_Aint *, int *),
                         void (*cancel)(MPI_Aint *, int *, int *), MPI_Aint *state, int *request, int *code);
void mpi_grequest_complete_(int *request, int *code);
void mpi_wait_(int *request, MPI_Status *status, int *code);
static int fortran_freed;
static void fortran_query(MPI_Aint *state, MPI_Status *to, int *code) {
    *code = *state == 77 ? MPI_Status_set_elements(to, MPI_BYTE, 0) : MPI_ERR_OTHER;
    MPI_Status_set_cancelled(to, 0);
}
static void fortran_free(MPI_Aint *state, int *code) { fortran_freed += *state == 77, *code = MPI_SUCCESS; }
static void fortran_cancel(MPI_Aint *state, int *complete, int *code) { (void)state, (void)complete, *code = MPI_SUCCESS; }

/* Generalized requests of Fortran programs take no more memory with time. */
static void fortran_requests(void) {
    enum { ROUNDS = 2000 };
    size_t before = 0;
    for (int i = 0; i < 2 * ROUNDS; i++) {
        MPI_Aint state = 77;
        MPI_Status status;
        int request, code;
        if (i == ROUNDS) before = mallinfo2().uordblks;
        mpi_grequest_start_(fortran_query, fortran_free, fortran_cancel, &state, &request, &code);
        CHECK(code == MPI_SUCCESS);
        mpi_grequest_complete_(&request, &code);
        CHECK(code == MPI_SUCCESS);
        mpi_wait_(&request, &status, &code);
        CHECK(code == MPI_SUCCESS && fortran_freed == i + 1);
    }
    CHECK(mallinfo2().uordblks < before + ROUNDS * 8);
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    fortran_requests();
    ended_sends();
    failures();
    old_handles();
    waits_for_any();
    progress();
    if (size == 1) many();
    return end();
}
