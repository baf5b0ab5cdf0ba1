/* Prints the results of every call that sends, receives, probes or waits. */
#include "say.h"

enum { ROOM = 64, BUFFER = 4000 + 8 * MPI_BSEND_OVERHEAD };

static int out[ROOM], in[ROOM], left, right;
static const MPI_Comm world = MPI_COMM_WORLD;

static void forget(void) {
    for (int at = 0; at < ROOM; at++)
        in[at] = -rank - at, out[at] = rank * 100 + at;
}

static void say(const char *what, const MPI_Status *status) {
    number count, elements;
    F(MPI_Get_count)(status, MPI_SHORT, &count), F(MPI_Get_elements)(status, MPI_INT, &elements);
    SAY("%s: from %d, tag %d, %d shorts, %d elements, %lx", what, status->MPI_SOURCE, status->MPI_TAG,
        count == MPI_UNDEFINED ? -99 : (int)count, elements == MPI_UNDEFINED ? -99 : (int)elements, digest(in, sizeof in));
}

/* One message in each mode, blocking and non-blocking, each received by a different call. */
static void modes(void) {
    MPI_Request requests[2];
    MPI_Status statuses[2];
    MPI_Message message;
    int flag = 0;
    void *back;
    number bytes;
    char *buffer = malloc(BUFFER);
#define RECEIVE(name) (F(MPI_Recv)(in, ROOM, MPI_INT, left, 4, world, statuses), say(name, statuses))
    F(MPI_Buffer_attach)(buffer, BUFFER);
    forget(), F(MPI_Bsend)(out, 9, MPI_INT, right, 4, world), RECEIVE("Bsend");
    forget(), F(MPI_Ibsend)(out, 8, MPI_INT, right, 4, world, requests), RECEIVE("Ibsend"), MPI_Wait(requests, MPI_STATUS_IGNORE);
    MPI_Buffer_flush(), MPI_Buffer_iflush(requests), MPI_Wait(requests, MPI_STATUS_IGNORE);
    F(MPI_Buffer_detach)(&back, &bytes), SAY("detached %d %d", back == buffer, bytes == BUFFER);
    F(MPI_Comm_attach_buffer)(world, buffer, BUFFER);
    forget(), F(MPI_Bsend)(out, 7, MPI_INT, right, 4, world), RECEIVE("Bsend, a buffer of the communicator's");
    MPI_Comm_flush_buffer(world), MPI_Comm_iflush_buffer(world, requests), MPI_Wait(requests, MPI_STATUS_IGNORE);
    F(MPI_Comm_detach_buffer)(world, &back, &bytes), SAY("detached %d %d", back == buffer, bytes == BUFFER);
    free(buffer);
    forget(), F(MPI_Isend)(out, 9, MPI_INT, right, 4, world, requests), RECEIVE("Isend"), MPI_Wait(requests, MPI_STATUS_IGNORE);
    forget(), F(MPI_Issend)(out, 0, MPI_INT, right, 4, world, requests), RECEIVE("Issend"), MPI_Wait(requests, MPI_STATUS_IGNORE);
    if (rank > 0)
        RECEIVE("Send and Ssend");
    forget(), rank + 1 < size ? rank % 2 ? F(MPI_Send)(out, 3, MPI_INT, right, 4, world) : F(MPI_Ssend)(out, 4, MPI_INT, right, 4, world) : 0;
#define READY(name, send) \
    (forget(), F(MPI_Irecv)(in, ROOM, MPI_INT, left, 6, world, requests), MPI_Barrier(world), send, MPI_Wait(requests, statuses), say(name, statuses))
    READY("Rsend", F(MPI_Rsend)(out, 11, MPI_INT, right, 6, world));
    READY("Irsend", (F(MPI_Irsend)(out, 12, MPI_INT, right, 6, world, requests + 1), MPI_Wait(requests + 1, MPI_STATUS_IGNORE)));
    forget(), F(MPI_Sendrecv)(out, 5, MPI_INT, right, 1, in, ROOM, MPI_INT, left, 1, world, statuses), say("Sendrecv", statuses);
    forget(), F(MPI_Sendrecv_replace)(in, 5, MPI_INT, right, 2, left, 2, world, statuses), say("Sendrecv_replace", statuses);
    /* Here the other library leaves the values of an earlier call in the status. */
    forget(), F(MPI_Isendrecv)(out, 6, MPI_INT, right, 1, in, ROOM, MPI_INT, left, 1, world, requests), MPI_Wait(requests, MPI_STATUS_IGNORE);
    SAY("Isendrecv %lx", digest(in, sizeof in));
    forget(), F(MPI_Isendrecv_replace)(in, 7, MPI_INT, right, 2, left, 2, world, requests), MPI_Wait(requests, MPI_STATUS_IGNORE);
    SAY("Isendrecv_replace %lx", digest(in, sizeof in));
    forget(), F(MPI_Isend)(out, 9, MPI_INT, right, 8, world, requests), MPI_Probe(left, MPI_ANY_TAG, world, statuses), say("Probe", statuses);
    while (!flag)
        MPI_Iprobe(MPI_ANY_SOURCE, 8, world, &flag, statuses);
    say("Iprobe", statuses), MPI_Mprobe(left, 8, world, &message, statuses), say("Mprobe", statuses);
    F(MPI_Mrecv)(in, ROOM, MPI_INT, &message, statuses), say("Mrecv", statuses), MPI_Wait(requests, MPI_STATUS_IGNORE);
    SAY("the message is gone %d", message == MPI_MESSAGE_NULL);
    forget(), F(MPI_Isend)(out, 10, MPI_INT, right, 8, world, requests);
    for (flag = 0; !flag;)
        MPI_Improbe(left, 8, world, &flag, &message, statuses);
    say("Improbe", statuses), F(MPI_Imrecv)(in, ROOM, MPI_INT, &message, requests + 1), MPI_Waitall(2, requests, statuses);
    say("Imrecv", statuses + 1);
    MPI_Improbe(left, 99, world, &flag, &message, statuses), SAY("no such message %d", flag);
}

