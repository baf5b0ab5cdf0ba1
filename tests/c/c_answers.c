/* Results of calls in special cases. The results that are expected here are also those of other libraries. */
#include "check.h"
#include <stdint.h>

/* A key lives until the last attribute with this key is deleted; programs use a copy of the key until then. */
static int deleted;
static int on_delete(MPI_Comm comm, int key, void *value, void *state) {
    (void)comm, (void)key, (void)state;
    deleted += (int)(intptr_t)value;
    return MPI_SUCCESS;
}

static void keys(void) {
    int key, copy, again, flag = 0;
    void *value = NULL;
    MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, on_delete, &key, NULL);
    copy = again = key;
    MPI_Comm_set_attr(MPI_COMM_WORLD, key, (void *)1);
    MPI_Comm_set_attr(MPI_COMM_SELF, key, (void *)10);
    CHECK(MPI_Comm_free_keyval(&key) == MPI_SUCCESS && key == MPI_KEYVAL_INVALID);
    CHECK(MPI_Comm_get_attr(MPI_COMM_WORLD, copy, &value, &flag) == MPI_SUCCESS && flag && value == (void *)1);
    CHECK(MPI_Comm_set_attr(MPI_COMM_WORLD, copy, (void *)100) == MPI_SUCCESS && deleted == 1);
    CHECK(MPI_Comm_free_keyval(&again) == MPI_SUCCESS && again == MPI_KEYVAL_INVALID);
    CHECK(MPI_Comm_delete_attr(MPI_COMM_WORLD, copy) == MPI_SUCCESS && deleted == 101);
    CHECK(MPI_Comm_delete_attr(MPI_COMM_SELF, copy) == MPI_SUCCESS && deleted == 111);
    /* Now the key no longer exists. */
    FAILS(MPI_Comm_set_attr(MPI_COMM_WORLD, copy, NULL), MPI_ERR_KEYVAL);
    FAILS(MPI_Comm_get_attr(MPI_COMM_WORLD, copy, &value, &flag), MPI_ERR_KEYVAL);
    FAILS(MPI_Comm_free_keyval(&copy), MPI_ERR_KEYVAL);
}

/* An error in the creation of an object calls the error handler that the object is to get. */
static int heard_comm, heard_session;
static void hear_comm(MPI_Comm *comm, int *code, ...) { (void)comm, heard_comm = class_of(*code); }
static void hear_session(MPI_Session *session, int *code, ...) { (void)session, heard_session = class_of(*code); }

static void makings(void) {
    MPI_Errhandler for_comm, for_session;
    MPI_Session session = MPI_SESSION_NULL;
    MPI_Comm comm;
    MPI_Group world;
    MPI_Info info;
    MPI_Comm_create_errhandler(hear_comm, &for_comm);
    MPI_Session_create_errhandler(hear_session, &for_session);
    /* Any other error handler would end the job. */
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_ARE_FATAL);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
    MPI_Comm_group(MPI_COMM_WORLD, &world);
#define HEARD(call, heard, class) CHECK((heard = -1, class_of(call) == (class)) && heard == (class))
    HEARD(MPI_Session_init(MPI_INFO_NULL, for_session, NULL), heard_session, MPI_ERR_ARG);
    HEARD(MPI_Session_init((MPI_Info)(intptr_t)0x7ffff, for_session, &session), heard_session, MPI_ERR_INFO);
    HEARD(MPI_Comm_create_from_group(world, "a", MPI_INFO_NULL, for_comm, NULL), heard_comm, MPI_ERR_ARG);
    HEARD(MPI_Comm_create_from_group(world, NULL, MPI_INFO_NULL, for_comm, &comm), heard_comm, MPI_ERR_ARG);
    HEARD(MPI_Comm_create_from_group(MPI_GROUP_NULL, "a", MPI_INFO_NULL, for_comm, &comm), heard_comm, MPI_ERR_GROUP);
    HEARD(MPI_Intercomm_create_from_groups(world, 0, world, 0, "a", MPI_INFO_NULL, for_comm, NULL), heard_comm, MPI_ERR_ARG);
    HEARD(MPI_Intercomm_create_from_groups(world, 0, MPI_GROUP_NULL, 0, "a", (MPI_Info)(intptr_t)0x7ffff, for_comm, &comm),
        heard_comm, MPI_ERR_INFO);
    MPI_Info_create(&info);
    MPI_Info_set(info, "thread_level", "MPI_THREAD_MANY");
    HEARD(MPI_Session_init(info, for_session, &session), heard_session, MPI_ERR_INFO_VALUE);
    MPI_Info_set(info, "thread_level", "MPI_THREAD_SERIALIZED");
    CHECK(MPI_Session_init(info, for_session, &session) == MPI_SUCCESS);
    /* The case of letters in names of process sets is not significant. */
    MPI_Group set;
    int many = 0;
    CHECK(MPI_Group_from_session_pset(session, "mpi://world", &set) == MPI_SUCCESS);
    MPI_Group_size(set, &many);
    CHECK(many == size);
    MPI_Group_free(&set);
    CHECK(MPI_Group_from_session_pset(session, "MPI://self", &set) == MPI_SUCCESS);
    MPI_Group_size(set, &many);
    CHECK(many == 1);
    MPI_Group_free(&set);
    HEARD(MPI_Group_from_session_pset(session, "mpi://worlds", &set), heard_session, MPI_ERR_ARG);
    MPI_Session_finalize(&session);
    MPI_Info_free(&info), MPI_Group_free(&world);
    MPI_Errhandler_free(&for_comm), MPI_Errhandler_free(&for_session);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
}

