/* Prints the results of calls about communicators, their attributes and error handlers, graphs, sessions and handles. */
#include "say.h"

static const MPI_Comm world = MPI_COMM_WORLD;

static void say_comm(const char *what, MPI_Comm comm) {
    int own, count, result;
    MPI_Comm_rank(comm, &own), MPI_Comm_size(comm, &count), MPI_Comm_compare(comm, world, &result);
    SAY("%s: %d of %d; %d %d", what, own, count, result == MPI_CONGRUENT, result == MPI_SIMILAR);
}

static void made(const char *what, MPI_Comm *comm) {
    say_comm(what, *comm), MPI_Comm_free(comm);
}

static void constructors(void) {
    MPI_Comm comm, other, inter;
    MPI_Group all, some, remote;
    MPI_Info info, found;
    MPI_Request request;
    char value[32];
    int flag, count, range[1][3] = {{0, size - 1, 1}};
    MPI_Comm_group(world, &all), MPI_Group_range_incl(all, 1, range, &some);
    MPI_Comm_create(world, some, &comm), made("create", &comm);
    MPI_Comm_create_group(world, some, 7, &comm), made("create_group", &comm);
    MPI_Comm_create_from_group(some, "a tag", MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm), made("create_from_group", &comm);
    MPI_Comm_idup(world, &comm, &request), MPI_Wait(&request, MPI_STATUS_IGNORE), made("idup", &comm);
    MPI_Info_create(&info), MPI_Info_set(info, "mpi_assert_no_any_tag", "false");
    MPI_Comm_dup_with_info(world, info, &comm), MPI_Comm_set_info(comm, info), MPI_Comm_get_info(comm, &found);
    count = sizeof value, MPI_Info_get_string(found, "mpi_assert_no_any_tag", &count, value, &flag), SAY("info %d %s", flag, flag ? value : "");
    MPI_Info_free(&found), made("dup_with_info", &comm);
    MPI_Comm_idup_with_info(world, info, &comm, &request), MPI_Wait(&request, MPI_STATUS_IGNORE), say_comm("idup_with_info", comm);
    MPI_Comm_disconnect(&comm), SAY("disconnected %d", comm == MPI_COMM_NULL), MPI_Info_free(&info);
    MPI_Group_free(&some), MPI_Group_range_excl(all, 1, range, &some), SAY("nobody %d", some == MPI_GROUP_EMPTY);
    if (size > 1) {
        int half = size / 2, mine = rank < half, first[1][3] = {{0, half - 1, 1}}, second[1][3] = {{half, size - 1, 1}}, ranks[16];
        MPI_Group_range_incl(all, 1, mine ? first : second, &some), MPI_Group_range_incl(all, 1, mine ? second : first, &remote);
        MPI_Intercomm_create_from_groups(some, 0, remote, 0, "two", MPI_INFO_NULL, MPI_ERRORS_RETURN, &inter);
        MPI_Group_free(&some), MPI_Group_free(&remote);
        MPI_Comm_remote_group(inter, &remote), MPI_Group_size(remote, &count);
        for (int at = 0; at < count; at++)
            MPI_Group_translate_ranks(remote, 1, &at, all, ranks + at);
        SAY("of the others %d, from %d to %d", count, ranks[0], ranks[count - 1]), MPI_Group_free(&remote);
        MPI_Comm_split(inter, 0, rank, &other), MPI_Comm_remote_size(other, &count), SAY("split, others %d", count);
        MPI_Comm_free(&other), MPI_Comm_free(&inter);
    }
    MPI_Comm_get_parent(&comm), SAY("no parent %d", comm == MPI_COMM_NULL);
    MPI_Group_free(&all);
}

static int copied, deleted;
static int copy(MPI_Comm comm, int keyval, void *extra, void *in, void *out, int *flag) {
    (void)comm, (void)keyval, copied++, *flag = 1;
    *(void **)out = (char *)in + *(int *)extra;
    return MPI_SUCCESS;
}
static int forget(MPI_Comm comm, int keyval, void *value, void *extra) {
    (void)comm, (void)keyval, (void)extra, deleted += (int)(MPI_Aint)value;
    return MPI_SUCCESS;
}