/* Persistent operations, started twice. */
static void kept(void) {
    MPI_Request requests[5];
    MPI_Status statuses[5];
    int lists[4][ROOM];
    char *buffer = malloc(BUFFER), *back;
    number bytes;
    F(MPI_Buffer_attach)(buffer, BUFFER);
    F(MPI_Recv_init)(lists[0], 20, MPI_INT, left, 0, world, requests);
    F(MPI_Send_init)(out, 20, MPI_INT, right, 0, world, requests + 1);
    for (int time = 0; time < 2; time++) {
        forget(), MPI_Startall(2, requests), MPI_Waitall(2, requests, statuses);
        SAY("Send_init %lx %d", digest(lists[0], 80), statuses[0].MPI_SOURCE);
    }
    MPI_Request_free(requests + 1);
#define KEPT(name, init)                                                                                                         \
    (init(out, 20, MPI_INT, right, 0, world, requests + 1), MPI_Start(requests), MPI_Barrier(world), MPI_Start(requests + 1),    \
     MPI_Waitall(2, requests, statuses), SAY("%s %lx", name, digest(lists[0], 80)), MPI_Request_free(requests + 1))
    KEPT("Bsend_init", F(MPI_Bsend_init)), KEPT("Ssend_init", F(MPI_Ssend_init)), KEPT("Rsend_init", F(MPI_Rsend_init));
    MPI_Request_free(requests);
    F(MPI_Buffer_detach)(&back, &bytes), free(buffer);
    MPI_Psend_init(out, 4, 5, MPI_INT, right, 3, world, MPI_INFO_NULL, requests + 1);
    MPI_Precv_init(lists[1], 2, 10, MPI_INT, left, 3, world, MPI_INFO_NULL, requests);
    for (int time = 0, flag = 0; time < 2; time++, flag = 0) {
        MPI_Startall(2, requests);
        MPI_Pready(1, requests[1]), MPI_Pready_range(2, 3, requests[1]), MPI_Pready_list(1, (int[]){0}, requests[1]);
        while (!flag)
            MPI_Parrived(requests[0], 1, &flag);
        MPI_Waitall(2, requests, statuses), SAY("partitioned %lx", digest(lists[1], 80));
    }
    MPI_Request_free(requests), MPI_Request_free(requests + 1);
}

