/* Requests of other kinds: exchanges, generalized requests; MPI_Request_get_status; packing; statuses. */
#include "check.h"

static int right, left;

#ifndef OPEN_MPI
static void exchanges(void) {
    enum { LONG = 100000 };
    static int out[LONG], in[LONG];
    MPI_Request requests[3];
    MPI_Status status;
    for (int count = 1; count <= LONG; count = count < LONG ? LONG : LONG + 1) {
        for (int i = 0; i < count; i++)
            out[i] = rank + i;
        memset(in, -1, sizeof in);
        MPI_Isendrecv(out, count, MPI_INT, right, 3, in, count, MPI_INT, left, 3, MPI_COMM_WORLD, &requests[0]);
        CHECK(MPI_Wait(&requests[0], &status) == MPI_SUCCESS && requests[0] == MPI_REQUEST_NULL);
        CHECK(!OWN || (status.MPI_SOURCE == left && status.MPI_TAG == 3));
        CHECK(in[0] == left && in[count - 1] == left + count - 1);
        MPI_Isendrecv_replace(out, count, MPI_INT, right, 4, left, 4, MPI_COMM_WORLD, &requests[0]);
        MPI_Isendrecv_replace(in, count, MPI_INT, left, 5, right, 5, MPI_COMM_WORLD, &requests[1]);
        requests[2] = MPI_REQUEST_NULL;
        MPI_Waitall(3, requests, MPI_STATUSES_IGNORE);
        CHECK(out[count - 1] == left + count - 1 && in[count - 1] == rank + count - 1);
    }
    int value = rank, got = -1, flag = 0;
    MPI_Isendrecv(&value, 1, MPI_INT, MPI_PROC_NULL, 0, &got, 1, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD, &requests[0]);
    while (!flag)
        MPI_Test(&requests[0], &flag, &status);
    CHECK(got == -1 && (!OWN || status.MPI_SOURCE == MPI_PROC_NULL));
    /* An operation completes even if its request has been freed. */
    MPI_Isendrecv_replace(&value, 1, MPI_INT, right, 6, left, 6, MPI_COMM_WORLD, &requests[0]);
    MPI_Request_free(&requests[0]);
    MPI_Barrier(MPI_COMM_WORLD);
    int other;
    MPI_Sendrecv(&got, 1, MPI_INT, right, 7, &other, 1, MPI_INT, left, 7, MPI_COMM_WORLD, &status);
    CHECK(value == left);
    if (OWN)
        FAILS(MPI_Isendrecv(&value, 1, MPI_INT, size, 0, &got, 1, MPI_INT, left, 0, MPI_COMM_WORLD, &requests[0]), MPI_ERR_RANK);
}

#endif

static struct { int queried, freed, cancelled, code; } seen;

static int query(void *extra, MPI_Status *status) {
    CHECK(extra == (void *)&seen);
    seen.queried++;
    status->MPI_SOURCE = 41;
    status->MPI_TAG = 42;
    MPI_Status_set_elements(status, MPI_INT, 5);
    MPI_Status_set_cancelled(status, seen.cancelled != 0);
    return seen.code;
}

static int freed(void *extra) {
    CHECK(extra == (void *)&seen);
    seen.freed++;
    return MPI_SUCCESS;
}

static int cancelled(void *extra, int complete) {
    CHECK(extra == (void *)&seen && !complete);
    seen.cancelled++;
    return MPI_SUCCESS;
}