static void attributes(void) {
    MPI_Comm dup;
    int keyval, old, extra = 4, flag, *bound;
    void *value;
    MPI_Comm_create_keyval(copy, forget, &keyval, &extra), MPI_Keyval_create(MPI_DUP_FN, MPI_NULL_DELETE_FN, &old, NULL);
    MPI_Comm_set_attr(world, keyval, (void *)10), MPI_Attr_put(world, old, (void *)77);
    MPI_Comm_dup(world, &dup);
    MPI_Comm_get_attr(dup, keyval, &value, &flag), SAY("copied %d: %d, %d", copied, flag, (int)(MPI_Aint)value);
    MPI_Attr_get(dup, old, &value, &flag), SAY("copied as it was: %d, %d", flag, (int)(MPI_Aint)value);
    MPI_Comm_set_attr(dup, keyval, (void *)20), SAY("deleted %d", deleted), MPI_Attr_delete(dup, old);
    MPI_Attr_get(dup, old, &value, &flag), SAY("deleted, there %d", flag), MPI_Comm_free(&dup), SAY("deleted %d", deleted);
    MPI_Comm_delete_attr(world, keyval), MPI_Attr_delete(world, old), SAY("deleted %d", deleted);
    MPI_Comm_free_keyval(&keyval), MPI_Keyval_free(&old), SAY("freed %d %d", keyval == MPI_KEYVAL_INVALID, old == MPI_KEYVAL_INVALID);
    MPI_Comm_get_attr(world, MPI_TAG_UB, &bound, &flag), SAY("tags %d, enough %d", flag, *bound >= 32767);
    MPI_Comm_get_attr(world, MPI_WTIME_IS_GLOBAL, &bound, &flag), SAY("clocks %d", flag);
    MPI_Comm_get_attr(world, MPI_UNIVERSE_SIZE, &bound, &flag), SAY("universe %d", !flag || *bound >= size);
}

static int heard;
static void hear(MPI_Comm *comm, int *code, ...) { heard = class_of(*code) * 10 + (*comm == MPI_COMM_WORLD); }
static void hear_session(MPI_Session *session, int *code, ...) { heard = class_of(*code) * 10 + (*session != MPI_SESSION_NULL); }

static void errors(void) {
    MPI_Errhandler handler, found;
    int class, code, length, known;
    char text[MPI_MAX_ERROR_STRING];
    MPI_Comm_create_errhandler(hear, &handler), MPI_Comm_set_errhandler(world, handler), MPI_Comm_get_errhandler(world, &found);
    SAY("as an integer %d %d", MPI_Errhandler_fromint(MPI_Errhandler_toint(handler)) == handler, MPI_Errhandler_toint(MPI_ERRORS_RETURN));
    MPI_Comm_call_errhandler(world, MPI_ERR_TAG), SAY("heard %d, same %d", heard, found == handler);
    /* The result of a call whose handler has run is not compared: the other library returns success. */
    MPI_Send(NULL, -1, MPI_INT, 0, 0, world), SAY("heard %d", heard), MPI_Errhandler_free(&found), MPI_Errhandler_free(&handler);
    MPI_Comm_set_errhandler(world, MPI_ERRORS_RETURN);
    MPI_Add_error_class(&class), MPI_Add_error_code(class, &code), MPI_Add_error_string(code, "of our own");
    MPI_Error_string(code, text, &length), MPI_Error_class(code, &known), SAY("%s, %d, of its class %d", text, length, known == class);
    SAY("string removed %d", MPI_Remove_error_string(code)), SAY("code removed %d", MPI_Remove_error_code(code));
    SAY("class removed %d", MPI_Remove_error_class(class));
    /* The standard's error classes for wrong arguments. */
    MPI_Comm comm = MPI_COMM_NULL;
    MPI_Datatype type = MPI_DATATYPE_NULL;
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Group group = MPI_GROUP_NULL;
    int one = 1, many[2] = {0, 0};
#define WRONG(call) (code = (call), SAY("%s: %d", #call, class_of(code)))
    WRONG(MPI_Send(&one, 1, MPI_INT, size, 0, world)), WRONG(MPI_Send(&one, 1, MPI_INT, 0, -5, world));
    WRONG(MPI_Send(&one, 1, type, 0, 0, world)), WRONG(MPI_Send(&one, 1, MPI_INT, 0, 0, comm));
    WRONG(MPI_Recv(&one, -3, MPI_INT, 0, 0, world, MPI_STATUS_IGNORE)), WRONG(MPI_Recv(&one, 1, MPI_INT, size + 4, 0, world, MPI_STATUS_IGNORE));
    WRONG(MPI_Bcast(&one, 1, MPI_INT, size, world)), WRONG(MPI_Bcast(&one, -1, MPI_INT, 0, world));
    WRONG(MPI_Reduce(&one, many, 1, MPI_INT, MPI_OP_NULL, 0, world)), WRONG(MPI_Allreduce(&one, many, 1, MPI_DOUBLE, MPI_BAND, world));
    WRONG(MPI_Start(&request)), WRONG(MPI_Comm_rank(comm, &one)), WRONG(MPI_Group_size(group, &one));
    WRONG(MPI_Type_contiguous(-1, MPI_INT, &type)), WRONG(MPI_Type_size(type, &one)), WRONG(MPI_Comm_free_keyval(&many[0]));
    WRONG(MPI_Cart_create(world, 1, (int[]){size + 1}, many, 0, &comm)), WRONG(MPI_Dims_create(4, 1, (int[]){3}));
    WRONG(MPI_Error_class(-7, &one)), WRONG(MPI_Op_free(&(MPI_Op){MPI_OP_NULL}));
}

