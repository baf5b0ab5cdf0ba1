/* Prints the results of calls about groups, communicators, topologies, info and datatypes: every library must print the same. */
#include "check.h"

#define SAY(...) (printf("%d/%d ", rank, size), printf(__VA_ARGS__), printf("\n"))

static void say_list(const char *what, int count, const int *list) {
    char text[400] = "";
    for (int at = 0; at < count; at++)
        sprintf(text + strlen(text), " %d", list[at]);
    SAY("%s:%s", what, text);
}

static void say_group(const char *what, MPI_Group group) {
    int count, own, ranks[16], world[16];
    MPI_Group all;
    MPI_Group_size(group, &count);
    MPI_Group_rank(group, &own);
    MPI_Comm_group(MPI_COMM_WORLD, &all);
    for (int at = 0; at < count; at++)
        ranks[at] = at;
    MPI_Group_translate_ranks(group, count, ranks, all, world);
    SAY("%s of %d, own %d", what, count, own);
    say_list(what, count, world);
    MPI_Group_free(&all);
}

static void groups(void) {
    MPI_Group all, some, others, made;
    int even[8], count = 0, result, range[1][3] = {{size - 1, 0, -1}};
    MPI_Comm_group(MPI_COMM_WORLD, &all);
    for (int at = 0; at < size; at += 2)
        even[count++] = at;
    MPI_Group_incl(all, count, even, &some);
    MPI_Group_range_incl(all, 1, range, &others);
    say_group("even", some);
    say_group("reversed", others);
    MPI_Group_compare(all, others, &result);
    SAY("compare %d %d %d", result == MPI_SIMILAR, result == MPI_IDENT, result == MPI_UNEQUAL);
    MPI_Group_union(some, others, &made), say_group("union", made), MPI_Group_free(&made);
    MPI_Group_intersection(others, some, &made), say_group("intersection", made), MPI_Group_free(&made);
    MPI_Group_difference(others, some, &made), say_group("difference", made);
    if (made != MPI_GROUP_EMPTY)
        MPI_Group_free(&made);
    MPI_Group_excl(others, 1, even, &made), say_group("without", made);
    if (made != MPI_GROUP_EMPTY)
        MPI_Group_free(&made);
    MPI_Group_free(&all), MPI_Group_free(&some), MPI_Group_free(&others);
}

static void communicators(void) {
    MPI_Comm half, dup, inter, merged;
    int own, count, result, length, remote, flag;
    char name[MPI_MAX_OBJECT_NAME];
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &half);
    MPI_Comm_rank(half, &own), MPI_Comm_size(half, &count);
    SAY("half: %d of %d", own, count);
    MPI_Comm_dup(half, &dup);
    MPI_Comm_compare(half, dup, &result);
    SAY("dup congruent %d", result == MPI_CONGRUENT);
    MPI_Comm_compare(half, MPI_COMM_WORLD, &result);
    SAY("half and world: %d %d %d", result == MPI_UNEQUAL, result == MPI_SIMILAR, result == MPI_CONGRUENT);
    MPI_Comm_get_name(MPI_COMM_WORLD, name, &length), SAY("named %s, %d", name, length);
    MPI_Comm_get_name(MPI_COMM_SELF, name, &length), SAY("named %s, %d", name, length);
    MPI_Comm_set_name(dup, "two halves"), MPI_Comm_get_name(dup, name, &length), SAY("named %s, %d", name, length);
    if (size > 1) {
        MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, rank % 2 ? (size - 1) / 2 * 2 : size / 2 * 2 - 1, 5, &inter);
        MPI_Comm_test_inter(inter, &flag), MPI_Comm_remote_size(inter, &remote);
        SAY("inter %d, remote %d", flag, remote);
        MPI_Intercomm_merge(inter, rank % 2, &merged);
        MPI_Comm_rank(merged, &own), MPI_Comm_size(merged, &count), SAY("merged: %d of %d", own, count);
        MPI_Comm_free(&inter), MPI_Comm_free(&merged);
    }
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &merged);
    MPI_Comm_size(merged, &count), SAY("on this machine %d", count), MPI_Comm_free(&merged);
    MPI_Comm_free(&half), MPI_Comm_free(&dup);
}

static void topologies(void) {
    MPI_Comm cart, line, ring;
    int dims[2] = {0, 0}, periods[2] = {1, 0}, coords[2], from, to, count, own, near[4], kind, in, out, weighted;
    for (int nodes = 1; nodes <= 60; nodes++) {
        int three[3] = {0, 0, 0}, two[2] = {0, 0};
        MPI_Dims_create(nodes, 3, three), MPI_Dims_create(nodes, 2, two);
        SAY("dims of %d: %d %d %d, %d %d", nodes, three[0], three[1], three[2], two[0], two[1]);
    }
    MPI_Cart_map(MPI_COMM_WORLD, 2, (int[]){size, 0}, periods, &own), SAY("no room %d", own == MPI_UNDEFINED);
    MPI_Cart_map(MPI_COMM_WORLD, 1, (int[]){(size + 1) / 2}, periods, &own), SAY("room %d", own == MPI_UNDEFINED ? -99 : own);
    MPI_Dims_create(size, 2, dims);
    MPI_Cart_create(MPI_COMM_WORLD, 2, dims, periods, 0, &cart);
    MPI_Comm_rank(cart, &own), MPI_Cart_coords(cart, own, 2, coords), say_list("coords", 2, coords);
    for (int direction = 0; direction < 2; direction++)
        for (int step = -1; step <= 2; step++) {
            MPI_Cart_shift(cart, direction, step, &from, &to);
            SAY("shift %d %d: %d %d", direction, step, from == MPI_PROC_NULL ? -99 : from, to == MPI_PROC_NULL ? -99 : to);
        }
    MPI_Topo_test(cart, &kind), SAY("cart %d", kind == MPI_CART);
    MPI_Cart_sub(cart, (int[]){0, 1}, &line);
    MPI_Comm_size(line, &count), MPI_Comm_rank(line, &own), SAY("line: %d of %d", own, count);
    int left = (rank + size - 1) % size, right = (rank + 1) % size;
    MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, &left, MPI_UNWEIGHTED, 1, &right, MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &ring);
    MPI_Dist_graph_neighbors_count(ring, &in, &out, &weighted), SAY("ring %d %d %d", in, out, weighted);
    MPI_Neighbor_allgather(&rank, 1, MPI_INT, near, 1, MPI_INT, ring), say_list("ring", 1, near);
    memset(near, 255, sizeof near);
    MPI_Neighbor_allgather(&rank, 1, MPI_INT, near, 1, MPI_INT, cart), say_list("around", 4, near);
    MPI_Comm_free(&cart), MPI_Comm_free(&line), MPI_Comm_free(&ring);
}

