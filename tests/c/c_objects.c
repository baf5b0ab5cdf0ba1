/* Attributes, info objects and topologies; errors about them. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int rank, size;

#define CHECK(condition)                                                                          \
    do {                                                                                          \
        if (!(condition)) {                                                                       \
            printf("line %d, rank %d: %s is false\n", __LINE__, rank, #condition);                \
            fflush(stdout);                                                                       \
            MPI_Abort(MPI_COMM_WORLD, 1);                                                         \
        }                                                                                         \
    } while (0)

static int class_of(int code) {
    int class;
    MPI_Error_class(code, &class);
    return class;
}

static int copies, deletes, deleted_at_end, fails;

static int copy(MPI_Comm comm, int keyval, void *extra, void *in, void *out, int *flag) {
    (void)comm;
    CHECK(keyval != MPI_KEYVAL_INVALID && extra == (void *)&copies);
    copies++;
    *(void **)out = (char *)in + 1;
    *flag = (long)in != 77;
    return fails ? MPI_ERR_INTERN : MPI_SUCCESS;
}

static int delete (MPI_Comm comm, int keyval, void *value, void *extra) {
    int own;
    (void)keyval, (void)value;
    CHECK(extra == (void *)&copies);
    MPI_Comm_rank(comm, &own);
    deletes++;
    return fails ? MPI_ERR_NO_SPACE : MPI_SUCCESS;
}

static int at_end(MPI_Comm comm, int keyval, void *value, void *extra) {
    int flag;
    (void)keyval, (void)extra;
    MPI_Finalized(&flag);
    CHECK(comm == MPI_COMM_SELF && !flag && value == (void *)&rank);
    deleted_at_end++;
    return MPI_SUCCESS;
}

static void attributes(void) {
    int key, duplicated, private, end, flag, *number;
    void *value;
    MPI_Comm comm, dup;
    MPI_Comm_create_keyval(copy, delete, &key, &copies);
    MPI_Comm_create_keyval(MPI_COMM_DUP_FN, MPI_COMM_NULL_DELETE_FN, &duplicated, NULL);
    MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, &private, NULL);
    MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, at_end, &end, NULL);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_get_attr(comm, key, &value, &flag);
    CHECK(!flag);
    MPI_Comm_set_attr(comm, key, (void *)5);
    MPI_Comm_set_attr(comm, duplicated, (void *)6);
    MPI_Comm_set_attr(comm, private, (void *)7);
    MPI_Comm_get_attr(comm, key, &value, &flag);
    CHECK(flag && value == (void *)5);
    MPI_Comm_dup(comm, &dup);
    CHECK(copies == 1);
    MPI_Comm_get_attr(dup, key, &value, &flag);
    CHECK(flag && value == (void *)6);
    MPI_Comm_get_attr(dup, duplicated, &value, &flag);
    CHECK(flag && value == (void *)6);
    MPI_Comm_get_attr(dup, private, &value, &flag);
    CHECK(!flag);
    /* A new value replaces the old one; a copy function may refuse the copy. */
    MPI_Comm_set_attr(dup, key, (void *)77);
    CHECK(deletes == 1);
    MPI_Comm third;
    MPI_Comm_dup(dup, &third);
    MPI_Comm_get_attr(third, key, &value, &flag);
    CHECK(!flag && copies == 2);
    MPI_Comm_free(&third);
    CHECK(deletes == 1);
    MPI_Comm_delete_attr(dup, key);
    CHECK(deletes == 2);
    MPI_Comm_free(&dup);
    CHECK(deletes == 2);

    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    fails = 1;
    CHECK(class_of(MPI_Comm_dup(comm, &dup)) == MPI_ERR_INTERN);
    CHECK(dup == MPI_COMM_NULL);
    CHECK(class_of(MPI_Comm_delete_attr(comm, key)) == MPI_ERR_NO_SPACE);
    CHECK(class_of(MPI_Comm_set_attr(comm, key, NULL)) == MPI_ERR_NO_SPACE);
    fails = 0;
    MPI_Comm_get_attr(comm, key, &value, &flag);
    CHECK(flag && value == (void *)5);
    deletes = 0;
    int freed = key;
    MPI_Comm_free_keyval(&freed);
    CHECK(freed == MPI_KEYVAL_INVALID);
    /* An attribute still uses the key, so the key exists. */
    CHECK(MPI_Comm_set_attr(comm, key, NULL) == MPI_SUCCESS && deletes == 1);
    MPI_Barrier(comm);
    MPI_Comm_free(&comm);
    CHECK(deletes == 2);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    CHECK(class_of(MPI_Comm_set_attr(MPI_COMM_SELF, key, NULL)) == MPI_ERR_KEYVAL);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_ARE_FATAL);

    MPI_Comm_set_attr(MPI_COMM_SELF, end, &rank);
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &number, &flag);
    CHECK(flag && *number >= 32767);
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_IO, &number, &flag);
    CHECK(flag && *number == MPI_ANY_SOURCE);
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_HOST, &number, &flag);
    CHECK(!flag || *number == MPI_PROC_NULL);
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_WTIME_IS_GLOBAL, &number, &flag);
    CHECK(flag && (*number == 0 || *number == 1));
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_APPNUM, &number, &flag);
    CHECK(flag && *number == 0);
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_UNIVERSE_SIZE, &number, &flag);
    CHECK(flag && *number >= size);
    int class;
    MPI_Add_error_class(&class);
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_LASTUSEDCODE, &number, &flag);
    CHECK(flag && *number >= class);

    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    CHECK(class_of(MPI_Comm_set_attr(MPI_COMM_SELF, MPI_TAG_UB, &rank)) == MPI_ERR_KEYVAL);
    CHECK(class_of(MPI_Comm_delete_attr(MPI_COMM_SELF, MPI_IO)) == MPI_ERR_KEYVAL);
    CHECK(class_of(MPI_Comm_delete_attr(MPI_COMM_SELF, private)) == MPI_ERR_KEYVAL);
    CHECK(class_of(MPI_Comm_get_attr(MPI_COMM_SELF, MPI_KEYVAL_INVALID, &value, &flag)) == MPI_ERR_KEYVAL);
    CHECK(class_of(MPI_Win_free_keyval(&private)) == MPI_ERR_KEYVAL);
    freed = MPI_KEYVAL_INVALID;
    CHECK(class_of(MPI_Comm_free_keyval(&freed)) == MPI_ERR_KEYVAL);
    CHECK(class_of(MPI_Comm_create_keyval(NULL, NULL, NULL, NULL)) == MPI_ERR_ARG);
    MPI_Comm_free_keyval(&private);
    MPI_Comm_free_keyval(&duplicated);
    MPI_Comm_free_keyval(&end);
}

