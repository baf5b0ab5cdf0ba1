/* Prints the results of each collective operation: blocking, non-blocking, and persistent (started twice). */
#include "say.h"

enum { TASKS_MAX = 16, ROOM = 400 };

static int out[ROOM], in[ROOM];
static number counts[TASKS_MAX], others[TASKS_MAX], in_ints[TASKS_MAX];
static displacement places[TASKS_MAX], far[TASKS_MAX], out_bytes[TASKS_MAX], in_bytes[TASKS_MAX];
static MPI_Aint out_addresses[TASKS_MAX], in_addresses[TASKS_MAX];
static MPI_Datatype types[TASKS_MAX];

static void forget(void) {
    for (int at = 0; at < ROOM; at++)
        in[at] = -rank - at;
}

static void say(const char *name, const char *way) {
    SAY("%s, %s: %lx", name, way, digest(in, sizeof in));
}

#define FINISH(name, way) (MPI_Wait(&request, MPI_STATUS_IGNORE), say(name, way))

#define EACH_WAY(name, iname, ...)                                                               \
    do {                                                                                         \
        MPI_Request request;                                                                     \
        forget(), F(MPI_##name)(__VA_ARGS__), say(#name, "waited for");                          \
        forget(), F(MPI_I##iname)(__VA_ARGS__, &request), FINISH(#name, "as a request");         \
        F(MPI_##name##_init)(__VA_ARGS__, MPI_INFO_NULL, &request);                              \
        for (int time = 0; time < 2; time++)                                                     \
            forget(), MPI_Start(&request), FINISH(#name, "persistent");                          \
        MPI_Request_free(&request), SAY("%s freed %d", #name, request == MPI_REQUEST_NULL);      \
    } while (0)

/* Every collective function, with this root. */
static void with_all(MPI_Comm comm, int root, int own) {
    EACH_WAY(Bcast, bcast, own == root ? out : in, 30, MPI_INT, root, comm);
    EACH_WAY(Gather, gather, out, 5, MPI_INT, in, 5, MPI_INT, root, comm);
    EACH_WAY(Gatherv, gatherv, out, counts[own], MPI_INT, in, counts, places, MPI_INT, root, comm);
    EACH_WAY(Scatter, scatter, out, 5, MPI_INT, in, 5, MPI_INT, root, comm);
    EACH_WAY(Scatterv, scatterv, out, counts, places, MPI_INT, in, counts[own], MPI_INT, root, comm);
    EACH_WAY(Allgather, allgather, out, 5, MPI_INT, in, 5, MPI_INT, comm);
    EACH_WAY(Allgatherv, allgatherv, out, counts[own], MPI_INT, in, counts, places, MPI_INT, comm);
    EACH_WAY(Alltoall, alltoall, out, 5, MPI_INT, in, 5, MPI_INT, comm);
    EACH_WAY(Alltoallv, alltoallv, out, counts, places, MPI_INT, in, others, far, MPI_INT, comm);
    EACH_WAY(Alltoallw, alltoallw, out, counts, out_bytes, types, in, in_ints, in_bytes, types, comm);
    EACH_WAY(Reduce, reduce, out, in, 20, MPI_INT, MPI_SUM, root, comm);
    EACH_WAY(Allreduce, allreduce, out, in, 20, MPI_INT, MPI_MAX, comm);
    EACH_WAY(Reduce_scatter, reduce_scatter, out, in, counts, MPI_INT, MPI_SUM, comm);
    EACH_WAY(Reduce_scatter_block, reduce_scatter_block, out, in, 4, MPI_INT, MPI_MIN, comm);
    EACH_WAY(Scan, scan, out, in, 9, MPI_INT, MPI_SUM, comm);
    EACH_WAY(Exscan, exscan, out, in, 9, MPI_INT, MPI_BXOR, comm);
}

/* The neighbourhood collectives. */
static void with_neighbors(MPI_Comm comm) {
    EACH_WAY(Neighbor_allgather, neighbor_allgather, out, 6, MPI_INT, in, 6, MPI_INT, comm);
    EACH_WAY(Neighbor_allgatherv, neighbor_allgatherv, out, 3, MPI_INT, in, others, far, MPI_INT, comm);
    EACH_WAY(Neighbor_alltoall, neighbor_alltoall, out, 6, MPI_INT, in, 6, MPI_INT, comm);
    EACH_WAY(Neighbor_alltoallv, neighbor_alltoallv, out, others, places, MPI_INT, in, others, far, MPI_INT, comm);
    EACH_WAY(Neighbor_alltoallw, neighbor_alltoallw, out, others, out_addresses, types, in, others, in_addresses, types, comm);
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    MPI_Comm near, twisted;
    MPI_Request request;
    MPI_Status status;
    int dims[2] = {0, 0}, periods[2] = {1, 0}, right = (rank + 1) % size, left = (rank + size - 1) % size;
    for (int at = 0; at < ROOM; at++)
        out[at] = rank * 1000 + at;
    for (int at = 0; at < TASKS_MAX; at++) {
        counts[at] = at + 1, places[at] = at * 7, others[at] = rank + 1, far[at] = at * 9;
        in_ints[at] = rank + 1, out_bytes[at] = 28 * at, in_bytes[at] = 36 * at;
        out_addresses[at] = 24 * at, in_addresses[at] = 32 * at, types[at] = MPI_INT;
    }
    for (int root = 0; root < size; root++)
        with_all(MPI_COMM_WORLD, root, rank);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Ibarrier(MPI_COMM_WORLD, &request), MPI_Wait(&request, &status), SAY("barrier %d", request == MPI_REQUEST_NULL);
    MPI_Barrier_init(MPI_COMM_WORLD, MPI_INFO_NULL, &request);
    for (int time = 0; time < 2; time++)
        MPI_Start(&request), MPI_Wait(&request, &status), SAY("barrier kept %d", request != MPI_REQUEST_NULL);
    MPI_Request_free(&request);
    /* Every task sends to its neighbours the same lengths that it receives from them. */
    for (int at = 0; at < TASKS_MAX; at++)
        others[at] = 3;
    MPI_Dims_create(size, 2, dims);
    MPI_Cart_create(MPI_COMM_WORLD, 2, dims, periods, 0, &near), with_neighbors(near), MPI_Comm_free(&near);
    MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 2, (int[]){left, rank}, (int[]){1, 2}, 2, (int[]){rank, right}, (int[]){2, 1},
                                   MPI_INFO_NULL, 0, &twisted);
    with_neighbors(twisted), MPI_Comm_free(&twisted);
    fflush(stdout);
    return end();
}