/* Every call that waits for, or tests, several requests. */
static void completions(void) {
    MPI_Request requests[4];
    MPI_Status statuses[4], status;
    int lists[4][8], at, flag, count, indices[4];
    char seen[4];
#define SEVERAL(from)                                                                                 \
    do {                                                                                              \
        memset(lists, 9, sizeof lists), memset(seen, 0, sizeof seen);                                 \
        for (at = (from); at < 4; at++)                                                               \
            F(MPI_Irecv)(lists[at], 8, MPI_INT, left, at, world, requests + at);                      \
        for (at = (from); at < 4; at++)                                                               \
            F(MPI_Send)(out, at + 1, MPI_INT, right, at, world);                                      \
    } while (0)
    SEVERAL(0);
    for (int left_over = 4; left_over > 0; left_over--)
        MPI_Waitany(4, requests, &at, &status), seen[at] = (char)(status.MPI_TAG + 1);
    MPI_Waitany(4, requests, &at, &status), SAY("Waitany %lx %lx, none %d", digest(lists, sizeof lists), digest(seen, 4), at == MPI_UNDEFINED);
    SEVERAL(0);
    for (int left_over = 4; left_over > 0;)
        if (MPI_Testany(4, requests, &at, &flag, &status), flag)
            seen[at] = (char)(status.MPI_TAG + 1), left_over--;
    MPI_Testany(4, requests, &at, &flag, &status), SAY("Testany %lx, none %d %d", digest(seen, 4), flag, at == MPI_UNDEFINED);
    SEVERAL(0);
    for (int left_over = 4; left_over > 0; left_over -= count) {
        MPI_Waitsome(4, requests, &count, indices, statuses);
        for (at = 0; at < count; at++)
            seen[indices[at]] = (char)(statuses[at].MPI_TAG + 1);
    }
    MPI_Waitsome(4, requests, &count, indices, statuses), SAY("Waitsome %lx, none %d", digest(seen, 4), count == MPI_UNDEFINED);
    SEVERAL(0);
    for (int left_over = 4; left_over > 0; left_over -= count)
        MPI_Testsome(4, requests, &count, indices, statuses);
    MPI_Testsome(4, requests, &count, indices, statuses), SAY("Testsome %lx, none %d", digest(lists, sizeof lists), count == MPI_UNDEFINED);
    SEVERAL(0);
    for (flag = 0; !flag;)
        MPI_Testall(4, requests, &flag, statuses);
    SAY("Testall %lx, tags %d %d", digest(lists, sizeof lists), statuses[0].MPI_TAG, statuses[3].MPI_TAG);
    SEVERAL(0);
    for (flag = 0; !flag;)
        MPI_Request_get_status(requests[1], &flag, &status);
    SAY("Request_get_status: tag %d, kept %d", status.MPI_TAG, requests[1] != MPI_REQUEST_NULL);
    for (flag = 0; !flag;)
        MPI_Request_get_status_all(4, requests, &flag, statuses);
    SAY("Request_get_status_all: tags %d %d", statuses[0].MPI_TAG, statuses[3].MPI_TAG);
    MPI_Request_get_status_any(4, requests, &at, &flag, &status), SAY("Request_get_status_any: %d, right %d", flag, status.MPI_TAG == at);
    MPI_Request_get_status_some(4, requests, &count, indices, statuses), SAY("Request_get_status_some: %d", count);
    for (at = 0; at < 4; at++)
        for (flag = 0; !flag;)
            MPI_Test(requests + at, &flag, &status);
    SAY("Test %lx, tag %d", digest(lists, sizeof lists), status.MPI_TAG);
    F(MPI_Irecv)(lists[0], 8, MPI_INT, left, 999, world, requests);
    MPI_Cancel(requests), MPI_Wait(requests, &status), MPI_Test_cancelled(&status, &flag), SAY("cancelled %d", flag);
    F(MPI_Isend)(out, 3, MPI_INT, right, 5, world, requests), MPI_Request_free(requests), SAY("freed %d", requests[0] == MPI_REQUEST_NULL);
    F(MPI_Recv)(lists[0], 8, MPI_INT, left, 5, world, &status), SAY("and came %d", status.MPI_TAG);
    F(MPI_Recv)(in, 5, MPI_INT, MPI_PROC_NULL, 5, world, &status), SAY("from nobody %d, tag %d", status.MPI_SOURCE, status.MPI_TAG);
}

