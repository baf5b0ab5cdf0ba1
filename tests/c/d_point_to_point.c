/* Messages in every mode, persistent, partitioned, probed for and buffered; several requests tested; handles as integers. */
#include "check.h"

enum { SHORT = 5, LONG = 60000 };

static int right, left;
static int *out, *in;
static const int lengths[] = {0, 1, SHORT, 1000, LONG};

static void fill(int n, int seed) {
    for (int i = 0; i < n; i++) {
        out[i] = rank * 31 + i + seed;
        in[i] = -1;
    }
}

static void arrived(int n, int seed) {
    for (int i = 0; i < n; i++)
        CHECK(in[i] == left * 31 + i + seed);
}

static void says(MPI_Status *status, int tag, int n) {
    int count;
    MPI_Get_count(status, MPI_INT, &count);
    CHECK(status->MPI_SOURCE == left && status->MPI_TAG == tag && count == n);
}

typedef int start(const void *, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request *);

static void modes(int n) {
    static start *const starts[] = {MPI_Isend, MPI_Issend, MPI_Irsend, MPI_Ibsend};
    static start *const inits[] = {MPI_Send_init, MPI_Ssend_init, MPI_Rsend_init, MPI_Bsend_init};
    MPI_Request both[2], request;
    MPI_Status statuses[2], status;
    for (int mode = 0; mode < 4; mode++) {
        fill(n, mode);
        MPI_Irecv(in, n, MPI_INT, left, mode, MPI_COMM_WORLD, &both[1]);
        MPI_Barrier(MPI_COMM_WORLD);
        CHECK(starts[mode](out, n, MPI_INT, right, mode, MPI_COMM_WORLD, &both[0]) == MPI_SUCCESS);
        MPI_Waitall(2, both, statuses);
        says(&statuses[1], mode, n);
        arrived(n, mode);

        CHECK(inits[mode](out, n, MPI_INT, right, 9, MPI_COMM_WORLD, &both[0]) == MPI_SUCCESS);
        MPI_Recv_init(in, n, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &both[1]);
        for (int time = 0; time < 2; time++) {
            fill(n, time);
            MPI_Start(&both[1]);
            MPI_Barrier(MPI_COMM_WORLD);
            MPI_Start(&both[0]);
            MPI_Waitall(2, both, statuses);
            CHECK(both[0] != MPI_REQUEST_NULL && both[1] != MPI_REQUEST_NULL);
            says(&statuses[1], 9, n);
            arrived(n, time);
            MPI_Barrier(MPI_COMM_WORLD);
        }
        MPI_Request_free(&both[0]);
        MPI_Request_free(&both[1]);

        fill(n, mode);
        MPI_Irecv(in, n, MPI_INT, left, 3, MPI_COMM_WORLD, &request);
        MPI_Barrier(MPI_COMM_WORLD);
        if (mode == 0)
            MPI_Send(out, n, MPI_INT, right, 3, MPI_COMM_WORLD);
        else if (mode == 1)
            MPI_Ssend(out, n, MPI_INT, right, 3, MPI_COMM_WORLD);
        else if (mode == 2)
            MPI_Rsend(out, n, MPI_INT, right, 3, MPI_COMM_WORLD);
        else
            MPI_Bsend(out, n, MPI_INT, right, 3, MPI_COMM_WORLD);
        MPI_Wait(&request, &status);
        says(&status, 3, n);
        arrived(n, mode);
    }
}

static void probes(int n) {
    MPI_Request sent, received;
    MPI_Message message;
    MPI_Status status;
    int flag, found;
    for (int way = 0; way < 6; way++) {
        fill(n, way);
        MPI_Iprobe(left, 77, MPI_COMM_WORLD, &flag, &status);
        CHECK(!flag);
        MPI_Improbe(left, 77, MPI_COMM_WORLD, &flag, &message, &status);
        CHECK(!flag);
        MPI_Isend(out, n, MPI_INT, right, way, MPI_COMM_WORLD, &sent);
        if (way < 2) {
            MPI_Probe(MPI_ANY_SOURCE, way, MPI_COMM_WORLD, &status);
        } else if (way == 2) {
            for (found = 0; !found;)
                MPI_Iprobe(left, MPI_ANY_TAG, MPI_COMM_WORLD, &found, &status);
        } else if (way == 3) {
            for (found = 0; !found;)
                MPI_Improbe(left, MPI_ANY_TAG, MPI_COMM_WORLD, &found, &message, &status);
        } else {
            MPI_Mprobe(MPI_ANY_SOURCE, way, MPI_COMM_WORLD, &message, &status);
        }
        says(&status, way, n);
        if (way < 3) {
            MPI_Recv(in, n, MPI_INT, left, way, MPI_COMM_WORLD, &status);
        } else if (way == 4) {
            MPI_Imrecv(in, n, MPI_INT, &message, &received);
            MPI_Wait(&received, &status);
        } else {
            MPI_Mrecv(in, n, MPI_INT, &message, &status);
        }
        CHECK(way < 3 || message == MPI_MESSAGE_NULL);
        says(&status, way, n);
        arrived(n, way);
        MPI_Wait(&sent, MPI_STATUS_IGNORE);
        /* No task probes for the next message before all tasks have this one. */
        MPI_Barrier(MPI_COMM_WORLD);
    }
    MPI_Mprobe(MPI_PROC_NULL, 0, MPI_COMM_WORLD, &message, &status);
    CHECK(message == MPI_MESSAGE_NO_PROC && status.MPI_SOURCE == MPI_PROC_NULL);
    MPI_Mrecv(in, n, MPI_INT, &message, &status);
    CHECK(message == MPI_MESSAGE_NULL && status.MPI_SOURCE == MPI_PROC_NULL);
}

