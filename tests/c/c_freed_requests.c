/* Requests that are freed while their operation is under way, up to the end of MPI (MPI 5.0 sections 3.7.3 and 11.2.2): the operations
   complete, also if the sender starts only when the receiver is in MPI_Finalize. */
#include "check.h"
#include <unistd.h>

enum { COUNT = 1 << 20 };

static int kept[4][COUNT];

static int is_kept(int which, int count, int from) {
    for (int i = 0; i < count; i++)
        if (kept[which][i] != from + i)
            return 0;
    return 1;
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    static int data[COUNT];
    const int next = (rank + 1) % size, last = (rank + size - 1) % size;
    MPI_Comm copy;
    MPI_Comm_dup(MPI_COMM_WORLD, &copy);
    MPI_Request requests[4];
    /* A long message, a synchronous one, one in a communicator that is freed meanwhile, and a partitioned one. */
    MPI_Irecv(kept[0], COUNT, MPI_INT, last, 0, MPI_COMM_WORLD, &requests[0]);
    MPI_Irecv(kept[1], 1, MPI_INT, last, 1, MPI_COMM_WORLD, &requests[1]);
    MPI_Irecv(kept[2], COUNT, MPI_INT, last, 2, copy, &requests[2]);
    MPI_Recv_init(kept[3], 4, MPI_INT, last, 3, MPI_COMM_WORLD, &requests[3]);
    MPI_Start(&requests[3]);
    for (int i = 0; i < 4; i++) {
        MPI_Request_free(&requests[i]);
        CHECK(requests[i] == MPI_REQUEST_NULL);
    }
    for (int i = 0; i < COUNT; i++)
        data[i] = rank + i;
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank % 2 == 0) {
        /* By now, the odd ranks are in MPI_Finalize, except in a job of one task. */
        usleep(300000);
    }
    MPI_Request sends[2];
    MPI_Isend(data, COUNT, MPI_INT, next, 0, MPI_COMM_WORLD, &sends[0]);
    MPI_Isend(data, COUNT, MPI_INT, next, 2, copy, &sends[1]);
    MPI_Comm_free(&copy);
    MPI_Request_free(&sends[1]);
    MPI_Request synchronous;
    MPI_Issend(data, 1, MPI_INT, next, 1, MPI_COMM_WORLD, &synchronous);
    MPI_Send(data, 4, MPI_INT, next, 3, MPI_COMM_WORLD);
    if (rank % 2 == 0) {
        CHECK(MPI_Wait(&sends[0], MPI_STATUS_IGNORE) == MPI_SUCCESS);
        CHECK(MPI_Wait(&synchronous, MPI_STATUS_IGNORE) == MPI_SUCCESS);
    } else {
        MPI_Request_free(&sends[0]);
        MPI_Request_free(&synchronous);
    }
    CHECK(MPI_Finalize() == MPI_SUCCESS);
    /* All messages have arrived, since all tasks have finished their sends. */
    if (!is_kept(0, COUNT, last) || !is_kept(1, 1, last) || !is_kept(2, COUNT, last) || !is_kept(3, 4, last)) {
        printf("rank %d: a message has not arrived\n", rank);
        return 1;
    }
    if (rank == 0)
        printf("all good\n");
    return 0;
}