static void generalized(void) {
    MPI_Request request, kept, both[2];
    MPI_Status status, statuses[2];
    int flag = 1, count, value = rank, got, index;
    MPI_Grequest_start(query, freed, cancelled, &seen, &request);
    MPI_Test(&request, &flag, &status);
    CHECK(!flag && request != MPI_REQUEST_NULL);
    MPI_Request_get_status(request, &flag, &status);
    CHECK(!flag && seen.queried == 0);
    kept = request;
    MPI_Grequest_complete(request);
    MPI_Request_get_status(request, &flag, &status);
    CHECK(flag && seen.queried == 1 && seen.freed == 0 && status.MPI_TAG == 42);
    CHECK(MPI_Wait(&request, &status) == MPI_SUCCESS && request == MPI_REQUEST_NULL);
    CHECK(seen.queried == 2 && seen.freed == 1 && status.MPI_SOURCE == 41);
    MPI_Get_count(&status, MPI_INT, &count);
    CHECK(count == 5);
    MPI_Test_cancelled(&status, &flag);
    CHECK(!flag);
    if (OWN)
        FAILS(MPI_Grequest_complete(kept), MPI_ERR_REQUEST);

    /* A wait for a generalized request and a message. */
    memset(&seen, 0, sizeof seen);
    MPI_Grequest_start(query, freed, cancelled, &seen, &both[0]);
    MPI_Irecv(&got, 1, MPI_INT, left, 0, MPI_COMM_WORLD, &both[1]);
    MPI_Cancel(&both[0]);
    CHECK(seen.cancelled == 1);
    MPI_Send(&value, 1, MPI_INT, right, 0, MPI_COMM_WORLD);
    MPI_Waitany(2, both, &index, &status);
    CHECK(index == 1 && got == left);
    MPI_Irecv(&got, 1, MPI_INT, left, 0, MPI_COMM_WORLD, &both[1]);
    MPI_Send(&value, 1, MPI_INT, right, 0, MPI_COMM_WORLD);
    MPI_Grequest_complete(both[0]);
    MPI_Waitall(2, both, statuses);
    MPI_Test_cancelled(&statuses[0], &flag);
    CHECK(flag && seen.freed == 1 && statuses[0].MPI_TAG == 42 && statuses[1].MPI_SOURCE == left);

    /* If a generalized request is freed before it is complete, its free function runs when it is complete. */
    memset(&seen, 0, sizeof seen);
    MPI_Grequest_start(query, freed, cancelled, &seen, &request);
    kept = request;
    MPI_Request_free(&request);
    CHECK(request == MPI_REQUEST_NULL && seen.freed == 0);
    MPI_Grequest_complete(kept);
    CHECK(seen.freed == 1 && seen.queried == 0);
    MPI_Grequest_start(query, freed, cancelled, &seen, &request);
    MPI_Grequest_complete(request);
    MPI_Request_free(&request);
    CHECK(seen.freed == 2);
    if (OWN) {
        seen.code = MPI_ERR_NO_SPACE;
        MPI_Grequest_start(query, freed, cancelled, &seen, &request);
        MPI_Grequest_complete(request);
        CHECK(MPI_Wait(&request, MPI_STATUS_IGNORE) == MPI_ERR_NO_SPACE && request == MPI_REQUEST_NULL);
        FAILS(MPI_Grequest_start(NULL, freed, cancelled, &seen, &request), MPI_ERR_ARG);
        MPI_Irecv(&got, 0, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD, &request);
        FAILS(MPI_Grequest_complete(request), MPI_ERR_REQUEST);
        MPI_Wait(&request, &status);
    }
}

