/* Every collective operation: blocking, non-blocking, and persistent (started twice); short and long, from every root. */
#include "check.h"

enum { LONG = 3000, TASKS_MAX = 16 };

static MPI_Comm comm;
static int root;
static int *out, *in;
static int counts[TASKS_MAX], places[TASKS_MAX], bytes[TASKS_MAX];
static MPI_Datatype types[TASKS_MAX];

/* Element `i` of the data from rank `from` to rank `to`. */
static int item(int from, int to, int i) {
    return from * 10007 + to * 101 + i;
}

static void forget(void) {
    for (int i = 0; i < size * LONG; i++)
        in[i] = -1;
}

#if MPI_VERSION >= 4
#define PERSISTENT(check, n, name, ...)                                                          \
    CHECK(MPI_##name##_init(__VA_ARGS__, MPI_INFO_NULL, &request) == MPI_SUCCESS);               \
    for (int time = 0; time < 2; time++) {                                                       \
        forget();                                                                                \
        CHECK(MPI_Start(&request) == MPI_SUCCESS);                                               \
        CHECK(MPI_Wait(&request, MPI_STATUS_IGNORE) == MPI_SUCCESS && request != MPI_REQUEST_NULL); \
        check(n);                                                                                \
    }                                                                                            \
    MPI_Request_free(&request)
#else
#define PERSISTENT(check, n, name, ...) (void)0
#endif

/* Carries out an operation in each form; `check` checks the result in `in`. */
#define EACH_WAY(check, n, name, iname, ...)                                                     \
    do {                                                                                         \
        MPI_Request request;                                                                     \
        forget();                                                                                \
        CHECK(MPI_##name(__VA_ARGS__) == MPI_SUCCESS);                                           \
        check(n);                                                                                \
        forget();                                                                                \
        CHECK(MPI_I##iname(__VA_ARGS__, &request) == MPI_SUCCESS);                               \
        CHECK(MPI_Wait(&request, MPI_STATUS_IGNORE) == MPI_SUCCESS && request == MPI_REQUEST_NULL); \
        check(n);                                                                                \
        PERSISTENT(check, n, name, __VA_ARGS__);                                                 \
    } while (0)

static int some(int of, int n) {
    return n * (of + 1) / size;
}

/* Layout of the ranks' blocks in `in` or `out`: blocks of `n` items, one after the other. */
static void evenly(int n) {
    for (int i = 0; i < size; i++) {
        counts[i] = n;
        places[i] = i * n;
    }
}

/* Layout of blocks of growing length, the last block first. */
static void unevenly(int n) {
    for (int i = 0; i < size; i++) {
        counts[i] = some(i, n);
        places[i] = (size - 1 - i) * n;
    }
}

static void for_all(void) {
    for (int to = 0; to < size; to++)
        for (int i = 0; i < counts[to]; i++)
            out[places[to] + i] = item(rank, to, i);
}

static void from_all(int to) {
    for (int from = 0; from < size; from++)
        for (int i = 0; i < counts[from]; i++)
            CHECK(in[places[from] + i] == item(from, to, i));
}

static void at_root(int n) {
    (void)n;
    if (rank == root)
        from_all(root);
    else
        CHECK(in[0] == -1);
}

static void at_each(int n) {
    (void)n;
    from_all(rank);
}

static void of_root(int n) {
    for (int i = 0; i < n; i++)
        CHECK(in[i] == item(root, rank, i));
    CHECK(n == LONG || in[n] == -1);
}

static void gathers_and_scatters(int n) {
    for (root = 0; root < size; root++) {
        for (int i = 0; i < n; i++)
            out[i] = item(rank, root, i);
        evenly(n);
        EACH_WAY(at_root, n, Gather, gather, out, n, MPI_INT, in, n, MPI_INT, root, comm);
        unevenly(n);
        EACH_WAY(at_root, n, Gatherv, gatherv, out, some(rank, n), MPI_INT, in, counts, places, MPI_INT, root, comm);
        evenly(n);
        for_all();
        EACH_WAY(of_root, n, Scatter, scatter, out, n, MPI_INT, in, n, MPI_INT, root, comm);
        unevenly(n);
        for_all();
        EACH_WAY(of_root, some(rank, n), Scatterv, scatterv, out, counts, places, MPI_INT, in, some(rank, n), MPI_INT, root, comm);
    }
}

static void of_all(int n) {
    (void)n;
    from_all(0);
}

static void to_all(int n) {
    for (int i = 0; i < n; i++)
        out[i] = item(rank, 0, i);
    evenly(n);
    EACH_WAY(of_all, n, Allgather, allgather, out, n, MPI_INT, in, n, MPI_INT, comm);
    unevenly(n);
    EACH_WAY(of_all, n, Allgatherv, allgatherv, out, some(rank, n), MPI_INT, in, counts, places, MPI_INT, comm);
    evenly(n);
    for_all();
    EACH_WAY(at_each, n, Alltoall, alltoall, out, n, MPI_INT, in, n, MPI_INT, comm);
    /* A block from one rank to another is as long as the block in the other direction. */
    for (int i = 0; i < size; i++)
        counts[i] = n * (rank + i + 1) / (2 * size);
    for_all();
    EACH_WAY(at_each, n, Alltoallv, alltoallv, out, counts, places, MPI_INT, in, counts, places, MPI_INT, comm);
    for (int i = 0; i < size; i++) {
        bytes[i] = places[i] * (int)sizeof(int);
        types[i] = MPI_INT;
    }
    EACH_WAY(at_each, n, Alltoallw, alltoallw, out, counts, bytes, types, in, counts, bytes, types, comm);
}

static void summed(int n) {
    for (int i = 0; i < n; i++)
        CHECK(in[i] == size * i + size * (size - 1) / 2);
}

static void summed_at_root(int n) {
    if (rank == root)
        summed(n);
    else
        CHECK(in[0] == -1);
}

static void summed_so_far(int n) {
    for (int i = 0; i < n; i++)
        CHECK(in[i] == (rank + 1) * i + rank * (rank + 1) / 2);
}

static void summed_before(int n) {
    for (int i = 0; i < n && rank > 0; i++)
        CHECK(in[i] == rank * i + rank * (rank - 1) / 2);
}

/* This rank's share begins at item `start` of the contiguous items. */
static int start;

static void summed_share(int n) {
    for (int i = 0; i < n; i++)
        CHECK(in[i] == size * (start + i) + size * (size - 1) / 2);
    CHECK(in[n] == -1);
}

static void reductions(int n) {
    for (int i = 0; i < size * n; i++)
        out[i] = i + rank;
    EACH_WAY(summed, n, Allreduce, allreduce, out, in, n, MPI_INT, MPI_SUM, comm);
    for (root = 0; root < size; root++)
        EACH_WAY(summed_at_root, n, Reduce, reduce, out, in, n, MPI_INT, MPI_SUM, root, comm);
    EACH_WAY(summed_so_far, n, Scan, scan, out, in, n, MPI_INT, MPI_SUM, comm);
    EACH_WAY(summed_before, n, Exscan, exscan, out, in, n, MPI_INT, MPI_SUM, comm);
    n /= 2;
    start = rank * n;
    EACH_WAY(summed_share, n, Reduce_scatter_block, reduce_scatter_block, out, in, n, MPI_INT, MPI_SUM, comm);
    unevenly(n);
    start = 0;
    for (int i = 0; i < rank; i++)
        start += counts[i];
    EACH_WAY(summed_share, counts[rank], Reduce_scatter, reduce_scatter, out, in, counts, MPI_INT, MPI_SUM, comm);
}

/* Counts whose sum is more than there can be are refused in each task before anything is sent. */
static void too_large(void) {
    MPI_Count counts[64], more = (MPI_Count)(~0ULL >> 1);
    for (int i = 0; i < size; i++)
        counts[i] = more;
    if (size > 1) CHECK(MPI_Reduce_scatter_c(out, in, counts, MPI_INT, MPI_SUM, comm) != MPI_SUCCESS);
}

static void in_place(int n) {
    for (int i = 0; i < n; i++)
        in[i] = i + rank;
    MPI_Allreduce(MPI_IN_PLACE, in, n, MPI_INT, MPI_SUM, comm);
    summed(n);
    for (root = 0; root < size; root++) {
        for (int i = 0; i < n; i++)
            in[i] = i + rank;
        MPI_Reduce(rank == root ? MPI_IN_PLACE : in, rank == root ? in : NULL, n, MPI_INT, MPI_SUM, root, comm);
        if (rank == root)
            summed(n);
        evenly(n);
        for (int i = 0; i < n; i++)
            in[places[rank] + i] = out[i] = item(rank, root, i);
        MPI_Gather(rank == root ? MPI_IN_PLACE : out, n, MPI_INT, in, n, MPI_INT, root, comm);
        if (rank == root)
            from_all(root);
    }
    evenly(n);
    for (int to = 0; to < size; to++)
        for (int i = 0; i < n; i++)
            in[places[to] + i] = item(rank, to, i);
    MPI_Alltoall(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, in, n, MPI_INT, comm);
    from_all(rank);
    for (int i = 0; i < n; i++)
        in[places[rank] + i] = item(rank, 0, i);
    MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, in, n, MPI_INT, comm);
    from_all(0);
}

/* Both buffers are given by the absolute addresses in their types. */
static void by_addresses(int n) {
    MPI_Datatype type, from, to;
    MPI_Aint from_at, to_at;
    MPI_Type_contiguous(n, MPI_INT, &type);
    MPI_Get_address(out, &from_at), MPI_Get_address(in, &to_at);
    MPI_Type_create_hindexed_block(1, 1, &from_at, type, &from), MPI_Type_create_hindexed_block(1, 1, &to_at, type, &to);
    MPI_Type_commit(&from), MPI_Type_commit(&to);
    evenly(n);
    for (int i = 0; i < n; i++)
        out[i] = item(rank, 0, i);
    EACH_WAY(of_all, n, Allgather, allgather, MPI_BOTTOM, 1, from, MPI_BOTTOM, 1, to, comm);
    MPI_Type_free(&from), MPI_Type_free(&to), MPI_Type_free(&type);
}

static void nothing_to_look_at(int n) {
    (void)n;
}

/* A broadcast and a barrier have no second buffer. */
static void broadcasts(int n) {
    EACH_WAY(nothing_to_look_at, n, Barrier, barrier, comm);
    for (root = 0; root < size; root++)
        for (int way = 0; way < 4; way++) {
            MPI_Request request;
            for (int i = 0; i < n; i++)
                in[i] = rank == root ? item(root, way, i) : -1;
            if (way == 0)
                MPI_Bcast(in, n, MPI_INT, root, comm);
            else if (way == 1)
                MPI_Ibcast(in, n, MPI_INT, root, comm, &request);
            else
#if MPI_VERSION >= 4
                MPI_Bcast_init(in, n, MPI_INT, root, comm, MPI_INFO_NULL, &request), MPI_Start(&request);
#else
                continue;
#endif
            if (way > 0)
                MPI_Wait(&request, MPI_STATUS_IGNORE);
            if (way > 1)
                MPI_Request_free(&request);
            for (int i = 0; i < n; i++)
                CHECK(in[i] == item(root, way, i));
        }
}

/* On a ring: the neighbours are the previous rank and the next rank, in this order. */
static int neighbours[2];

static void from_neighbours(int n) {
    for (int at = 0; at < 2; at++)
        for (int i = 0; i < n; i++)
            CHECK(in[at * n + i] == item(neighbours[at], 0, i));
}

/* Each neighbour has a block for each of its own two neighbours: from the previous rank comes its second block, from the next rank its
   first. */
static void by_neighbours(int n) {
    for (int at = 0; at < 2; at++)
        for (int i = 0; i < n; i++)
            CHECK(in[at * n + i] == item(neighbours[at], 1 - at, i));
}

static void neighbourhoods(int n) {
    MPI_Comm ring, world = comm;
    int periodic = 1;
    MPI_Cart_create(world, 1, &size, &periodic, 0, &ring);
    MPI_Cart_shift(ring, 0, 1, &neighbours[0], &neighbours[1]);
    comm = ring;
    for (int i = 0; i < n; i++)
        out[i] = item(rank, 0, i);
    int two[2] = {n, n}, at[2] = {0, n};
    MPI_Aint at_bytes[2] = {0, n * (MPI_Aint)sizeof(int)};
    MPI_Datatype both[2] = {MPI_INT, MPI_INT};
    if (size > 2 || OWN) {
        EACH_WAY(from_neighbours, n, Neighbor_allgather, neighbor_allgather, out, n, MPI_INT, in, n, MPI_INT, comm);
        EACH_WAY(from_neighbours, n, Neighbor_allgatherv, neighbor_allgatherv, out, n, MPI_INT, in, two, at, MPI_INT, comm);
        for (int i = 0; i < 2 * n; i++)
            out[i] = item(rank, i / n, i % n);
        EACH_WAY(by_neighbours, n, Neighbor_alltoall, neighbor_alltoall, out, n, MPI_INT, in, n, MPI_INT, comm);
        EACH_WAY(by_neighbours, n, Neighbor_alltoallv, neighbor_alltoallv, out, two, at, MPI_INT, in, two, at, MPI_INT, comm);
        EACH_WAY(by_neighbours, n, Neighbor_alltoallw, neighbor_alltoallw, out, two, at_bytes, both, in, two, at_bytes, both, comm);
    }
    comm = world;
    MPI_Comm_free(&ring);
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    CHECK(size <= TASKS_MAX);
    comm = MPI_COMM_WORLD;
    out = malloc((size_t)(size + 1) * LONG * sizeof(int));
    in = malloc((size_t)(size + 1) * LONG * sizeof(int));
    too_large();
    static const int lengths[] = {2, 100, LONG};
    for (int i = 0; i < 3; i++) {
        broadcasts(lengths[i]);
        gathers_and_scatters(lengths[i]);
        to_all(lengths[i]);
        reductions(lengths[i]);
        in_place(lengths[i]);
        by_addresses(lengths[i]);
        neighbourhoods(lengths[i] / 2);
    }
    free(out);
    free(in);
    return end();
}