static void hints(void) {
    MPI_Info info, dup, null = MPI_INFO_NULL;
    char text[MPI_MAX_INFO_VAL], key[MPI_MAX_INFO_KEY];
    int number, flag, len;
    MPI_Info_set(MPI_INFO_NULL == MPI_INFO_ENV ? null : (MPI_Info_create(&info), info), "one", "first value");
    MPI_Info_set(info, "two", "2");
    MPI_Info_set(info, "one", "another");
    MPI_Info_get_nkeys(info, &number);
    CHECK(number == 2);
    MPI_Info_get_nthkey(info, 0, key);
    CHECK(strcmp(key, "one") == 0);
    MPI_Info_get(info, "one", 4, text, &flag);
    CHECK(flag && strcmp(text, "anot") == 0);
    MPI_Info_get(info, "three", 4, text, &flag);
    CHECK(!flag);
    MPI_Info_get_valuelen(info, "one", &len, &flag);
    CHECK(flag && len == 7);
    len = 0;
    MPI_Info_get_string(info, "one", &len, text, &flag);
    CHECK(flag && len == 8);
    len = 5;
    MPI_Info_get_string(info, "one", &len, text, &flag);
    CHECK(flag && len == 8 && strcmp(text, "anot") == 0);
    MPI_Info_get_string(info, "one", &len, text, &flag);
    CHECK(flag && strcmp(text, "another") == 0);
    len = 5;
    MPI_Info_get_string(info, "none", &len, text, &flag);
    CHECK(!flag && len == 5);
    MPI_Info_dup(info, &dup);
    MPI_Info_delete(info, "one");
    MPI_Info_get_nkeys(info, &number);
    CHECK(number == 1);
    MPI_Info_get_nkeys(dup, &number);
    CHECK(number == 2);
    MPI_Info_get(MPI_INFO_ENV, "command", MPI_MAX_INFO_VAL - 1, text, &flag);
    CHECK(flag && strlen(text) > 0);

    CHECK(class_of(MPI_Info_delete(info, "one")) == MPI_ERR_INFO_NOKEY);
    CHECK(class_of(MPI_Info_set(info, "", "x")) == MPI_ERR_INFO_KEY);
    CHECK(class_of(MPI_Info_set(info, NULL, "x")) == MPI_ERR_INFO_KEY);
    CHECK(class_of(MPI_Info_set(info, "x", NULL)) == MPI_ERR_INFO_VALUE);
    CHECK(class_of(MPI_Info_set(MPI_INFO_ENV, "x", "y")) == MPI_ERR_INFO);
    CHECK(class_of(MPI_Info_set(MPI_INFO_NULL, "x", "y")) == MPI_ERR_INFO);
    CHECK(class_of(MPI_Info_get_nthkey(info, 1, key)) == MPI_ERR_ARG);
    CHECK(class_of(MPI_Info_get_nthkey(info, -1, key)) == MPI_ERR_ARG);
    CHECK(class_of(MPI_Info_get(info, "two", -1, text, &flag)) == MPI_ERR_ARG);
    CHECK(class_of(MPI_Info_free(&null)) == MPI_ERR_INFO);
    null = dup;
    MPI_Info_free(&dup);
    CHECK(dup == MPI_INFO_NULL);
    CHECK(class_of(MPI_Info_get_nkeys(null, &number)) == MPI_ERR_INFO);
    MPI_Info_free(&info);

    MPI_Comm comm;
    MPI_Info_create(&info);
    MPI_Info_set(info, "mpi_assert_no_any_tag", "true");
    MPI_Comm_dup_with_info(MPI_COMM_WORLD, info, &comm);
    MPI_Info_free(&info);
    MPI_Comm_get_info(comm, &info);
    MPI_Info_get(info, "mpi_assert_no_any_tag", 15, text, &flag);
    CHECK(flag && !strcmp(text, "true"));
    CHECK(MPI_Comm_set_info(comm, info) == MPI_SUCCESS);
    MPI_Info_free(&info);
    MPI_Comm_free(&comm);

    MPI_Get_hw_resource_info(&info);
    MPI_Info_get_nkeys(info, &number);
    CHECK(number >= 0);
    MPI_Info_free(&info);
}