/* A wait for MPI_REQUEST_NULL returns the empty status, whatever the field MPI_ERROR held before. */
static void nothing(void) {
    MPI_Request none[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
    MPI_Status empty[2];
    int flag, index, count, indices[2];
#define EMPTY(call, statuses)                                                                     \
    for (int i = 0; i < 2; i++)                                                                   \
        empty[i].MPI_ERROR = 77;                                                                  \
    CHECK((call) == MPI_SUCCESS);                                                                 \
    for (int i = 0; i < (statuses); i++) {                                                        \
        CHECK(empty[i].MPI_SOURCE == MPI_ANY_SOURCE && empty[i].MPI_TAG == MPI_ANY_TAG);          \
        CHECK(empty[i].MPI_ERROR == MPI_SUCCESS);                                                 \
        CHECK(MPI_Get_count(&empty[i], MPI_INT, &count) == MPI_SUCCESS && count == 0);            \
        CHECK(MPI_Test_cancelled(&empty[i], &flag) == MPI_SUCCESS && !flag);                      \
    }
    EMPTY(MPI_Wait(none, empty), 1)
    EMPTY(MPI_Test(none, &flag, empty), 1)
    EMPTY(MPI_Request_get_status(none[0], &flag, empty), 1)
    EMPTY(MPI_Waitany(2, none, &index, empty), 1)
    EMPTY(MPI_Testany(2, none, &index, &flag, empty), 1)
    EMPTY(MPI_Waitall(2, none, empty), 2)
    EMPTY(MPI_Testall(2, none, &flag, empty), 2)
    EMPTY(MPI_Waitsome(2, none, &count, indices, empty), 0)
#ifdef MPI_ABI_VERSION
    EMPTY(MPI_Request_get_status_any(2, none, &index, &flag, empty), 1)
    EMPTY(MPI_Request_get_status_all(2, none, &flag, empty), 2)
#endif
}

static void looking(void) {
    MPI_Request requests[3] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL, MPI_REQUEST_NULL};
    MPI_Status status, statuses[3];
    int flag = 0, value = rank, got[2] = {-1, -1};
    MPI_Request_get_status(MPI_REQUEST_NULL, &flag, &status);
    CHECK(flag && status.MPI_SOURCE == MPI_ANY_SOURCE && status.MPI_TAG == MPI_ANY_TAG);
    /* The request was cancelled: MPI_Request_get_status reports that before the wait. */
    MPI_Irecv(&got[0], 1, MPI_INT, left, 99, MPI_COMM_WORLD, &requests[0]);
    MPI_Cancel(&requests[0]);
    for (flag = 0; !flag;)
        MPI_Request_get_status(requests[0], &flag, &status);
    MPI_Test_cancelled(&status, &flag);
    CHECK(flag && requests[0] != MPI_REQUEST_NULL);
    MPI_Wait(&requests[0], &status);
    MPI_Test_cancelled(&status, &flag);
    CHECK(flag);
#if MPI_VERSION > 4 || (MPI_VERSION == 4 && MPI_SUBVERSION > 0)
    int index, count, indices[3];
    MPI_Request_get_status_any(3, requests, &index, &flag, &status);
    CHECK(flag && index == MPI_UNDEFINED && status.MPI_SOURCE == MPI_ANY_SOURCE);
    MPI_Request_get_status_some(3, requests, &count, indices, statuses);
    CHECK(count == MPI_UNDEFINED);
    MPI_Request_get_status_all(3, requests, &flag, statuses);
    CHECK(flag && statuses[2].MPI_TAG == MPI_ANY_TAG);
    MPI_Irecv(&got[0], 1, MPI_INT, left, 1, MPI_COMM_WORLD, &requests[0]);
    MPI_Irecv(&got[1], 1, MPI_INT, left, 2, MPI_COMM_WORLD, &requests[2]);
    MPI_Request_get_status_any(3, requests, &index, &flag, &status);
    CHECK(!flag && index == MPI_UNDEFINED);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Send(&value, 1, MPI_INT, right, 2, MPI_COMM_WORLD);
    for (flag = 0; !flag;)
        MPI_Request_get_status_any(3, requests, &index, &flag, &status);
    CHECK(index == 2 && status.MPI_TAG == 2 && got[1] == left && requests[2] != MPI_REQUEST_NULL);
    MPI_Request_get_status_some(3, requests, &count, indices, statuses);
    CHECK(count == 1 && indices[0] == 2 && statuses[0].MPI_SOURCE == left);
    MPI_Request_get_status_all(3, requests, &flag, statuses);
    CHECK(!flag);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Send(&value, 1, MPI_INT, right, 1, MPI_COMM_WORLD);
    for (flag = 0; !flag;)
        MPI_Request_get_status_all(3, requests, &flag, statuses);
    CHECK(statuses[0].MPI_TAG == 1 && statuses[2].MPI_TAG == 2 && statuses[1].MPI_SOURCE == MPI_ANY_SOURCE);
    MPI_Waitall(3, requests, MPI_STATUSES_IGNORE);
#else
    (void)value, (void)statuses;
#endif
    if (OWN) {
        FAILS(MPI_Wait(NULL, &status), MPI_ERR_ARG);
        FAILS(MPI_Waitall(-1, requests, MPI_STATUSES_IGNORE), MPI_ERR_COUNT);
        FAILS(MPI_Startall(-1, requests), MPI_ERR_COUNT);
        FAILS(MPI_Request_free(&requests[0]), MPI_ERR_REQUEST);
    }
}