static void graphs(void) {
    MPI_Comm graph, cart;
    int index[16], edges[32], count, own, nodes, links, weighted, sources[4], weights[4], targets[4], others[4], dims[2], periods[2], coords[2];
    for (int at = 0; at < size; at++)
        index[at] = 2 * at + 2, edges[2 * at] = (at + size - 1) % size, edges[2 * at + 1] = (at + 1) % size;
    MPI_Graph_create(world, size, index, edges, 0, &graph), say_comm("graph", graph), MPI_Graphdims_get(graph, &nodes, &links);
    MPI_Graph_map(world, size, index, edges, &own), SAY("graph of %d and %d, own %d", nodes, links, own >= 0 && own < size);
    memset(index, 0, sizeof index), memset(edges, 0, sizeof edges), MPI_Graph_get(graph, 16, 32, index, edges);
    SAY("graph %lx %lx", digest(index, sizeof index), digest(edges, sizeof edges));
    MPI_Graph_neighbors_count(graph, rank, &count), MPI_Graph_neighbors(graph, rank, 4, sources), SAY("near %d: %d %d", count, sources[0], sources[1]);
    MPI_Comm_free(&graph);
    MPI_Dist_graph_create(world, 1, &rank, (int[]){2}, (int[]){(rank + 1) % size, (rank + 2) % size}, (int[]){5, 6}, MPI_INFO_NULL, 0, &graph);
    MPI_Dist_graph_neighbors_count(graph, &count, &links, &weighted);
    MPI_Dist_graph_neighbors(graph, count, sources, weights, links, targets, others);
    /* The standard does not define the order. */
    for (own = nodes = 0; own < count; own++)
        nodes += sources[own] * 100 + weights[own];
    for (own = 0; own < links; own++)
        nodes += targets[own] * 10000 + others[own] * 1000;
    SAY("spread %d %d %d: %d", count, links, weighted, nodes), MPI_Comm_free(&graph);
    MPI_Cart_create(world, 2, (int[]){size, 1}, (int[]){0, 1}, 0, &cart), MPI_Cartdim_get(cart, &count), MPI_Cart_get(cart, 2, dims, periods, coords);
    MPI_Cart_rank(cart, (int[]){size - 1, 3}, &own);
    SAY("cart of %d: %d %d, %d %d, %d %d; %d", count, dims[0], dims[1], !!periods[0], !!periods[1], coords[0], coords[1], own), MPI_Comm_free(&cart);
}

