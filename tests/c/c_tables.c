/* Objects of all kinds, made and freed again and again, and many of each kind at once: no table fills up, and no memory is lost. A call
   that frees an object marks it for deallocation (MPI 5.0, 2.5.1), and the standard limits the number of objects by resources only.
   The arguments: the number of objects of each kind that are made and freed; the number that are alive at once; and a part of the names of
   the kinds, all if it is missing. If the first number is 0, objects are made up to the second number, or until the library refuses one.
   Prints the memory that was not given back, or the error at the limit. */
#include "check.h"

/* Maximum growth that is no leak: tables that have grown, in all and for each object that was alive at once. */
enum { SLACK_BYTES = 1 << 19, TABLE_BYTES = 100 };

static long rounds, alive;
static MPI_Datatype vector;
static MPI_Group world_group;
static char private_memory[64];
static MPI_Win dynamic;

static void sum(void *in, void *inout, int *count, MPI_Datatype *type) {
    (void)in, (void)inout, (void)count, (void)type;
}

static void on_comm(MPI_Comm *comm, int *code, ...) {
    (void)comm, (void)code;
}

static void on_win(MPI_Win *win, int *code, ...) {
    (void)win, (void)code;
}

static void on_session(MPI_Session *session, int *code, ...) {
    (void)session, (void)code;
}

static int query(void *extra, MPI_Status *status) {
    (void)extra;
    MPI_Status_set_elements(status, MPI_INT, 0);
    MPI_Status_set_cancelled(status, 0);
    status->MPI_SOURCE = status->MPI_TAG = MPI_UNDEFINED;
    return MPI_SUCCESS;
}

static int nothing(void *extra) {
    (void)extra;
    return MPI_SUCCESS;
}

static int cancel(void *extra, int done) {
    (void)extra, (void)done;
    return MPI_SUCCESS;
}

/* An object of any kind. */
typedef union {
    MPI_Comm comm;
    MPI_Group group;
    MPI_Datatype type;
    MPI_Info info;
    MPI_Op op;
    MPI_Errhandler handler;
    MPI_Request request;
    MPI_Win win;
    MPI_Session session;
    void *memory;
    int number;
} object;

#define MAKES(name) static int name(object *it)
#define ENDS(name) static int name(object *it)

MAKES(duplicate) { return MPI_Comm_dup(MPI_COMM_WORLD, &it->comm); }
MAKES(duplicate_of_self) { return MPI_Comm_dup(MPI_COMM_SELF, &it->comm); }
MAKES(split) { return MPI_Comm_split(MPI_COMM_WORLD, rank % 2, 0, &it->comm); }
MAKES(of_group) { return MPI_Comm_create(MPI_COMM_WORLD, world_group, &it->comm); }
MAKES(cartesian) {
    int periods = 1;
    return MPI_Cart_create(MPI_COMM_WORLD, 1, &size, &periods, 0, &it->comm);
}
MAKES(graph) {
    int next = (rank + 1) % size, before = (rank + size - 1) % size;
    return MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, &before, MPI_UNWEIGHTED, 1, &next, MPI_UNWEIGHTED, MPI_INFO_NULL, 0,
                                          &it->comm);
}
MAKES(with_attribute) {
    int key, code = MPI_Comm_dup(MPI_COMM_SELF, &it->comm);
    if (code != MPI_SUCCESS) return code;
    MPI_Comm_create_keyval(MPI_COMM_DUP_FN, MPI_COMM_NULL_DELETE_FN, &key, NULL);
    MPI_Comm_set_attr(it->comm, key, private_memory);
    MPI_Comm_set_name(it->comm, "a name");
    return MPI_Comm_free_keyval(&key);
}
ENDS(free_comm) { return MPI_Comm_free(&it->comm); }

MAKES(group) {
    int first = 0;
    return MPI_Group_incl(world_group, 1, &first, &it->group);
}
MAKES(group_of_world) { return MPI_Comm_group(MPI_COMM_WORLD, &it->group); }
ENDS(free_group) { return MPI_Group_free(&it->group); }

