/* Calls with one bad argument each (bad_input_calls.h, made by tests/c_bad_input.rs), and what they must return. The argument is
 * the number of the first call to make: earlier ones have been made. */
#include "check.h"
#include <signal.h>
#include <unistd.h>

static int raised, first;
static MPI_Comm comm, cart, graph, dist, inter, freed_comm;
static MPI_Datatype uncommitted, freed_type;
static MPI_Op op, freed_op;
static MPI_Group group, freed_group;
static MPI_Win win, locked, dynamic, shared, freed_win;
static MPI_Info info, freed_info;
static MPI_Errhandler on_comm, on_win, on_session, freed_errhandler;
static MPI_Session session, freed_session;
static MPI_Request request, persistent, partitioned, generalized, freed_request, null_request = MPI_REQUEST_NULL;
static MPI_Message message, freed_message = (MPI_Message)0x18000001, null_message = MPI_MESSAGE_NULL;
static MPI_Status status;
static int comm_key, type_key, win_key, freed_key, none = MPI_KEYVAL_INVALID;
static int error_class, error_code;

/* Memory for buffers, results of all kinds, and arrays. */
static double room[4096], more[4096];
static int ones[64], zeros[64], out[4096];
static int bad_counts[64] = {-5};
static MPI_Count large_bad_counts[64] = {-5};
static MPI_Datatype bad_types[64];
static MPI_Count large_ones[64], large_zeros[64], large_out[64];
static MPI_Aint aint_zeros[64];
static MPI_Datatype types[64], made_type;
static MPI_Request requests[64], made_request;
static char text[MPI_MAX_LIBRARY_VERSION_STRING];
static MPI_Comm made_comm, null_comm = MPI_COMM_NULL;
static MPI_Datatype null_type = MPI_DATATYPE_NULL;
static MPI_Op null_op = MPI_OP_NULL;
static MPI_Group null_group = MPI_GROUP_NULL;
static MPI_Win null_win = MPI_WIN_NULL;
static MPI_Info null_info = MPI_INFO_NULL;
static MPI_Errhandler null_errhandler = MPI_ERRHANDLER_NULL;
static MPI_Session null_session = MPI_SESSION_NULL;

/* Requests of which the first was freed; a call may change them. */
static MPI_Request *bad_requests(void) {
    static MPI_Request bad[64];
    bad[0] = freed_request;
    for (int i = 1; i < 64; i++)
        bad[i] = MPI_REQUEST_NULL;
    return bad;
}

static void raise_comm(MPI_Comm *of, int *code, ...) { (void)of, (void)code; raised++; }
static void raise_win(MPI_Win *of, int *code, ...) { (void)of, (void)code; raised++; }
static void raise_session(MPI_Session *of, int *code, ...) { (void)of, (void)code; raised++; }
static void combine(void *in, void *inout, int *len, MPI_Datatype *type) { (void)in, (void)inout, (void)len, (void)type; }
static void combine_c(void *in, void *inout, MPI_Count *len, MPI_Datatype *type) { (void)in, (void)inout, (void)len, (void)type; }
static int query(void *extra, MPI_Status *of) { (void)extra, (void)of; return MPI_SUCCESS; }
static int free_it(void *extra) { (void)extra; return MPI_SUCCESS; }
static int cancel_it(void *extra, int done) { (void)extra, (void)done; return MPI_SUCCESS; }

static void make(void) {
    int one = 1, zero = 0;
    void *at;
    MPI_Comm_create_errhandler(raise_comm, &on_comm);
    MPI_Win_create_errhandler(raise_win, &on_win);
    MPI_Session_create_errhandler(raise_session, &on_session);
    MPI_Comm_create_errhandler(raise_comm, &freed_errhandler);
    MPI_Errhandler copy = freed_errhandler;
    MPI_Errhandler_free(&copy);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, on_comm);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, on_comm);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_dup(MPI_COMM_WORLD, &freed_comm);
    MPI_Comm gone = freed_comm;
    MPI_Comm_free(&gone);
    MPI_Cart_create(comm, 1, &one, &zero, 0, &cart);
    MPI_Graph_create(comm, 1, &one, &zero, 0, &graph);
    MPI_Dist_graph_create_adjacent(comm, 1, &zero, &one, 1, &zero, &one, MPI_INFO_NULL, 0, &dist);
    MPI_Type_contiguous(2, MPI_INT, &uncommitted);
    MPI_Type_contiguous(2, MPI_INT, &freed_type);
    MPI_Datatype type = freed_type;
    MPI_Type_free(&type);
    MPI_Op_create(combine, 1, &op);
    MPI_Op_create(combine, 1, &freed_op);
    MPI_Op dead = freed_op;
    MPI_Op_free(&dead);
    MPI_Comm_group(comm, &group);
    MPI_Comm_group(comm, &freed_group);
    MPI_Group past = freed_group;
    MPI_Group_free(&past);
    MPI_Win_create(more, sizeof more, 1, MPI_INFO_NULL, comm, &win);
    MPI_Win_set_errhandler(win, on_win);
    MPI_Win_create(more, sizeof more, 1, MPI_INFO_NULL, comm, &locked);
    MPI_Win_set_errhandler(locked, on_win);
    MPI_Win_lock_all(0, locked);
    MPI_Win_allocate_shared(64, 1, MPI_INFO_NULL, comm, &at, &shared);
    MPI_Win_set_errhandler(shared, on_win);
    MPI_Win_create_dynamic(MPI_INFO_NULL, comm, &dynamic);
    MPI_Win_set_errhandler(dynamic, on_win);
    MPI_Win_create(more, sizeof more, 1, MPI_INFO_NULL, comm, &freed_win);
    MPI_Win closed = freed_win;
    MPI_Win_free(&closed);
    MPI_Info_create(&info);
    MPI_Info_set(info, "key", "value");
    MPI_Info_create(&freed_info);
    MPI_Info lost = freed_info;
    MPI_Info_free(&lost);
    MPI_Session_init(MPI_INFO_NULL, on_session, &session);
    MPI_Session_init(MPI_INFO_NULL, on_session, &freed_session);
    MPI_Session left = freed_session;
    MPI_Session_finalize(&left);
    MPI_Send_init(room, 1, MPI_INT, MPI_PROC_NULL, 0, comm, &persistent);
    MPI_Psend_init(room, 1, 1, MPI_INT, 0, 0, comm, MPI_INFO_NULL, &partitioned);
    MPI_Grequest_start(query, free_it, cancel_it, NULL, &generalized);
    MPI_Recv_init(room, 1, MPI_INT, 0, 0, comm, &freed_request);
    MPI_Request over = freed_request;
    MPI_Request_free(&over);
    message = MPI_MESSAGE_NO_PROC;
    MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, &comm_key, NULL);
    MPI_Type_create_keyval(MPI_TYPE_NULL_COPY_FN, MPI_TYPE_NULL_DELETE_FN, &type_key, NULL);
    MPI_Win_create_keyval(MPI_WIN_NULL_COPY_FN, MPI_WIN_NULL_DELETE_FN, &win_key, NULL);
    MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, &freed_key, NULL);
    int old = freed_key;
    MPI_Comm_free_keyval(&old);
    MPI_Add_error_class(&error_class);
    MPI_Add_error_code(error_class, &error_code);
    for (int i = 0; i < 64; i++) {
        ones[i] = 1, large_ones[i] = 1, types[i] = MPI_INT, requests[i] = MPI_REQUEST_NULL, bad_types[i] = freed_type;
    }
    request = MPI_REQUEST_NULL;
    inter = MPI_COMM_NULL;
}

