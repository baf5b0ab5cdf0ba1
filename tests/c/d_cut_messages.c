/* The status of a message that is longer than its receive, in each call that returns one (MPI 5.0 sections 3.2.4 and 3.2.5): source and
   tag of the message, and the length that was received. */
#include "check.h"

enum { LENGTHS = 3, ROOM = 3, TAG = 7 };
static const int lengths[LENGTHS] = {5, 3000, 300000};

static int source, target;
static int received[ROOM];

/* Everything that a status of a cut message says; a message of nothing is refused by no check below. */
static void check_status(const MPI_Status *status) {
    int count = -1, elements = -1;
    CHECK(status->MPI_SOURCE == source);
    CHECK(status->MPI_TAG == TAG);
    MPI_Get_count(status, MPI_INT, &count);
    MPI_Get_elements(status, MPI_INT, &elements);
    CHECK(count == ROOM && elements == ROOM);
    for (int i = 0; i < ROOM; i++)
        CHECK(received[i] == 100 + i);
}

static void clear(MPI_Status *status) {
    memset(status, 0x11, sizeof *status);
    memset(received, 0, sizeof received);
}

#define SENDS(...)                                                                                \
    do {                                                                                          \
        MPI_Request sending;                                                                      \
        MPI_Isend(data, count, MPI_INT, target, TAG, MPI_COMM_WORLD, &sending);                   \
        clear(&status);                                                                           \
        __VA_ARGS__                                                                               \
        MPI_Wait(&sending, MPI_STATUS_IGNORE);                                                    \
    } while (0)

static void check_calls(int *data, int count) {
    MPI_Status status;
    MPI_Request request;
    int flag = 0, index, done;
    SENDS({
        FAILS(MPI_Recv(received, ROOM, MPI_INT, source, TAG, MPI_COMM_WORLD, &status), MPI_ERR_TRUNCATE);
        check_status(&status);
    });
    SENDS({
        FAILS(MPI_Recv(received, ROOM, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status), MPI_ERR_TRUNCATE);
        check_status(&status);
    });
    SENDS({
        /* A layout instead of contiguous memory. */
        MPI_Datatype vector;
        MPI_Type_vector(ROOM, 1, 2, MPI_INT, &vector);
        MPI_Type_commit(&vector);
        int apart[2 * ROOM] = {0};
        FAILS(MPI_Recv(apart, 1, vector, source, TAG, MPI_COMM_WORLD, &status), MPI_ERR_TRUNCATE);
        for (int i = 0; i < ROOM; i++)
            received[i] = apart[2 * i];
        check_status(&status);
        MPI_Type_free(&vector);
    });
    SENDS({
        MPI_Message message;
        MPI_Mprobe(source, TAG, MPI_COMM_WORLD, &message, MPI_STATUS_IGNORE);
        FAILS(MPI_Mrecv(received, ROOM, MPI_INT, &message, &status), MPI_ERR_TRUNCATE);
        check_status(&status);
    });
    SENDS({
        MPI_Message message;
        MPI_Mprobe(source, TAG, MPI_COMM_WORLD, &message, MPI_STATUS_IGNORE);
        MPI_Imrecv(received, ROOM, MPI_INT, &message, &request);
        FAILS(MPI_Wait(&request, &status), MPI_ERR_TRUNCATE);
        check_status(&status);
    });
    clear(&status);
    FAILS(MPI_Sendrecv(data, count, MPI_INT, target, TAG, received, ROOM, MPI_INT, source, TAG, MPI_COMM_WORLD, &status),
          MPI_ERR_TRUNCATE);
    check_status(&status);
    clear(&status);
    MPI_Isendrecv(data, count, MPI_INT, target, TAG, received, ROOM, MPI_INT, source, TAG, MPI_COMM_WORLD, &request);
    FAILS(MPI_Wait(&request, &status), MPI_ERR_TRUNCATE);
    check_status(&status);
    SENDS({
        /* The replaced data go to no task. */
        FAILS(MPI_Sendrecv_replace(received, ROOM, MPI_INT, MPI_PROC_NULL, 0, source, TAG, MPI_COMM_WORLD, &status),
              MPI_ERR_TRUNCATE);
        check_status(&status);
    });
    SENDS({
        MPI_Irecv(received, ROOM, MPI_INT, source, TAG, MPI_COMM_WORLD, &request);
        FAILS(MPI_Wait(&request, &status), MPI_ERR_TRUNCATE);
        check_status(&status);
    });
    SENDS({
        MPI_Irecv(received, ROOM, MPI_INT, source, TAG, MPI_COMM_WORLD, &request);
        while (!flag) {
            int code = MPI_Test(&request, &flag, &status);
            CHECK(class_of(code) == (flag ? MPI_ERR_TRUNCATE : MPI_SUCCESS));
        }
        check_status(&status);
    });
    SENDS({
        MPI_Irecv(received, ROOM, MPI_INT, source, TAG, MPI_COMM_WORLD, &request);
        FAILS(MPI_Waitany(1, &request, &index, &status), MPI_ERR_TRUNCATE);
        CHECK(index == 0);
        check_status(&status);
    });
    SENDS({
        MPI_Irecv(received, ROOM, MPI_INT, source, TAG, MPI_COMM_WORLD, &request);
        for (flag = 0; !flag;)
            MPI_Testany(1, &request, &index, &flag, &status);
        check_status(&status);
    });
    SENDS({
        MPI_Irecv(received, ROOM, MPI_INT, source, TAG, MPI_COMM_WORLD, &request);
        FAILS(MPI_Waitall(1, &request, &status), MPI_ERR_IN_STATUS);
        FAILS(status.MPI_ERROR, MPI_ERR_TRUNCATE);
        check_status(&status);
    });
    SENDS({
        MPI_Irecv(received, ROOM, MPI_INT, source, TAG, MPI_COMM_WORLD, &request);
        FAILS(MPI_Waitsome(1, &request, &done, &index, &status), MPI_ERR_IN_STATUS);
        FAILS(status.MPI_ERROR, MPI_ERR_TRUNCATE);
        check_status(&status);
    });
    SENDS({
        MPI_Irecv(received, ROOM, MPI_INT, source, TAG, MPI_COMM_WORLD, &request);
        for (flag = 0; !flag;)
            MPI_Testall(1, &request, &flag, &status);
        FAILS(status.MPI_ERROR, MPI_ERR_TRUNCATE);
        check_status(&status);
    });
    SENDS({
        MPI_Irecv(received, ROOM, MPI_INT, source, TAG, MPI_COMM_WORLD, &request);
        for (flag = 0; !flag;)
            MPI_Request_get_status(request, &flag, &status);
        check_status(&status);
        clear(&status);
        MPI_Wait(&request, &status);
        CHECK(status.MPI_SOURCE == source && status.MPI_TAG == TAG);
    });
    MPI_Recv_init(received, ROOM, MPI_INT, source, TAG, MPI_COMM_WORLD, &request);
    for (int round = 0; round < 2; round++)
        SENDS({
            MPI_Start(&request);
            FAILS(MPI_Wait(&request, &status), MPI_ERR_TRUNCATE);
            check_status(&status);
        });
    MPI_Request_free(&request);
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    source = (rank + size - 1) % size, target = (rank + 1) % size;
    int *data = malloc(lengths[LENGTHS - 1] * sizeof *data);
    for (int i = 0; i < lengths[LENGTHS - 1]; i++)
        data[i] = 100 + i;
    for (int i = 0; i < LENGTHS; i++)
        check_calls(data, lengths[i]);
    free(data);
    return end();
}