static void sessions(void) {
    MPI_Session session;
    MPI_Errhandler handler, found;
    MPI_Group group;
    MPI_Comm comm;
    MPI_Info info;
    MPI_Request request;
    int count, length, flag, bytes;
    char name[MPI_MAX_PSET_NAME_LEN], *back, buffer[1000 + MPI_BSEND_OVERHEAD];
    MPI_Count large;
    MPI_Session_create_errhandler(hear_session, &handler), MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session);
    MPI_Session_set_errhandler(session, handler), MPI_Session_get_errhandler(session, &found);
    MPI_Session_call_errhandler(session, MPI_ERR_RANK), SAY("heard %d, same %d", heard, found == handler);
    MPI_Errhandler_free(&found), MPI_Errhandler_free(&handler);
    SAY("as an integer %d", MPI_Session_fromint(MPI_Session_toint(session)) == session);
    MPI_Session_get_num_psets(session, MPI_INFO_NULL, &count), SAY("sets enough %d", count >= 2);
    /* The returned length is not compared: the other library leaves it unchanged. */
    for (int at = 0; at < 2; at++)
        length = sizeof name, MPI_Session_get_nth_pset(session, MPI_INFO_NULL, at, &length, name), SAY("set %s", name);
    MPI_Session_get_pset_info(session, "mpi://WORLD", &info);
    length = sizeof name, MPI_Info_get_string(info, "mpi_size", &length, name, &flag), SAY("has %d %s", flag, flag ? name : ""), MPI_Info_free(&info);
    MPI_Session_get_info(session, &info), SAY("info %d", info != MPI_INFO_NULL), MPI_Info_free(&info);
    MPI_Session_attach_buffer(session, buffer, sizeof buffer), MPI_Session_flush_buffer(session);
    MPI_Session_iflush_buffer(session, &request), MPI_Wait(&request, MPI_STATUS_IGNORE), MPI_Session_detach_buffer(session, &back, &bytes);
    SAY("buffer %d %d", back == buffer, bytes == sizeof buffer);
    MPI_Session_attach_buffer_c(session, buffer, sizeof buffer), MPI_Session_detach_buffer_c(session, &back, &large);
    SAY("buffer %d %d", back == buffer, large == sizeof buffer);
    MPI_Group_from_session_pset(session, "mpi://WORLD", &group), MPI_Comm_create_from_group(group, "tag", MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm);
    MPI_Allreduce(&rank, &count, 1, MPI_INT, MPI_SUM, comm), SAY("sum %d", count), made("of a session", &comm), MPI_Group_free(&group);
    MPI_Session_finalize(&session), SAY("ended %d", session == MPI_SESSION_NULL);
}

static void handles(void) {
    MPI_Group group;
    MPI_Info info;
    MPI_Request request;
    MPI_Message message;
    MPI_Op op = MPI_Op_fromint(MPI_Op_toint(MPI_SUM));
    int value = 3, got;
    MPI_Comm_group(world, &group), SAY("group %d, empty %d", MPI_Group_fromint(MPI_Group_toint(group)) == group, MPI_Group_toint(MPI_GROUP_EMPTY));
    MPI_Info_create(&info), SAY("info %d, none %d", MPI_Info_fromint(MPI_Info_toint(info)) == info, MPI_Info_toint(MPI_INFO_NULL));
    SAY("world %d %d, sum %d %d", MPI_Comm_toint(world), MPI_Comm_fromint(MPI_Comm_toint(world)) == world, MPI_Op_toint(op), op == MPI_SUM);
    MPI_Isend(&value, 1, MPI_INT, 0, 0, MPI_COMM_SELF, &request), SAY("request %d", MPI_Request_fromint(MPI_Request_toint(request)) == request);
    MPI_Mprobe(0, 0, MPI_COMM_SELF, &message, MPI_STATUS_IGNORE), SAY("message %d", MPI_Message_fromint(MPI_Message_toint(message)) == message);
    MPI_Mrecv(&got, 1, MPI_INT, &message, MPI_STATUS_IGNORE), MPI_Wait(&request, MPI_STATUS_IGNORE), SAY("got %d", got);
    MPI_Group_free(&group), MPI_Info_free(&info);
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    constructors(), attributes(), errors(), graphs(), sessions(), handles();
    fflush(stdout);
    return end();
}