static void several(void) {
    enum { MANY = 7 };
    MPI_Request requests[MANY];
    MPI_Status statuses[MANY];
    int got[MANY], flag, done, indices[MANY], ended = 0;
    for (int i = 0; i < MANY; i++)
        MPI_Irecv(&got[i], 1, MPI_INT, left, i, MPI_COMM_WORLD, &requests[i]);
    MPI_Testall(MANY, requests, &flag, statuses);
    CHECK(!flag);
    MPI_Testsome(MANY, requests, &done, indices, statuses);
    CHECK(done == 0);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = MANY - 1; i >= 0; i--)
        MPI_Send(&i, 1, MPI_INT, right, i, MPI_COMM_WORLD);
    while (ended < 3) {
        MPI_Testsome(MANY, requests, &done, indices, statuses);
        for (int i = 0; i < done; i++) {
            CHECK(statuses[i].MPI_TAG == indices[i] && got[indices[i]] == indices[i]);
            CHECK(requests[indices[i]] == MPI_REQUEST_NULL);
        }
        ended += done;
    }
    for (flag = 0; !flag;)
        MPI_Testall(MANY, requests, &flag, statuses);
    for (int i = 0; i < MANY; i++)
        CHECK(got[i] == i && requests[i] == MPI_REQUEST_NULL);
    MPI_Testsome(MANY, requests, &done, indices, statuses);
    CHECK(done == MPI_UNDEFINED);
    MPI_Waitsome(MANY, requests, &done, indices, statuses);
    CHECK(done == MPI_UNDEFINED);
}

#if MPI_VERSION >= 4
static void partitioned(void) {
    enum { PARTS = 8, EACH = 500 };
    MPI_Request both[2];
    MPI_Status status;
    int flag, list[2] = {6, 0};
    /* The two sides may have different numbers of parts. */
    MPI_Psend_init(out, PARTS, EACH, MPI_INT, right, 1, MPI_COMM_WORLD, MPI_INFO_NULL, &both[0]);
    MPI_Precv_init(in, PARTS / 2, 2 * EACH, MPI_INT, left, 1, MPI_COMM_WORLD, MPI_INFO_NULL, &both[1]);
    for (int time = 0; time < 3; time++) {
        fill(PARTS * EACH, time);
        MPI_Startall(2, both);
        MPI_Pready_range(2, 5, both[0]);
        MPI_Pready_list(2, list, both[0]);
        MPI_Parrived(both[1], 3, &flag);
        CHECK(size == 1 || time > 0 || !flag || in[7 * EACH] != -1);
        MPI_Pready(7, both[0]);
        MPI_Pready(1, both[0]);
        for (flag = 0; !flag;)
            MPI_Parrived(both[1], 0, &flag);
        CHECK(in[0] == left * 31 + time && in[2 * EACH - 1] == left * 31 + 2 * EACH - 1 + time);
        MPI_Wait(&both[0], MPI_STATUS_IGNORE);
        MPI_Wait(&both[1], &status);
        arrived(PARTS * EACH, time);
    }
    MPI_Request_free(&both[0]);
    MPI_Request_free(&both[1]);
#ifdef MPI_ABI_VERSION
    MPI_Psend_init_c(out, 1, 3, MPI_INT, right, 2, MPI_COMM_WORLD, MPI_INFO_NULL, &both[0]);
    MPI_Precv_init_c(in, 1, 3, MPI_INT, left, 2, MPI_COMM_WORLD, MPI_INFO_NULL, &both[1]);
    fill(3, 8);
    MPI_Startall(2, both);
    MPI_Pready(0, both[0]);
    MPI_Waitall(2, both, MPI_STATUSES_IGNORE);
    arrived(3, 8);
    MPI_Request_free(&both[0]);
    MPI_Request_free(&both[1]);
#endif
}
#endif