MAKES(contiguous) { return MPI_Type_contiguous(3, MPI_INT, &it->type); }
MAKES(indexed) {
    int lengths[3] = {1, 2, 3}, at[3] = {0, 4, 9};
    int code = MPI_Type_indexed(3, lengths, at, vector, &it->type);
    return code == MPI_SUCCESS ? MPI_Type_commit(&it->type) : code;
}
MAKES(structure) {
    int lengths[2] = {1, 2};
    MPI_Aint at[2] = {0, 1024};
    MPI_Datatype types[2] = {MPI_DOUBLE, vector};
    int code = MPI_Type_create_struct(2, lengths, at, types, &it->type);
    return code == MPI_SUCCESS ? MPI_Type_commit(&it->type) : code;
}
MAKES(type_with_attribute) {
    int key, code = MPI_Type_dup(vector, &it->type);
    if (code != MPI_SUCCESS) return code;
    MPI_Type_create_keyval(MPI_TYPE_DUP_FN, MPI_TYPE_NULL_DELETE_FN, &key, NULL);
    MPI_Type_set_attr(it->type, key, private_memory);
    return MPI_Type_free_keyval(&key);
}
ENDS(free_type) { return MPI_Type_free(&it->type); }

MAKES(info) {
    int code = MPI_Info_create(&it->info);
    return code == MPI_SUCCESS ? MPI_Info_set(it->info, "key", "value") : code;
}
ENDS(free_info) { return MPI_Info_free(&it->info); }

MAKES(operator) { return MPI_Op_create(sum, 1, &it->op); }
ENDS(free_operator) { return MPI_Op_free(&it->op); }

MAKES(comm_handler) { return MPI_Comm_create_errhandler(on_comm, &it->handler); }
MAKES(win_handler) { return MPI_Win_create_errhandler(on_win, &it->handler); }
MAKES(session_handler) { return MPI_Session_create_errhandler(on_session, &it->handler); }
ENDS(free_handler) { return MPI_Errhandler_free(&it->handler); }

MAKES(comm_key) { return MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, &it->number, NULL); }
ENDS(free_comm_key) { return MPI_Comm_free_keyval(&it->number); }
MAKES(type_key) { return MPI_Type_create_keyval(MPI_TYPE_NULL_COPY_FN, MPI_TYPE_NULL_DELETE_FN, &it->number, NULL); }
ENDS(free_type_key) { return MPI_Type_free_keyval(&it->number); }
MAKES(win_key) { return MPI_Win_create_keyval(MPI_WIN_NULL_COPY_FN, MPI_WIN_NULL_DELETE_FN, &it->number, NULL); }
ENDS(free_win_key) { return MPI_Win_free_keyval(&it->number); }

MAKES(created) { return MPI_Win_create(private_memory, sizeof private_memory, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &it->win); }
MAKES(allocated) {
    void *memory;
    return MPI_Win_allocate(64, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &it->win);
}
MAKES(dynamic_window) { return MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &it->win); }
MAKES(shared) {
    void *memory;
    return MPI_Win_allocate_shared(64, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &it->win);
}
ENDS(free_window) { return MPI_Win_free(&it->win); }

MAKES(attached) {
    it->memory = malloc(64);
    return MPI_Win_attach(dynamic, it->memory, 64);
}
ENDS(detach) {
    int code = MPI_Win_detach(dynamic, it->memory);
    free(it->memory);
    return code;
}

MAKES(allocation) { return MPI_Alloc_mem(64, MPI_INFO_NULL, &it->memory); }
ENDS(free_allocation) { return MPI_Free_mem(it->memory); }