static void infos(void) {
    MPI_Info info, dup;
    char value[64];
    int flag, count, length;
    MPI_Info_create(&info);
    MPI_Info_set(info, "one", "1"), MPI_Info_set(info, "two", " 2 "), MPI_Info_set(info, "one", "another");
    MPI_Info_get_nkeys(info, &count), SAY("keys %d", count);
    MPI_Info_get_valuelen(info, "two", &length, &flag), SAY("two has %d, %d", length, flag);
    MPI_Info_get(info, "one", 4, value, &flag), SAY("one is %s, %d", value, flag);
    length = 3, MPI_Info_get_string(info, "one", &length, value, &flag), SAY("one is %s, %d, needs %d", value, flag, length);
    MPI_Info_dup(info, &dup), MPI_Info_delete(info, "one");
    MPI_Info_get_nthkey(info, 0, value), SAY("the first is %s", value);
    MPI_Info_get_nkeys(dup, &count), SAY("keys %d", count);
    MPI_Info_free(&info), MPI_Info_free(&dup);
}

static void say_type(const char *what, MPI_Datatype type) {
    MPI_Aint lower, extent, true_lower, true_extent, addresses[32];
    MPI_Datatype types[32];
    int bytes, integers, places, inner, combiner, list[64];
    MPI_Type_size(type, &bytes);
    MPI_Type_get_extent(type, &lower, &extent), MPI_Type_get_true_extent(type, &true_lower, &true_extent);
    MPI_Type_get_envelope(type, &integers, &places, &inner, &combiner);
    SAY("%s: size %d, lower %ld, extent %ld, true %ld %ld, envelope %d %d %d %d", what, bytes, (long)lower, (long)extent,
        (long)true_lower, (long)true_extent, integers, places, inner, combiner);
    if (combiner == MPI_COMBINER_NAMED)
        return;
    MPI_Type_get_contents(type, integers, places, inner, list, addresses, types);
    say_list(what, integers, list);
    for (int at = 0; at < places; at++)
        SAY("%s at %ld", what, (long)addresses[at]);
}

static void datatypes(void) {
    MPI_Datatype made, inner;
    MPI_Aint places[2] = {-8, 40};
    int lengths[2] = {2, 3}, starts[2] = {5, 1}, sizes[3] = {4, 5, 6}, parts[3] = {2, 3, 1}, at[3] = {1, 0, 4};
    say_type("double and int", MPI_DOUBLE_INT), say_type("char", MPI_CHAR), say_type("short and int", MPI_SHORT_INT);
    MPI_Type_vector(3, 2, -4, MPI_INT, &inner), say_type("vector", inner);
    MPI_Type_create_hvector(2, 3, 100, inner, &made), say_type("hvector", made), MPI_Type_free(&made);
    MPI_Type_create_resized(inner, -3, 77, &made), say_type("resized", made), MPI_Type_free(&made);
    MPI_Type_contiguous(4, inner, &made), say_type("contiguous", made), MPI_Type_free(&made);
    MPI_Type_indexed(2, lengths, starts, MPI_SHORT, &made), say_type("indexed", made), MPI_Type_free(&made);
    MPI_Type_create_indexed_block(2, 3, starts, MPI_DOUBLE, &made), say_type("block", made), MPI_Type_free(&made);
    MPI_Type_create_hindexed(2, lengths, places, MPI_CHAR, &made), say_type("hindexed", made), MPI_Type_free(&made);
    MPI_Type_create_struct(2, lengths, places, (MPI_Datatype[]){MPI_DOUBLE, MPI_CHAR}, &made), say_type("struct", made), MPI_Type_free(&made);
    MPI_Type_create_subarray(3, sizes, parts, at, MPI_ORDER_FORTRAN, MPI_INT, &made), say_type("subarray", made), MPI_Type_free(&made);
    MPI_Type_create_darray(6, 3, 2, (int[]){10, 7}, (int[]){MPI_DISTRIBUTE_CYCLIC, MPI_DISTRIBUTE_BLOCK}, (int[]){2, MPI_DISTRIBUTE_DFLT_DARG},
                           (int[]){3, 2}, MPI_ORDER_C, MPI_INT, &made);
    say_type("darray", made), MPI_Type_free(&made), MPI_Type_free(&inner);
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    groups(), communicators(), topologies(), infos(), datatypes();
    fflush(stdout);
    return end();
}