#ifdef MPI_ABI_VERSION
/* Buffers of a communicator and of a session, and flushing. */
static void buffers(void) {
    static char own[10000], of_session[10000];
    MPI_Comm dup, from;
    MPI_Session session;
    MPI_Group group;
    MPI_Request request;
    MPI_Status status;
    void *given;
    int bytes;
    MPI_Comm_dup(MPI_COMM_WORLD, &dup);
    CHECK(MPI_Comm_attach_buffer(dup, own, sizeof own) == MPI_SUCCESS);
    fill(1000, 4);
    MPI_Bsend(out, 1000, MPI_INT, right, 0, dup);
    MPI_Recv(in, 1000, MPI_INT, left, 0, dup, &status);
    arrived(1000, 4);
    MPI_Comm_flush_buffer(dup);
    MPI_Comm_iflush_buffer(dup, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Comm_detach_buffer(dup, &given, &bytes);
    CHECK(given == own && bytes == sizeof own);
    MPI_Comm_free(&dup);
    MPI_Buffer_flush();
    MPI_Buffer_iflush(&request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);

    MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session);
    MPI_Session_set_errhandler(session, MPI_ERRORS_RETURN);
    CHECK(MPI_Session_attach_buffer(session, of_session, sizeof of_session) == MPI_SUCCESS);
    MPI_Group_from_session_pset(session, "mpi://WORLD", &group);
    MPI_Comm_create_from_group(group, "d_point_to_point", MPI_INFO_NULL, MPI_ERRORS_RETURN, &from);
    fill(1000, 5);
    CHECK(MPI_Bsend(out, 1000, MPI_INT, right, 0, from) == MPI_SUCCESS);
    MPI_Recv(in, 1000, MPI_INT, left, 0, from, &status);
    arrived(1000, 5);
    MPI_Session_flush_buffer(session);
    MPI_Session_iflush_buffer(session, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Session_detach_buffer(session, &given, &bytes);
    CHECK(given == of_session && bytes == sizeof of_session);
    CHECK(MPI_Session_fromint(MPI_Session_toint(session)) == session);
    MPI_Group_free(&group);
    MPI_Comm_free(&from);
    MPI_Session_finalize(&session);
}

static void statuses_and_integers(void) {
    MPI_Status status;
    MPI_Request request;
    MPI_Message message;
    MPI_Group group;
    MPI_Info info;
    int value;
    memset(&status, 0, sizeof status);
    MPI_Status_set_source(&status, 4);
    MPI_Status_set_tag(&status, 5);
    MPI_Status_set_error(&status, MPI_ERR_TRUNCATE);
    MPI_Status_get_source(&status, &value);
    CHECK(value == 4);
    MPI_Status_get_tag(&status, &value);
    CHECK(value == 5);
    MPI_Status_get_error(&status, &value);
    CHECK(value == MPI_ERR_TRUNCATE && status.MPI_ERROR == MPI_ERR_TRUNCATE);
    MPI_Comm_group(MPI_COMM_WORLD, &group);
    MPI_Info_create_env(0, NULL, &info);
    MPI_Recv_init(in, 1, MPI_INT, left, 0, MPI_COMM_WORLD, &request);
    CHECK(MPI_Comm_fromint(MPI_Comm_toint(MPI_COMM_WORLD)) == MPI_COMM_WORLD);
    CHECK(MPI_Group_fromint(MPI_Group_toint(group)) == group);
    CHECK(MPI_Info_fromint(MPI_Info_toint(info)) == info);
    CHECK(MPI_Request_fromint(MPI_Request_toint(request)) == request);
    CHECK(MPI_Type_fromint(MPI_Type_toint(MPI_INT)) == MPI_INT);
    CHECK(MPI_Op_fromint(MPI_Op_toint(MPI_SUM)) == MPI_SUM);
    CHECK(MPI_Errhandler_fromint(MPI_Errhandler_toint(MPI_ERRORS_RETURN)) == MPI_ERRORS_RETURN);
    MPI_Mprobe(MPI_PROC_NULL, 0, MPI_COMM_WORLD, &message, &status);
    CHECK(MPI_Message_fromint(MPI_Message_toint(message)) == message);
    CHECK(MPI_Win_fromint(MPI_Win_toint(MPI_WIN_NULL)) == MPI_WIN_NULL);
    MPI_Request_free(&request);
    MPI_Info_free(&info);
    MPI_Group_free(&group);
    MPI_Is_thread_main(&value);
    CHECK(value);
    MPI_Query_thread(&value);
    CHECK(value >= MPI_THREAD_SINGLE && value <= MPI_THREAD_MULTIPLE);
    MPI_Pcontrol(1);
}
#endif

int main(int argc, char **argv) {
    begin(&argc, &argv);
    right = (rank + 1) % size;
    left = (rank + size - 1) % size;
    void *buffer;
    int bytes = 4 * LONG * (int)sizeof(int) + 100 * MPI_BSEND_OVERHEAD;
    MPI_Alloc_mem(LONG * sizeof(int), MPI_INFO_NULL, &out);
    MPI_Alloc_mem(LONG * sizeof(int), MPI_INFO_NULL, &in);
    buffer = malloc((size_t)bytes);
    MPI_Buffer_attach(buffer, bytes);
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        modes(lengths[i]);
        probes(lengths[i]);
    }
    several();
#if MPI_VERSION >= 4
    partitioned();
#endif
#ifdef MPI_ABI_VERSION
    buffers();
    statuses_and_integers();
#endif
    MPI_Buffer_detach(&buffer, &bytes);
    free(buffer);
    MPI_Free_mem(out);
    MPI_Free_mem(in);
    return end();
}