/* MPI_Wait ends after an MPI_Cancel of a send, whether the send was cancelled or its message is received. */
static void cancelled_sends(void) {
    enum { LONG = 300000 };
    static char bytes[LONG], got[LONG];
    MPI_Request request;
    MPI_Status status;
    int flag, was_cancelled, wanted = size > 1 ? 1 : 0;
    if (rank == 0) {
        for (int turn = 0; turn < 4; turn++) {
            int length = turn % 2 ? LONG : 8, is_synchronous = turn / 2;
            memset(bytes, 'a' + turn, LONG);
            if (is_synchronous)
                MPI_Issend(bytes, length, MPI_CHAR, wanted, 100 + turn, MPI_COMM_WORLD, &request);
            else
                MPI_Isend(bytes, length, MPI_CHAR, wanted, 100 + turn, MPI_COMM_WORLD, &request);
            MPI_Cancel(&request);
            MPI_Wait(&request, &status);
            MPI_Test_cancelled(&status, &was_cancelled);
            /* The eager message of turn 0 was sent at once, so its send is not cancelled. The sends of the other turns are. */
            CHECK(was_cancelled == (turn != 0));
            memset(bytes, 'x', LONG);
            int told[2] = {was_cancelled, length};
            MPI_Send(told, 2, MPI_INT, wanted, 50, MPI_COMM_WORLD);
            if (size == 1)
                break;
        }
        if (size == 1) {
            int told[2];
            MPI_Recv(told, 2, MPI_INT, 0, 50, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Recv(got, 8, MPI_CHAR, 0, 100, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        }
        /* A persistent send can be started again. */
        MPI_Ssend_init(bytes, 8, MPI_CHAR, wanted, 200, MPI_COMM_WORLD, &request);
        MPI_Start(&request);
        MPI_Cancel(&request);
        MPI_Wait(&request, &status);
        MPI_Test_cancelled(&status, &was_cancelled);
        CHECK(was_cancelled);
        if (size > 1) {
            MPI_Send(NULL, 0, MPI_CHAR, wanted, 51, MPI_COMM_WORLD);
            memset(bytes, 'y', 8);
            MPI_Start(&request);
            MPI_Wait(&request, &status);
            MPI_Test_cancelled(&status, &was_cancelled);
            CHECK(!was_cancelled);
        }
        MPI_Request_free(&request);
    } else if (rank == 1) {
        for (int turn = 0; turn < 4; turn++) {
            int told[2];
            MPI_Recv(told, 2, MPI_INT, 0, 50, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Iprobe(0, 100 + turn, MPI_COMM_WORLD, &flag, &status);
            CHECK(flag == !told[0]);
            if (flag) {
                MPI_Recv(got, LONG, MPI_CHAR, 0, 100 + turn, MPI_COMM_WORLD, &status);
                CHECK(got[0] == 'a' + turn && got[told[1] - 1] == 'a' + turn);
            }
        }
        MPI_Recv(NULL, 0, MPI_CHAR, 0, 51, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Recv(got, 8, MPI_CHAR, 0, 200, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        CHECK(got[0] == 'y');
    }
    MPI_Barrier(MPI_COMM_WORLD);
    /* A message that a matched probe has taken belongs to the receiver: it cannot be cancelled any more. */
    for (int length = 8; length <= LONG; length += LONG - 8) {
        if (size > 1 && rank == 0) {
            memset(bytes, 'm', length);
            MPI_Issend(bytes, length, MPI_CHAR, 1, 300, MPI_COMM_WORLD, &request);
            MPI_Recv(NULL, 0, MPI_CHAR, 1, 301, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Cancel(&request);
            MPI_Send(NULL, 0, MPI_CHAR, 1, 302, MPI_COMM_WORLD);
            MPI_Wait(&request, &status);
            MPI_Test_cancelled(&status, &was_cancelled);
            CHECK(!was_cancelled);
        } else if (rank == 1) {
            MPI_Message message;
            MPI_Mprobe(0, 300, MPI_COMM_WORLD, &message, MPI_STATUS_IGNORE);
            MPI_Send(NULL, 0, MPI_CHAR, 0, 301, MPI_COMM_WORLD);
            MPI_Recv(NULL, 0, MPI_CHAR, 0, 302, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Mrecv(got, length, MPI_CHAR, &message, MPI_STATUS_IGNORE);
            CHECK(got[length - 1] == 'm');
        }
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

/* Null buffers. */
static void buffers(void) {
    int value = 1, parts[2] = {0, 0};
    MPI_Status status;
    MPI_Request request;
    FAILS(MPI_Reduce_local(MPI_IN_PLACE, &value, 1, MPI_INT, MPI_SUM), MPI_ERR_BUFFER);
    FAILS(MPI_Reduce_local(&value, MPI_IN_PLACE, 1, MPI_INT, MPI_SUM), MPI_ERR_BUFFER);
    /* If there are no elements, the datatype is not used. */
    CHECK(MPI_Isend(NULL, 0, MPI_DATATYPE_NULL, 0, 0, MPI_COMM_SELF, &request) == MPI_SUCCESS);
    CHECK(MPI_Recv(NULL, 0, MPI_DATATYPE_NULL, 0, 0, MPI_COMM_SELF, &status) == MPI_SUCCESS);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    CHECK(MPI_Bcast(NULL, 0, MPI_DATATYPE_NULL, 0, MPI_COMM_SELF) == MPI_SUCCESS);
    CHECK(MPI_Gather(NULL, 0, MPI_DATATYPE_NULL, NULL, 0, MPI_DATATYPE_NULL, 0, MPI_COMM_SELF) == MPI_SUCCESS);
    CHECK(MPI_Alltoallv(NULL, parts, parts, MPI_DATATYPE_NULL, NULL, parts, parts, MPI_DATATYPE_NULL, MPI_COMM_SELF) ==
        MPI_SUCCESS);
    FAILS(MPI_Send(&value, 1, MPI_DATATYPE_NULL, 0, 0, MPI_COMM_SELF), MPI_ERR_TYPE);
}

/* Counts that exceed any memory. */
static void counts(void) {
    const MPI_Count many = (MPI_Count)1 << 60;
    static long bytes[4];
    MPI_Request request;
    MPI_Datatype wide, pair;
    FAILS(MPI_Recv_c(bytes, many, MPI_LONG, MPI_ANY_SOURCE, 9, MPI_COMM_SELF, MPI_STATUS_IGNORE), MPI_ERR_COUNT);
    FAILS(MPI_Send_c(bytes, many, MPI_LONG, 0, 9, MPI_COMM_SELF), MPI_ERR_COUNT);
    FAILS(MPI_Isend_c(bytes, many, MPI_LONG, 0, 9, MPI_COMM_SELF, &request), MPI_ERR_COUNT);
    FAILS(MPI_Irecv_c(bytes, INT64_MAX, MPI_SHORT, 0, 9, MPI_COMM_SELF, &request), MPI_ERR_COUNT);
    FAILS(MPI_Send_init_c(bytes, INT64_MAX / 8 + 1, MPI_LONG, 0, 9, MPI_COMM_SELF, &request), MPI_ERR_COUNT);
    FAILS(MPI_Bcast_c(bytes, many, MPI_LONG, 0, MPI_COMM_SELF), MPI_ERR_COUNT);
    FAILS(MPI_Allreduce_c(bytes, bytes + 2, many, MPI_LONG, MPI_SUM, MPI_COMM_SELF), MPI_ERR_COUNT);
    FAILS(MPI_Reduce_local_c(bytes, bytes + 2, many, MPI_LONG, MPI_SUM), MPI_ERR_COUNT);
    FAILS(MPI_Gather_c(bytes, many, MPI_LONG, bytes, many, MPI_LONG, 0, MPI_COMM_SELF), MPI_ERR_COUNT);
    MPI_Type_create_resized(MPI_INT, 0, (MPI_Aint)1 << 40, &wide), MPI_Type_commit(&wide);
    FAILS(MPI_Send(bytes, 1 << 30, wide, 0, 9, MPI_COMM_SELF), MPI_ERR_COUNT);
    MPI_Type_contiguous(2, MPI_LONG, &pair), MPI_Type_commit(&pair);
    MPI_Count position = 0;
    FAILS(MPI_Pack_c(bytes, many / 2, pair, bytes, INT64_MAX, &position, MPI_COMM_SELF), MPI_ERR_COUNT);
    MPI_Type_free(&wide), MPI_Type_free(&pair);
}

/* An error in the send of an exchange is found before the receive starts. */
static void exchanges(void) {
    char old[64], now[64];
    MPI_Request request;
    memset(old, 'o', sizeof old);
    for (int turn = 0; turn < 8; turn++) {
        int is_there = turn % 2, value = 1000 + turn, got = 0, code;
        if (is_there)
            MPI_Send(&value, 1, MPI_INT, rank, 5, MPI_COMM_WORLD);
        switch (turn / 2) {
        case 0: code = MPI_Sendrecv(now, 1, MPI_CHAR, size, 5, old, 64, MPI_CHAR, rank, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE); break;
        case 1: code = MPI_Sendrecv_replace(old, 64, MPI_CHAR, size, 5, rank, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE); break;
        case 2: code = MPI_Isendrecv(now, 1, MPI_CHAR, size, 5, old, 64, MPI_CHAR, rank, 5, MPI_COMM_WORLD, &request); break;
        default: code = MPI_Isendrecv_replace(old, 64, MPI_CHAR, size, 5, rank, 5, MPI_COMM_WORLD, &request);
        }
        CHECK(class_of(code) == MPI_ERR_RANK);
        if (!is_there)
            MPI_Send(&value, 1, MPI_INT, rank, 5, MPI_COMM_WORLD);
        int flag = 0;
        MPI_Iprobe(rank, 5, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
        CHECK(flag);
        MPI_Recv(&got, 1, MPI_INT, rank, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        CHECK(got == value);
        for (int at = 0; at < 64; at++)
            CHECK(old[at] == 'o');
    }
}

/* Communicators made from a session's groups use the session's buffer. */
static void buffer_of_a_session(void) {
    static char lent[1000 + MPI_BSEND_OVERHEAD];
    MPI_Session session;
    MPI_Group group;
    MPI_Comm comm, made[2];
    char out[1000], in[1000];
    void *given;
    int bytes;
    memset(out, 7, sizeof out);
    MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session);
    MPI_Group_from_session_pset(session, "mpi://SELF", &group);
    MPI_Comm_create_from_group(group, "answers", MPI_INFO_NULL, MPI_ERRORS_RETURN, &made[0]);
    MPI_Comm_dup(made[0], &made[1]);
    FAILS(MPI_Bsend(out, 1000, MPI_CHAR, 0, 0, made[0]), MPI_ERR_BUFFER);
    CHECK(MPI_Session_attach_buffer(session, lent, sizeof lent) == MPI_SUCCESS);
    for (int at = 0; at < 2; at++) {
        memset(in, 0, sizeof in);
        CHECK(MPI_Bsend(out, 1000, MPI_CHAR, 0, 0, made[at]) == MPI_SUCCESS);
        MPI_Recv(in, 1000, MPI_CHAR, 0, 0, made[at], MPI_STATUS_IGNORE);
        CHECK(memcmp(in, out, sizeof in) == 0);
    }
    CHECK(MPI_Session_detach_buffer(session, &given, &bytes) == MPI_SUCCESS && given == lent && bytes == sizeof lent);
    MPI_Comm_free(&made[0]), MPI_Comm_free(&made[1]);
    /* Another communicator, which may have got the handle of a freed one. */
    CHECK(MPI_Session_attach_buffer(session, lent, sizeof lent) == MPI_SUCCESS);
    MPI_Comm_dup(MPI_COMM_SELF, &comm);
    FAILS(MPI_Bsend(out, 1000, MPI_CHAR, 0, 0, comm), MPI_ERR_BUFFER);
    MPI_Comm_free(&comm);
    MPI_Session_detach_buffer(session, &given, &bytes);
    MPI_Group_free(&group);
    MPI_Session_finalize(&session);
}

/* Grids whose sides differ as little as possible. */
static void grid(int tasks, int a, int b, int c) {
    int sides[3] = {0, 0, 0};
    MPI_Dims_create(tasks, 3, sides);
    if (sides[0] != a || sides[1] != b || sides[2] != c)
        printf("%d: %d x %d x %d\n", tasks, sides[0], sides[1], sides[2]);
    CHECK(sides[0] == a && sides[1] == b && sides[2] == c);
}

static void grids(void) {
    grid(34425, 51, 27, 25);
    grid(7488, 26, 18, 16);
    grid(5040, 21, 16, 15);
}

/* A send in synchronous mode completes when its receive has started, and not when its message is only probed for. Tested with ordinary and
 * with persistent requests, on both kinds of communicators, for short and for long messages. */
static void synchronous(void)
{
    enum { LONG = 300000 };
    static char data[LONG];
    MPI_Comm inter, comms[2] = {MPI_COMM_WORLD};
    int flag;
    if (rank < 2 && size > 1) {
        MPI_Intercomm_create(MPI_COMM_SELF, 0, MPI_COMM_WORLD, 1 - rank, 30, &inter);
        comms[1] = inter;
    }
    for (int turn = 0; turn < 8 && size > 1 && rank < 2; turn++) {
        int length = turn % 2 ? LONG : 8, is_persistent = turn / 2 % 2, peer = turn < 4 ? 1 - rank : 0;
        MPI_Comm comm = comms[turn / 4];
        MPI_Request request;
        if (rank == 0) {
            memset(data, 'a' + turn, length);
            if (is_persistent) {
                MPI_Ssend_init(data, length, MPI_BYTE, peer, turn, comm, &request);
                MPI_Start(&request);
            } else {
                MPI_Issend(data, length, MPI_BYTE, peer, turn, comm, &request);
            }
            MPI_Recv(NULL, 0, MPI_BYTE, 1, 31, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            for (int i = 0; i < 10; i++) {
                MPI_Test(&request, &flag, MPI_STATUS_IGNORE);
                CHECK(!flag);
            }
            MPI_Send(NULL, 0, MPI_BYTE, 1, 31, MPI_COMM_WORLD);
            MPI_Wait(&request, MPI_STATUS_IGNORE);
            if (is_persistent) MPI_Request_free(&request);
            CHECK(request == MPI_REQUEST_NULL);
            MPI_Ssend(data, length, MPI_BYTE, peer, turn, comm);
        } else {
            MPI_Status status;
            MPI_Probe(MPI_ANY_SOURCE, turn, comm, &status);
            MPI_Send(NULL, 0, MPI_BYTE, 0, 31, MPI_COMM_WORLD);
            MPI_Recv(NULL, 0, MPI_BYTE, 0, 31, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            for (int i = 0; i < 2; i++) {
                MPI_Recv(data, LONG, MPI_BYTE, MPI_ANY_SOURCE, i ? MPI_ANY_TAG : turn, comm, &status);
                MPI_Get_count(&status, MPI_BYTE, &flag);
                CHECK(flag == length && status.MPI_TAG == turn && data[0] == 'a' + turn && data[length - 1] == 'a' + turn);
                memset(data, 0, length);
            }
        }
    }
    if (rank < 2 && size > 1) MPI_Comm_free(&inter);
    MPI_Barrier(MPI_COMM_WORLD);
}

int main(int argc, char **argv) {
    int provided;
    /* The calls take different paths if several threads may call MPI. */
    if (getenv("WITH_THREADS")) {
        MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
        MPI_Comm_rank(MPI_COMM_WORLD, &rank);
        MPI_Comm_size(MPI_COMM_WORLD, &size);
        MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
        MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    } else {
        begin(&argc, &argv);
    }
    keys();
    makings();
    buffers();
    counts();
    exchanges();
    cancelled_sends();
    synchronous();
    buffer_of_a_session();
    grids();
    return end();
}
