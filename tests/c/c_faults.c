/* Sequences of calls in which faults were found by reading the library: each check here failed, or the program hung. */
#include "check.h"
#include <stdint.h>
#include <unistd.h>

enum { LONG = 1 << 20 };
static char message[LONG], incoming[LONG], attached[LONG + MPI_BSEND_OVERHEAD];

/* A partitioned receive that is freed without a start still takes the description of its own send. */
static void freed_partitions(void) {
    MPI_Request freed, request;
    int value = 0;
    if (rank == 1) {
        MPI_Precv_init(&value, 1, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &freed);
        MPI_Request_free(&freed);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        MPI_Psend_init(&value, 1, 1, MPI_INT, 1, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &freed);
        MPI_Request_free(&freed);
        value = 7;
        MPI_Psend_init(&value, 1, 1, MPI_INT, 1, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
        MPI_Start(&request);
        MPI_Pready(0, request);
    } else if (rank == 1) {
        MPI_Precv_init(&value, 1, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
        MPI_Start(&request);
    }
    if (rank < 2) {
        CHECK(MPI_Wait(&request, MPI_STATUS_IGNORE) == MPI_SUCCESS && value == 7);
        MPI_Request_free(&request);
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

/* A partitioned receive of too few bytes fails in each round. */
static void refused_partitions(void) {
    MPI_Request send, receive;
    char out[20] = "", in[10];
    MPI_Precv_init(in, 1, 10, MPI_CHAR, 0, 0, MPI_COMM_SELF, MPI_INFO_NULL, &receive);
    MPI_Psend_init(out, 1, 20, MPI_CHAR, 0, 0, MPI_COMM_SELF, MPI_INFO_NULL, &send);
    for (int round = 0; round < 2; round++) {
        MPI_Start(&receive);
        FAILS(MPI_Wait(&receive, MPI_STATUS_IGNORE), MPI_ERR_TRUNCATE);
    }
    MPI_Request_free(&receive);
    MPI_Request_free(&send);
}

/* Between two groups, only the root of its group has buffers. */
static void idle_tasks(void) {
    MPI_Comm side, inter;
    int is_other = rank == size - 1, value = is_other ? 5 : 0, one = 1, zero = 0;
    MPI_Comm_split(MPI_COMM_WORLD, is_other, 0, &side);
    MPI_Intercomm_create(side, 0, MPI_COMM_WORLD, is_other ? 0 : size - 1, 1, &inter);
    MPI_Comm_set_errhandler(inter, MPI_ERRORS_RETURN);
    int root = is_other ? 0 : rank == 0 ? MPI_ROOT : MPI_PROC_NULL, *data = root == MPI_PROC_NULL ? NULL : &value;
    int count = data ? 1 : 10;
    CHECK(MPI_Reduce(data, data, count, MPI_INT, MPI_SUM, root, inter) == MPI_SUCCESS);
    CHECK(MPI_Bcast(data, count, MPI_INT, root, inter) == MPI_SUCCESS);
    CHECK(MPI_Gather(data, count, MPI_INT, data, count, MPI_INT, root, inter) == MPI_SUCCESS);
    CHECK(MPI_Scatter(data, count, MPI_INT, data, count, MPI_INT, root, inter) == MPI_SUCCESS);
    CHECK(MPI_Gatherv(data, count, MPI_INT, data, &one, &zero, MPI_INT, root, inter) == MPI_SUCCESS);
    CHECK(MPI_Scatterv(data, &one, &zero, MPI_INT, data, count, MPI_INT, root, inter) == MPI_SUCCESS);
    CHECK(!data || value == 5);
    MPI_Comm_free(&inter);
    MPI_Comm_free(&side);
}

static MPI_Info hint(const char *key) {
    MPI_Info info;
    MPI_Info_create(&info);
    MPI_Info_set(info, key, "true");
    return info;
}

static void has_two_hints(MPI_Info found, const char *a, const char *b) {
    int keys;
    MPI_Info_get_nkeys(found, &keys);
    CHECK(keys >= 2);
    for (int key = 0; key < 2; key++) {
        char value[8];
        int flag, length = sizeof value;
        MPI_Info_get_string(found, key ? b : a, &length, value, &flag);
        CHECK(flag && !strcmp(value, "true"));
    }
    MPI_Info_free(&found);
}

/* New hints leave the others as they are. */
static void hints(void) {
    const char *names[] = {"mpi_assert_no_any_tag", "mpi_assert_exact_length", "no_locks", "same_size"};
    MPI_Info a = hint(names[0]), b = hint(names[1]), c = hint(names[2]), d = hint(names[3]), found;
    MPI_Comm comm;
    MPI_Win win;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_info(comm, a), MPI_Comm_set_info(comm, b), MPI_Comm_set_info(comm, MPI_INFO_NULL);
    MPI_Comm_get_info(comm, &found), has_two_hints(found, names[0], names[1]);
    MPI_Win_create_dynamic(MPI_INFO_NULL, comm, &win);
    MPI_Win_set_info(win, c), MPI_Win_set_info(win, d), MPI_Win_set_info(win, MPI_INFO_NULL);
    MPI_Win_get_info(win, &found), has_two_hints(found, names[2], names[3]);
    /* A piece of no bytes is attached and detached like any other. */
    MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
    CHECK(MPI_Win_attach(win, message, 0) == MPI_SUCCESS && MPI_Win_detach(win, message) == MPI_SUCCESS);
    FAILS(MPI_Win_detach(win, message), MPI_ERR_RMA_ATTACH);
    MPI_Win_free(&win);
    MPI_Comm_free(&comm);
    MPI_Info_free(&a), MPI_Info_free(&b), MPI_Info_free(&c), MPI_Info_free(&d);
}

/* Receives a long message after its sender may have changed the memory, and checks that the message was sent before. */
static void receive_late(MPI_Comm comm) {
    usleep(50000);
    MPI_Recv(incoming, LONG, MPI_CHAR, 0, 0, comm, MPI_STATUS_IGNORE);
    CHECK(incoming[0] == 'm' && !memcmp(incoming, incoming + 1, LONG - 1));
}

/* When a communicator is disconnected, or a session ends, its messages have been sent. */
static void pending_messages(void) {
    MPI_Comm comm;
    MPI_Request request;
    for (int buffered = 0; buffered < 2; buffered++) {
        MPI_Comm_dup(MPI_COMM_WORLD, &comm);
        memset(message, 'm', LONG);
        if (rank == 1)
            receive_late(comm);
        if (rank == 0 && buffered) {
            MPI_Comm_attach_buffer(comm, attached, sizeof attached);
            MPI_Bsend(message, LONG, MPI_CHAR, 1, 0, comm);
        } else if (rank == 0) {
            MPI_Isend(message, LONG, MPI_CHAR, 1, 0, comm, &request);
            MPI_Request_free(&request);
        }
        CHECK(MPI_Comm_disconnect(&comm) == MPI_SUCCESS && comm == MPI_COMM_NULL);
        memset(message, 'x', LONG);
        memset(attached, 'x', sizeof attached);
    }
    MPI_Session session;
    MPI_Group group;
    memset(message, 'm', LONG);
    MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session);
    MPI_Group_from_session_pset(session, "mpi://WORLD", &group);
    MPI_Comm_create_from_group(group, "c_faults", MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm);
    if (rank == 0) {
        MPI_Session_attach_buffer(session, attached, sizeof attached);
        CHECK(MPI_Bsend(message, LONG, MPI_CHAR, 1, 0, comm) == MPI_SUCCESS);
    } else if (rank == 1) {
        receive_late(comm);
    }
    MPI_Comm_free(&comm);
    MPI_Group_free(&group);
    CHECK(MPI_Session_finalize(&session) == MPI_SUCCESS);
    memset(attached, 'x', sizeof attached);
}

/* A wait that fails because of another message leaves its request: the program can wait again. */
static void wait_again(void) {
    int value = 0, other = 7, code;
    MPI_Request request;
    MPI_Comm comm;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    if (rank == 1) {
        MPI_Irecv(&value, 1, MPI_INT, 0, 3, comm, &request);
        MPI_Rsend(&other, 1, MPI_INT, 2, 1, comm);
        /* The complaint about the ready send, which comes before this message, fails the next call. */
        MPI_Recv(&other, 1, MPI_INT, 2, 2, comm, MPI_STATUS_IGNORE);
        code = MPI_Wait(&request, MPI_STATUS_IGNORE);
        CHECK(code != MPI_SUCCESS && request != MPI_REQUEST_NULL);
        MPI_Send(&other, 1, MPI_INT, 0, 4, comm);
        CHECK(MPI_Wait(&request, MPI_STATUS_IGNORE) == MPI_SUCCESS && value == 7);
    } else if (rank == 0) {
        MPI_Recv(&value, 1, MPI_INT, 1, 4, comm, MPI_STATUS_IGNORE);
        MPI_Send(&other, 1, MPI_INT, 1, 3, comm);
    } else if (rank == 2) {
        MPI_Probe(1, 1, comm, MPI_STATUS_IGNORE);
        MPI_Send(&other, 1, MPI_INT, 1, 2, comm);
        MPI_Recv(&other, 1, MPI_INT, 1, 1, comm, MPI_STATUS_IGNORE);
    }
    MPI_Comm_free(&comm);
}

/* The status of a request that is not active is empty, with its error field. */
static void inactive(void) {
    MPI_Request request;
    int value, flag;
    MPI_Status status;
    MPI_Recv_init(&value, 1, MPI_INT, 0, 0, MPI_COMM_SELF, &request);
    status.MPI_ERROR = 99;
    CHECK(MPI_Wait(&request, &status) == MPI_SUCCESS);
    CHECK(status.MPI_ERROR == MPI_SUCCESS && status.MPI_SOURCE == MPI_ANY_SOURCE && status.MPI_TAG == MPI_ANY_TAG);
    status.MPI_ERROR = 99;
    CHECK(MPI_Test(&request, &flag, &status) == MPI_SUCCESS && flag && status.MPI_ERROR == MPI_SUCCESS);
    MPI_Request_free(&request);
}

/* The contents of a type are the arguments that were given, also an ignored one. */
static void ignored_argument(void) {
    MPI_Datatype type, old;
    int four = 4, none = MPI_DISTRIBUTE_NONE, argument = 7, one = 1, integers[8];
    MPI_Type_create_darray(1, 0, 1, &four, &none, &argument, &one, MPI_ORDER_C, MPI_INT, &type);
    MPI_Type_get_contents(type, 8, 0, 1, integers, NULL, &old);
    CHECK(integers[3] == 4 && integers[4] == MPI_DISTRIBUTE_NONE && integers[5] == 7);
    MPI_Type_free(&type);
}

struct padded {
    int unused, whole;
    double number;
};

static void add(void *from, void *to, int *count, MPI_Datatype *type) {
    struct padded *in = from, *inout = to;
    (void)type;
    CHECK((uintptr_t)from % _Alignof(struct padded) == 0 && (uintptr_t)to % _Alignof(struct padded) == 0);
    for (int at = 0; at < *count; at++)
        inout[at].whole += in[at].whole, inout[at].number += in[at].number;
}

/* The elements that a function of the program gets are aligned like the program's own, also if their first bytes hold no data. */
static void alignment(void) {
    struct padded own[3], all[3];
    MPI_Datatype type, resized;
    MPI_Op op;
    for (int at = 0; at < 3; at++)
        own[at] = (struct padded){0, at, 0.5 * at};
    MPI_Type_create_struct(2, (int[]){1, 1}, (MPI_Aint[]){4, 8}, (MPI_Datatype[]){MPI_INT, MPI_DOUBLE}, &type);
    MPI_Type_create_resized(type, 0, sizeof(struct padded), &resized);
    MPI_Type_commit(&resized);
    MPI_Op_create(add, 1, &op);
    MPI_Allreduce(own, all, 3, resized, op, MPI_COMM_WORLD);
    CHECK(all[2].whole == 2 * size && all[2].number == size);
    MPI_Reduce(own, all, 3, resized, op, 0, MPI_COMM_WORLD);
    CHECK(rank || all[1].whole == size);
    MPI_Op_free(&op);
    MPI_Type_free(&resized), MPI_Type_free(&type);
}

/* The Fortran routine does not look at the send types of data in place. */
extern void mpi_alltoallw_(const void *, const int *, const int *, const int *, void *, const int *, const int *, const int *, const int *,
                           int *);
extern char mpi_fortran_in_place_[4];

static void in_place_in_fortran(void) {
    int data[8], counts[8], places[8], types[8], world = MPI_Comm_toint(MPI_COMM_WORLD), code = -1;
    for (int at = 0; at < size; at++)
        data[at] = rank, counts[at] = 1, places[at] = at * (int)sizeof(int), types[at] = MPI_Type_toint(MPI_INT);
    mpi_alltoallw_(mpi_fortran_in_place_, NULL, NULL, NULL, data, counts, places, types, &world, &code);
    CHECK(code == MPI_SUCCESS);
    for (int at = 0; at < size; at++)
        CHECK(data[at] == at);
}

/* An empty text of an error code is a text. */
static void empty_text(void) {
    int class;
    MPI_Add_error_class(&class);
    MPI_Add_error_string(class, "");
    FAILS(MPI_Remove_error_class(class), MPI_ERR_ARG);
    CHECK(MPI_Remove_error_string(class) == MPI_SUCCESS && MPI_Remove_error_class(class) == MPI_SUCCESS);
}

static int deleted;
static MPI_Session last_session;

/* Runs in MPI_Finalize, while all of MPI still works. */
static int at_finalize(MPI_Comm comm, int keyval, void *value, void *state) {
    void *at;
    int bytes, flag;
    MPI_Session session;
    (void)comm, (void)keyval, (void)value, (void)state;
    deleted += MPI_Buffer_detach(&at, &bytes) == MPI_SUCCESS && at == attached;
    deleted += MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session) == MPI_SUCCESS;
    deleted += MPI_Session_finalize(&session) == MPI_SUCCESS;
    deleted += rank % 2 == 0 || MPI_Session_finalize(&last_session) == MPI_SUCCESS;
    deleted += MPI_Finalized(&flag) == MPI_SUCCESS && !flag;
    return MPI_SUCCESS;
}

/* Texts have any bytes, not only those of UTF-8: a program gets those back that it has set. */
static void other_bytes(void) {
    const char *text = "\xe9t\xe9 \xff";
    char found[MPI_MAX_ERROR_STRING] = "";
    int len = sizeof found, flag, class, code;
    MPI_Info info;
    MPI_Info_create(&info);
    MPI_Info_set(info, text, text);
    CHECK(MPI_Info_get_nthkey(info, 0, found) == MPI_SUCCESS && !strcmp(found, text));
    CHECK(MPI_Info_get_string(info, text, &len, found, &flag) == MPI_SUCCESS && flag);
    CHECK(len == 6 && !strcmp(found, text));
    MPI_Info_free(&info);
    MPI_Comm_set_name(MPI_COMM_SELF, text);
    CHECK(MPI_Comm_get_name(MPI_COMM_SELF, found, &len) == MPI_SUCCESS && len == 5 && !strcmp(found, text));
    MPI_Comm_set_name(MPI_COMM_SELF, "MPI_COMM_SELF");
    MPI_Add_error_class(&class);
    MPI_Add_error_code(class, &code);
    MPI_Add_error_string(code, text);
    CHECK(MPI_Error_string(code, found, &len) == MPI_SUCCESS && len == 5 && !strcmp(found, text));
    MPI_Remove_error_string(code);
    MPI_Remove_error_code(code);
    MPI_Remove_error_class(class);
}

int main(int argc, char **argv) {
    alarm(300);
    begin(&argc, &argv);
    if (size > 1) {
        freed_partitions();
        idle_tasks();
        pending_messages();
    }
    if (size > 2)
        wait_again();
    refused_partitions();
    hints();
    inactive();
    ignored_argument();
    alignment();
    in_place_in_fortran();
    empty_text();
    other_bytes();
    int keyval;
    MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, at_finalize, &keyval, NULL);
    MPI_Comm_set_attr(MPI_COMM_SELF, keyval, NULL);
    MPI_Buffer_attach(attached, sizeof attached);
    if (rank % 2)
        MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &last_session);
    int code = end();
    return code || deleted != 5;
}