static void packing(void) {
    char buffer[256];
    int position = 0, whole = 7, room, got = 0, two[2] = {1, 2};
    double half = 0.5, back = 0;
    MPI_Pack_size(1, MPI_INT, MPI_COMM_WORLD, &room);
    CHECK(room >= 4);
    MPI_Pack(&whole, 1, MPI_INT, buffer, sizeof buffer, &position, MPI_COMM_WORLD);
    MPI_Pack(&half, 1, MPI_DOUBLE, buffer, sizeof buffer, &position, MPI_COMM_WORLD);
    char arrived[256];
    MPI_Status status;
    MPI_Sendrecv(buffer, position, MPI_PACKED, right, 0, arrived, sizeof arrived, MPI_PACKED, left, 0, MPI_COMM_WORLD, &status);
    int count;
    MPI_Get_count(&status, MPI_PACKED, &count);
    CHECK(count == position);
    position = 0;
    MPI_Unpack(arrived, count, &position, &got, 1, MPI_INT, MPI_COMM_WORLD);
    MPI_Unpack(arrived, count, &position, &back, 1, MPI_DOUBLE, MPI_COMM_WORLD);
    CHECK(got == 7 && back == 0.5 && position == count);
    /* Data that were packed are received with their datatype. */
    position = 0;
    MPI_Pack(two, 2, MPI_INT, buffer, sizeof buffer, &position, MPI_COMM_WORLD);
    MPI_Sendrecv(buffer, position, MPI_PACKED, right, 0, two, 2, MPI_INT, left, 0, MPI_COMM_WORLD, &status);
    CHECK(two[0] == 1 && two[1] == 2);

    MPI_Aint bytes, at = 0;
    MPI_Pack_external_size("external32", 2, MPI_INT, &bytes);
    CHECK(bytes == 8);
    MPI_Pack_external("external32", two, 2, MPI_INT, buffer, sizeof buffer, &at);
    CHECK(at == 8 && buffer[0] == 0 && buffer[3] == 1 && buffer[7] == 2);
    at = 4;
    MPI_Unpack_external("external32", buffer, 8, &at, &got, 1, MPI_INT);
    CHECK(at == 8 && got == 2);
    if (!OWN)
        return;
    MPI_Datatype freed;
    MPI_Type_contiguous(2, MPI_INT, &freed);
    position = 0;
    FAILS(MPI_Pack(two, 1, freed, buffer, sizeof buffer, &position, MPI_COMM_WORLD), MPI_ERR_TYPE);
    MPI_Type_free(&freed);
    FAILS(MPI_Pack(two, -1, MPI_INT, buffer, sizeof buffer, &position, MPI_COMM_WORLD), MPI_ERR_COUNT);
    FAILS(MPI_Pack(two, 2, MPI_INT, buffer, 7, &position, MPI_COMM_WORLD), MPI_ERR_TRUNCATE);
    FAILS(MPI_Pack(two, 2, MPI_INT, NULL, 7, &position, MPI_COMM_WORLD), MPI_ERR_BUFFER);
    FAILS(MPI_Pack(two, 2, MPI_INT, buffer, 8, &position, MPI_COMM_NULL), MPI_ERR_COMM);
    CHECK(position == 0);
    position = 9;
    FAILS(MPI_Unpack(buffer, 8, &position, two, 1, MPI_INT, MPI_COMM_WORLD), MPI_ERR_ARG);
    FAILS(MPI_Pack_external("native", two, 2, MPI_INT, buffer, sizeof buffer, &at), MPI_ERR_UNSUPPORTED_DATAREP);
}

static void statuses(void) {
    MPI_Status status;
    MPI_Datatype type;
    MPI_Count wide;
    int count;
    memset(&status, 0, sizeof status);
    struct one { double number; int whole; };
    MPI_Type_create_struct(2, (int[]){1, 1}, (MPI_Aint[]){0, 8}, (MPI_Datatype[]){MPI_DOUBLE, MPI_INT}, &type);
    MPI_Type_commit(&type);
    struct one out = {1.5, 2}, in[2];
    MPI_Sendrecv(&out, 1, type, right, 0, in, 2, type, left, 0, MPI_COMM_WORLD, &status);
    MPI_Get_count(&status, type, &count);
    CHECK(count == 1 && in[0].whole == 2);
    MPI_Get_elements(&status, type, &count);
    CHECK(count == 2);
    MPI_Get_elements_x(&status, type, &wide);
    CHECK(wide == 2);
    MPI_Sendrecv(&out.number, 1, MPI_DOUBLE, right, 0, in, 1, type, left, 0, MPI_COMM_WORLD, &status);
    MPI_Get_count(&status, type, &count);
    CHECK(count == MPI_UNDEFINED);
    MPI_Get_elements(&status, type, &count);
    CHECK(count == 1);
    MPI_Status_set_elements(&status, type, 3);
    MPI_Get_elements(&status, type, &count);
    CHECK(count == 3);
    MPI_Status_set_elements_x(&status, MPI_BYTE, 5000000000);
    MPI_Get_count(&status, MPI_BYTE, &count);
    CHECK(count == MPI_UNDEFINED);
    MPI_Get_elements_x(&status, MPI_BYTE, &wide);
    CHECK(wide == 5000000000);
    if (OWN) {
        FAILS(MPI_Get_count(NULL, MPI_INT, &count), MPI_ERR_ARG);
        FAILS(MPI_Get_count(&status, MPI_DATATYPE_NULL, &count), MPI_ERR_TYPE);
        FAILS(MPI_Status_set_elements(&status, MPI_INT, -1), MPI_ERR_COUNT);
    }
    MPI_Type_free(&type);
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    right = (rank + 1) % size;
    left = (rank + size - 1) % size;
#ifndef OPEN_MPI
    exchanges();
#endif
    generalized();
    nothing();
    looking();
    packing();
    statuses();
    return end();
}