static void grids(void) {
    int dims[3] = {0, 0, 1}, periods[3] = {1, 0, 1}, coords[3], got[3], round[3], kind, count, own, other;
    int source, dest, ranks_row = 0;
    MPI_Comm grid, row, none;
    MPI_Dims_create(size, 3, dims);
    CHECK(dims[0] * dims[1] == size && dims[0] >= dims[1]);
    MPI_Cart_create(MPI_COMM_WORLD, 3, dims, periods, 0, &grid);
    MPI_Topo_test(grid, &kind);
    CHECK(kind == MPI_CART);
    MPI_Topo_test(MPI_COMM_WORLD, &kind);
    CHECK(kind == MPI_UNDEFINED);
    MPI_Cartdim_get(grid, &count);
    CHECK(count == 3);
    MPI_Cart_get(grid, 3, got, round, coords);
    CHECK(!memcmp(got, dims, sizeof got) && !memcmp(round, periods, sizeof round));
    MPI_Comm_rank(grid, &own);
    MPI_Cart_rank(grid, coords, &other);
    CHECK(own == other);
    MPI_Cart_coords(grid, own, 3, got);
    CHECK(!memcmp(got, coords, sizeof got));
    got[0] -= dims[0];
    MPI_Cart_rank(grid, got, &other);
    CHECK(own == other);
    MPI_Cart_shift(grid, 0, 1, &source, &dest);
    got[0] = coords[0] + 1;
    MPI_Cart_rank(grid, got, &other);
    CHECK(dest == other);
    MPI_Cart_shift(grid, 1, 1, &source, &dest);
    CHECK((source == MPI_PROC_NULL) == (coords[1] == 0));
    CHECK((dest == MPI_PROC_NULL) == (coords[1] == dims[1] - 1));
    int remain[3] = {0, 1, 0}, nothing[3] = {0, 0, 0};
    MPI_Cart_sub(grid, remain, &row);
    MPI_Comm_size(row, &count);
    MPI_Comm_rank(row, &ranks_row);
    CHECK(count == dims[1] && ranks_row == coords[1]);
    MPI_Cartdim_get(row, &count);
    CHECK(count == 1);
    MPI_Comm_free(&row);
    MPI_Cart_sub(grid, nothing, &row);
    MPI_Cartdim_get(row, &count);
    CHECK(count == 0);
    MPI_Comm_free(&row);
    MPI_Comm_dup(grid, &row);
    MPI_Topo_test(row, &kind);
    CHECK(kind == MPI_CART);
    MPI_Comm_free(&row);
    dims[0] = 1, dims[1] = 1;
    MPI_Cart_map(MPI_COMM_WORLD, 3, dims, periods, &other);
    CHECK(other == (rank == 0 ? 0 : MPI_UNDEFINED));
    MPI_Cart_create(MPI_COMM_WORLD, 3, dims, periods, 1, &none);
    CHECK((none != MPI_COMM_NULL) == (rank == 0));
    if (none != MPI_COMM_NULL) MPI_Comm_free(&none);
    /* A grid with a side of length 0, and a graph without nodes, have no task. */
    dims[1] = 0, none = grid;
    MPI_Cart_create(MPI_COMM_WORLD, 3, dims, periods, 1, &none);
    CHECK(none == MPI_COMM_NULL);
    MPI_Graph_create(MPI_COMM_WORLD, 0, dims, dims, 0, &none);
    CHECK(none == MPI_COMM_NULL);
    dims[1] = 1;

    MPI_Comm_set_errhandler(grid, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    dims[0] = -1;
    CHECK(class_of(MPI_Cart_create(MPI_COMM_WORLD, 3, dims, periods, 1, &none)) == MPI_ERR_DIMS);
    CHECK(class_of(MPI_Cart_create(MPI_COMM_WORLD, -1, dims, periods, 1, &none)) == MPI_ERR_ARG);
    CHECK(class_of(MPI_Cart_rank(MPI_COMM_WORLD, coords, &own)) == MPI_ERR_TOPOLOGY);
    CHECK(class_of(MPI_Cart_coords(grid, size, 3, coords)) == MPI_ERR_RANK);
    CHECK(class_of(MPI_Cart_coords(grid, 0, 2, coords)) == MPI_ERR_ARG);
    CHECK(class_of(MPI_Cart_shift(grid, 3, 1, &source, &dest)) == MPI_ERR_DIMS);
    CHECK(class_of(MPI_Dims_create(size, 3, dims)) == MPI_ERR_DIMS);
    CHECK(class_of(MPI_Graph_neighbors_count(grid, 0, &own)) == MPI_ERR_TOPOLOGY);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
    MPI_Comm_free(&grid);
}

static void graphs(void) {
    int index[64], edges[128], got_index[64], got_edges[128], kind, nodes, count, neighbors[2];
    MPI_Comm ring, adjacent, any;
    for (int i = 0; i < size; i++) {
        index[i] = 2 * (i + 1);
        edges[2 * i] = (i + size - 1) % size;
        edges[2 * i + 1] = (i + 1) % size;
    }
    MPI_Graph_create(MPI_COMM_WORLD, size, index, edges, 0, &ring);
    MPI_Topo_test(ring, &kind);
    CHECK(kind == MPI_GRAPH);
    MPI_Graphdims_get(ring, &nodes, &count);
    CHECK(nodes == size && count == 2 * size);
    MPI_Graph_get(ring, size, 2 * size, got_index, got_edges);
    CHECK(!memcmp(index, got_index, size * sizeof(int)) && !memcmp(edges, got_edges, 2 * size * sizeof(int)));
    MPI_Graph_neighbors_count(ring, rank, &count);
    CHECK(count == 2);
    MPI_Graph_neighbors(ring, rank, 2, neighbors);
    CHECK(neighbors[0] == edges[2 * rank] && neighbors[1] == edges[2 * rank + 1]);
    MPI_Graph_map(MPI_COMM_WORLD, size, index, edges, &count);
    CHECK(count == rank);

    int left = (rank + size - 1) % size, right = (rank + 1) % size, weight_in = 10 + rank, weight_out = 20 + rank;
    int sources[2], source_weights[2] = {-1, -1}, destinations[2], destination_weights[2] = {-1, -1};
    int in, out, weighted;
    MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, &left, &weight_in, 1, &right, &weight_out, MPI_INFO_NULL, 0, &adjacent);
    MPI_Topo_test(adjacent, &kind);
    CHECK(kind == MPI_DIST_GRAPH);
    MPI_Dist_graph_neighbors_count(adjacent, &in, &out, &weighted);
    CHECK(in == 1 && out == 1 && weighted);
    MPI_Dist_graph_neighbors(adjacent, 1, sources, source_weights, 1, destinations, destination_weights);
    CHECK(sources[0] == left && destinations[0] == right);
    CHECK(source_weights[0] == 10 + rank && destination_weights[0] == 20 + rank);
    int send = rank, receive = -1;
    MPI_Neighbor_alltoall(&send, 1, MPI_INT, &receive, 1, MPI_INT, adjacent);
    CHECK(receive == left);
    MPI_Comm_free(&adjacent);
    MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 0, NULL, MPI_WEIGHTS_EMPTY, 0, NULL, MPI_WEIGHTS_EMPTY, MPI_INFO_NULL, 0, &adjacent);
    MPI_Dist_graph_neighbors_count(adjacent, &in, &out, &weighted);
    CHECK(in == 0 && out == 0 && weighted);
    MPI_Comm_free(&adjacent);
    /* The first task specifies all edges of the ring. */
    int froms[64], degrees[64], tos[64];
    for (int i = 0; i < size; i++) froms[i] = i, degrees[i] = 1, tos[i] = (i + 1) % size;
    MPI_Dist_graph_create(MPI_COMM_WORLD, rank == 0 ? size : 0, froms, degrees, tos, MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &any);
    MPI_Dist_graph_neighbors_count(any, &in, &out, &weighted);
    CHECK(in == 1 && out == 1 && !weighted);
    MPI_Dist_graph_neighbors(any, 1, sources, MPI_UNWEIGHTED, 1, destinations, MPI_UNWEIGHTED);
    CHECK(sources[0] == left && destinations[0] == right);

    MPI_Comm_set_errhandler(any, MPI_ERRORS_RETURN);
    left = size;
    CHECK(class_of(MPI_Dist_graph_create_adjacent(any, 1, &left, MPI_UNWEIGHTED, 0, NULL, MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &adjacent)) == MPI_ERR_RANK);
    CHECK(class_of(MPI_Dist_graph_create_adjacent(any, -1, &left, MPI_UNWEIGHTED, 0, NULL, MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &adjacent)) == MPI_ERR_ARG);
    index[0] = 2 * size + 1;
    if (size > 1) CHECK(MPI_Graph_create(any, size, index, edges, 0, &adjacent) != MPI_SUCCESS);
    MPI_Comm_free(&any);
    MPI_Comm_free(&ring);
}

int main(int argc, char **argv) {
    MPI_Info early;
    MPI_Info_create(&early);
    MPI_Info_set(early, "before", "MPI");
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int number;
    MPI_Info_get_nkeys(early, &number);
    CHECK(number == 1);
    attributes();
    hints();
    grids();
    graphs();
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    CHECK(deleted_at_end == 1);
    MPI_Info_free(&early);
    if (rank == 0) printf("all good\n");
    return 0;
}