/* Checks what a call has returned: one of the classes, raised once, and a text that names the function, the rank and the value. */
static void judge(const char *call, int code, const char *function, const char *says, const int *classes, int count) {
    int class = -1, len = 0, known = 0, times = raised;
    char said[MPI_MAX_ERROR_STRING] = "";
    if (code != MPI_SUCCESS) {
        MPI_Error_class(code, &class);
        MPI_Error_string(code, said, &len);
    }
    for (int i = 0; i < count; i++)
        known |= class == classes[i];
    if (code == MPI_SUCCESS)
        printf("wrong: %s succeeded, want %d\n", call, classes[0]);
    else if (!known)
        printf("wrong: %s gave class %d, not %d: %s\n", call, class, classes[0], said);
    else if (times != 1)
        printf("wrong: %s raised %d errors\n", call, times);
    else if (!strstr(said, function) || !strstr(said, "rank 0") || !strstr(said, says))
        printf("wrong: %s says \"%s\", want %s\n", call, said, says);
    fflush(stdout);
}

#define TRY(number, function, says, call, ...)                                                    \
    if (number >= first) {                                                                        \
        const int classes[] = {__VA_ARGS__};                                                      \
        printf("at %d %s\n", number, #call);                                                      \
        fflush(stdout);                                                                           \
        alarm(60);                                                                                \
        raised = 0;                                                                               \
        judge(#call, call, function, says, classes, (int)(sizeof classes / sizeof *classes));     \
    }

/* Checks a call while MPI is not running: it works, or reports that. */
static void judge_outside(const char *call, int code, const char *function, int works, const char *when) {
    int class = -1, len;
    char said[MPI_MAX_ERROR_STRING] = "", who[32];
    if (code != MPI_SUCCESS) {
        MPI_Error_class(code, &class);
        MPI_Error_string(code, said, &len);
    }
    snprintf(who, sizeof who, "rank %s", getenv("AM_TASK"));
    if (works && strstr(said, "it was called"))
        printf("wrong: %s does not work %s: %s\n", call, when, said);
    if (!works && (class != MPI_ERR_OTHER || !strstr(said, function) || !strstr(said, when) || !strstr(said, who)))
        printf("wrong: %s %s gave class %d: %s\n", call, when, class, said);
}

#define OUTSIDE(function, works, call) alarm(60), judge_outside(#call, call, function, works, when);

static void outside(const char *when) {
    (void)when;
    info = MPI_INFO_NULL;
#include "outside_calls.h"
    printf("tried all %s\n", when);
    fflush(stdout);
}

int main(int argc, char **argv) {
    setvbuf(stdout, NULL, _IOFBF, 1 << 16);
    if (argc > 1 && !strcmp(argv[1], "outside")) {
        outside("before MPI_Init");
        MPI_Init(&argc, &argv);
        MPI_Finalize();
        outside("after MPI_Finalize");
        return 0;
    }
    if (argc > 1 && !strcmp(argv[1], "before"))
        MPI_Barrier(MPI_COMM_WORLD), puts("not reached");
    MPI_Init(&argc, &argv);
    if (argc > 1 && !strcmp(argv[1], "after"))
        MPI_Finalize(), MPI_Barrier(MPI_COMM_WORLD), puts("not reached");
    first = argc > 1 ? atoi(argv[1]) : 0;
    make();
    (void)large_zeros, (void)combine_c;
#include "bad_input_calls.h"
    /* None of the calls has done harm. */
    int mine = 1, sum = 0;
    if (MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, comm) != MPI_SUCCESS || sum != 1)
        printf("wrong: the communicator does not work any more\n");
    fflush(stdout);
    MPI_Win_unlock_all(locked);
    MPI_Finalize();
    return 0;
}