static int query(void *extra, MPI_Status *status) {
    F(MPI_Status_set_elements)(status, MPI_INT, 6), MPI_Status_set_cancelled(status, 0);
    MPI_Status_set_source(status, 77), MPI_Status_set_tag(status, *(int *)extra), MPI_Status_set_error(status, MPI_SUCCESS);
    return MPI_SUCCESS;
}
static int forgotten(void *extra) { return ++*(int *)extra, MPI_SUCCESS; }
static int cancelled(void *extra, int complete) { return *(int *)extra += 100 + complete, MPI_SUCCESS; }

static void statuses(void) {
    MPI_Request request;
    MPI_Status status;
    int extra = 5, one, two, three;
    number count;
    MPI_Count elements;
    MPI_Grequest_start(query, forgotten, cancelled, &extra, &request);
    MPI_Cancel(&request), MPI_Grequest_complete(request), MPI_Wait(&request, &status);
    MPI_Status_get_source(&status, &one), MPI_Status_get_tag(&status, &two), MPI_Status_get_error(&status, &three);
    F(MPI_Get_count)(&status, MPI_INT, &count);
    SAY("generalized: %d %d %d, %d items, state %d", one, two, three, (int)count, extra);
    MPI_Status_set_elements_x(&status, MPI_DOUBLE, 3), MPI_Get_elements_x(&status, MPI_DOUBLE, &elements);
    SAY("elements %d", (int)elements);
}

static void packing(void) {
    char bytes[256];
    number place = 0, room, all = sizeof bytes;
    address far = 0, far_room;
    int list[3] = {rank, 2, 3}, back[3] = {0, 0, 0};
    double real = 1.5 + rank, read = 0;
    MPI_Datatype spread;
    F(MPI_Type_vector)(2, 1, 2, MPI_INT, &spread), MPI_Type_commit(&spread);
    F(MPI_Pack)(list, 1, spread, bytes, all, &place, world), F(MPI_Pack)(&real, 1, MPI_DOUBLE, bytes, all, &place, world);
    F(MPI_Pack_size)(1, MPI_DOUBLE, world, &room), SAY("packed %d, room %d", (int)place, room >= 8);
    place = 0, F(MPI_Unpack)(bytes, all, &place, back, 1, spread, world), F(MPI_Unpack)(bytes, all, &place, &read, 1, MPI_DOUBLE, world);
    SAY("unpacked %d %d %d %g", back[0], back[1], back[2], read);
    F(MPI_Pack_external)("external32", list, 3, MPI_INT, bytes, all, &far), F(MPI_Pack_external)("external32", &real, 1, MPI_DOUBLE, bytes, all, &far);
    F(MPI_Pack_external_size)("external32", 3, MPI_LONG, &far_room), SAY("external %d %lx, longs %d", (int)far, digest(bytes, (size_t)far), (int)far_room);
    far = 0, memset(back, 0, sizeof back);
    F(MPI_Unpack_external)("external32", bytes, all, &far, back, 3, MPI_INT), F(MPI_Unpack_external)("external32", bytes, all, &far, &read, 1, MPI_DOUBLE);
    SAY("back %d %d %d %g", back[0], back[1], back[2], read);
    MPI_Type_free(&spread);
}

static void subtract(void *in, void *inout, number *length, MPI_Datatype *type) {
    (void)type;
    for (number at = 0; at < *length; at++)
        ((int *)inout)[at] = ((int *)in)[at] - ((int *)inout)[at];
}

static void operations(void) {
    MPI_Op op;
    int commutes, mine[3] = {rank, 5, 6}, other[3] = {9, 8, 7};
    F(MPI_Op_create)(subtract, 0, &op), MPI_Op_commutative(op, &commutes);
    F(MPI_Reduce_local)(mine, other, 3, MPI_INT, op), SAY("subtracted %d %d %d, commutes %d", other[0], other[1], other[2], commutes);
    F(MPI_Allreduce)(mine, other, 3, MPI_INT, op, world), SAY("over all %d %d %d", other[0], other[1], other[2]);
    MPI_Op_free(&op), MPI_Op_commutative(MPI_SUM, &commutes), SAY("freed %d, sums commute %d", op == MPI_OP_NULL, commutes);
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    left = (rank + size - 1) % size, right = (rank + 1) % size;
    modes(), kept(), completions(), statuses(), packing(), operations();
    fflush(stdout);
    return end();
}