MAKES(persistent_send) { return MPI_Send_init(private_memory, 8, MPI_INT, 0, 0, MPI_COMM_SELF, &it->request); }
MAKES(persistent_receive) { return MPI_Recv_init(private_memory, 1, vector, MPI_ANY_SOURCE, 0, MPI_COMM_SELF, &it->request); }
MAKES(persistent_barrier) { return MPI_Barrier_init(MPI_COMM_WORLD, MPI_INFO_NULL, &it->request); }
MAKES(partitioned) { return MPI_Psend_init(private_memory, 2, 1, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_SELF, MPI_INFO_NULL, &it->request); }
ENDS(free_request) { return MPI_Request_free(&it->request); }
MAKES(generalized) { return MPI_Grequest_start(query, nothing, cancel, NULL, &it->request); }
ENDS(complete) {
    int code = MPI_Grequest_complete(it->request);
    return code == MPI_SUCCESS ? MPI_Wait(&it->request, MPI_STATUS_IGNORE) : code;
}

MAKES(session) { return MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &it->session); }
ENDS(finalize_session) { return MPI_Session_finalize(&it->session); }

MAKES(error_class) { return MPI_Add_error_class(&it->number); }
ENDS(remove_class) { return MPI_Remove_error_class(it->number); }
MAKES(error_code) {
    int code = MPI_Add_error_code(MPI_ERR_OTHER, &it->number);
    return code == MPI_SUCCESS ? MPI_Add_error_string(it->number, "a text") : code;
}
ENDS(remove_code) {
    MPI_Remove_error_string(it->number);
    return MPI_Remove_error_code(it->number);
}

static struct {
    const char *name;
    int (*make)(object *), (*end)(object *);
    int is_collective;
} kinds[] = {
    {"MPI_Comm_dup of the world", duplicate, free_comm, 1},
    {"MPI_Comm_dup of MPI_COMM_SELF", duplicate_of_self, free_comm, 0},
    {"MPI_Comm_split", split, free_comm, 1},
    {"MPI_Comm_create", of_group, free_comm, 1},
    {"MPI_Cart_create", cartesian, free_comm, 1},
    {"MPI_Dist_graph_create_adjacent", graph, free_comm, 1},
    {"a communicator with a name and an attribute", with_attribute, free_comm, 0},
    {"MPI_Group_incl", group, free_group, 0},
    {"MPI_Comm_group", group_of_world, free_group, 0},
    {"MPI_Type_contiguous", contiguous, free_type, 0},
    {"MPI_Type_indexed, committed", indexed, free_type, 0},
    {"MPI_Type_create_struct, committed", structure, free_type, 0},
    {"a datatype with an attribute", type_with_attribute, free_type, 0},
    {"MPI_Info_create", info, free_info, 0},
    {"MPI_Op_create", operator, free_operator, 0},
    {"MPI_Comm_create_errhandler", comm_handler, free_handler, 0},
    {"MPI_Win_create_errhandler", win_handler, free_handler, 0},
    {"MPI_Session_create_errhandler", session_handler, free_handler, 0},
    {"MPI_Comm_create_keyval", comm_key, free_comm_key, 0},
    {"MPI_Type_create_keyval", type_key, free_type_key, 0},
    {"MPI_Win_create_keyval", win_key, free_win_key, 0},
    {"MPI_Win_create", created, free_window, 1},
    {"MPI_Win_allocate", allocated, free_window, 1},
    {"MPI_Win_create_dynamic", dynamic_window, free_window, 1},
    {"MPI_Win_allocate_shared", shared, free_window, 1},
    {"MPI_Win_attach", attached, detach, 0},
    {"MPI_Alloc_mem", allocation, free_allocation, 0},
    {"MPI_Send_init", persistent_send, free_request, 0},
    {"MPI_Recv_init", persistent_receive, free_request, 0},
    {"MPI_Barrier_init", persistent_barrier, free_request, 1},
    {"MPI_Psend_init", partitioned, free_request, 0},
    {"MPI_Grequest_start", generalized, complete, 0},
    {"MPI_Session_init", session, finalize_session, 0},
    {"MPI_Add_error_class", error_class, remove_class, 0},
    {"MPI_Add_error_code with a string", error_code, remove_code, 0},
};
enum { KINDS = sizeof kinds / sizeof *kinds };

static void must(int code, const char *what) {
    if (code != MPI_SUCCESS) {
        char text[MPI_MAX_ERROR_STRING];
        int len;
        MPI_Error_string(code, text, &len);
        printf("%s, rank %d: %s\n", what, rank, text);
        fflush(stdout);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

static void again_and_again(int kind, long times) {
    object it;
    for (long i = 0; i < times; i++) {
        must(kinds[kind].make(&it), kinds[kind].name);
        must(kinds[kind].end(&it), kinds[kind].name);
    }
}

/* Collective kinds are slower: they run a tenth as often. */
static long times_of(int kind, long times) {
    return kinds[kind].is_collective && times >= 10 ? times / 10 : times;
}

static void many_at_once(int kind, object *all, long count) {
    for (long i = 0; i < count; i++)
        must(kinds[kind].make(&all[i]), kinds[kind].name);
    /* The first one of them last: tables are not filled in the order in which they are emptied. */
    for (long i = count - 1; i >= 0; i--)
        must(kinds[kind].end(&all[i]), kinds[kind].name);
}

/* Makes objects until the library refuses one; the error names the limit. Then the objects end, and there is room for another one. */
static void to_the_limit(int kind, object *all, long most) {
    char text[MPI_MAX_ERROR_STRING] = "";
    long made = 0;
    int len, code = MPI_SUCCESS;
    for (; made < most && code == MPI_SUCCESS; made += code == MPI_SUCCESS)
        code = kinds[kind].make(&all[made]);
    if (code != MPI_SUCCESS) MPI_Error_string(code, text, &len);
    /* The limit, and what to do. */
    CHECK(code == MPI_SUCCESS || strstr(text, "a million") || (strstr(text, "262144 pieces of memory") && strstr(text, "free windows")) ||
          strstr(text, "max_map_count"));
    if (rank == 0) {
        printf("%s: %ld at once, then: %s\n", kinds[kind].name, made, text);
        fflush(stdout);
    }
    while (made > 0)
        must(kinds[kind].end(&all[--made]), kinds[kind].name);
    many_at_once(kind, all, 1);
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    rounds = argc > 1 ? atol(argv[1]) : 1000, alive = argc > 2 ? atol(argv[2]) : 200;
    const char *only = argc > 3 ? argv[3] : "";
    MPI_Comm_group(MPI_COMM_WORLD, &world_group);
    MPI_Type_vector(3, 1, 2, MPI_INT, &vector);
    MPI_Type_commit(&vector);
    MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &dynamic);
    MPI_Win_set_errhandler(dynamic, MPI_ERRORS_RETURN);
    object *all = calloc(alive, sizeof *all);
    for (int kind = 0; kind < KINDS; kind++) {
        if (strstr(kinds[kind].name, only) == NULL) continue;
        if (rounds == 0) {
            to_the_limit(kind, all, alive);
            continue;
        }
        long times = times_of(kind, rounds), count = alive;
        double start = MPI_Wtime();
        again_and_again(kind, times / 10);
        /* Tables grow until all objects of one round fit beside those of the round before, which return late. */
        many_at_once(kind, all, count);
        many_at_once(kind, all, count);
        long before = resident();
        many_at_once(kind, all, count);
        again_and_again(kind, times);
        long lost = resident() - before;
        if (rank == 0) {
            printf("%s: %ld times and %ld at once, %ld bytes lost, %.1f s\n", kinds[kind].name, times, count, lost, MPI_Wtime() - start);
            fflush(stdout);
        }
        CHECK(lost <= SLACK_BYTES + TABLE_BYTES * count);
    }
    free(all);
    MPI_Win_free(&dynamic);
    MPI_Type_free(&vector);
    MPI_Group_free(&world_group);
    return end();
}
