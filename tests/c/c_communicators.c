/* Communicators and groups: creation, inquiries, errors. */
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

/* The sum of `value` over all tasks of a communicator, by which the caller checks that the communicator works. */
static int sum_of(MPI_Comm comm, int value) {
    int sum = 0;
    MPI_Allreduce(&value, &sum, 1, MPI_INT, MPI_SUM, comm);
    return sum;
}

static void duplicates(void) {
    MPI_Comm dup, second, third, fourth;
    MPI_Request request;
    MPI_Info info;
    int result;
    CHECK(MPI_Comm_dup(MPI_COMM_WORLD, &dup) == MPI_SUCCESS);
    MPI_Comm_compare(MPI_COMM_WORLD, dup, &result);
    CHECK(result == MPI_CONGRUENT);
    MPI_Comm_compare(dup, dup, &result);
    CHECK(result == MPI_IDENT);
    CHECK(sum_of(dup, 1) == size);
    MPI_Comm_get_info(dup, &info);
    CHECK(MPI_Comm_dup_with_info(dup, info, &second) == MPI_SUCCESS);
    CHECK(MPI_Comm_idup(second, &third, &request) == MPI_SUCCESS);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    CHECK(request == MPI_REQUEST_NULL);
    CHECK(sum_of(third, rank) == size * (size - 1) / 2);
    CHECK(MPI_Comm_idup_with_info(third, info, &fourth, &request) == MPI_SUCCESS);
    for (int flag = 0; !flag;) MPI_Test(&request, &flag, MPI_STATUS_IGNORE);
    MPI_Comm_compare(fourth, third, &result);
    CHECK(result == MPI_CONGRUENT);
    MPI_Comm_free(&dup);
    MPI_Comm_free(&second);
    MPI_Comm_free(&third);
    CHECK(sum_of(fourth, 2) == 2 * size);
    MPI_Comm_disconnect(&fourth);
    CHECK(dup == MPI_COMM_NULL && fourth == MPI_COMM_NULL);
    MPI_Info_free(&info);

    /* Frees a communicator that was never used; then makes and frees many, one after the other. */
    MPI_Comm_idup(MPI_COMM_WORLD, &dup, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Comm_free(&dup);
    for (int i = 0; i < 300; i++) {
        MPI_Comm_dup(MPI_COMM_WORLD, &dup);
        MPI_Comm_free(&dup);
    }
}

static void splits(void) {
    MPI_Comm part, none;
    int parts_rank, parts_size;
    CHECK(MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &part) == MPI_SUCCESS);
    MPI_Comm_rank(part, &parts_rank);
    MPI_Comm_size(part, &parts_size);
    CHECK(parts_size == (size + 1 - rank % 2) / 2);
    CHECK(parts_rank == parts_size - 1 - rank / 2);
    MPI_Comm_free(&part);
    CHECK(MPI_Comm_split(MPI_COMM_WORLD, rank == 0 ? MPI_UNDEFINED : 5, 0, &part) == MPI_SUCCESS);
    CHECK((part == MPI_COMM_NULL) == (rank == 0));
    if (part != MPI_COMM_NULL) {
        CHECK(sum_of(part, 1) == size - 1);
        MPI_Comm_free(&part);
    }
    /* All tasks run on one host. h_hosts.c tests several hosts. */
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &part);
    CHECK(sum_of(part, 1) == size);
    MPI_Comm_split_type(part, MPI_UNDEFINED, 0, MPI_INFO_NULL, &none);
    CHECK(none == MPI_COMM_NULL);
    MPI_Comm_free(&part);
}

static void groups(void) {
    MPI_Group all, odd, even, both, first, empty, rest;
    MPI_Comm comm;
    int result, ranks[64], translated[64], n = 0, group_rank, group_size;
    MPI_Comm_group(MPI_COMM_WORLD, &all);
    MPI_Group_size(all, &group_size);
    MPI_Group_rank(all, &group_rank);
    CHECK(group_size == size && group_rank == rank);
    for (int i = 1; i < size; i += 2) ranks[n++] = i;
    MPI_Group_incl(all, n, ranks, &odd);
    MPI_Group_excl(all, n, ranks, &even);
    CHECK((odd == MPI_GROUP_EMPTY) == (size == 1));
    MPI_Group_rank(odd, &group_rank);
    CHECK(group_rank == (rank % 2 ? rank / 2 : MPI_UNDEFINED));
    MPI_Group_union(even, odd, &both);
    MPI_Group_compare(both, all, &result);
    CHECK(result == (size < 3 ? MPI_IDENT : MPI_SIMILAR));
    MPI_Group_compare(even, all, &result);
    CHECK(result == (size == 1 ? MPI_IDENT : MPI_UNEQUAL));
    MPI_Group_intersection(even, odd, &empty);
    CHECK(empty == MPI_GROUP_EMPTY);
    MPI_Group_difference(all, odd, &rest);
    MPI_Group_compare(rest, even, &result);
    CHECK(result == MPI_IDENT);
    for (int i = 0; i < size; i++) ranks[i] = i;
    ranks[size] = MPI_PROC_NULL;
    MPI_Group_translate_ranks(all, size + 1, ranks, even, translated);
    for (int i = 0; i < size; i++) CHECK(translated[i] == (i % 2 ? MPI_UNDEFINED : i / 2));
    CHECK(translated[size] == MPI_PROC_NULL);
    int range[1][3] = {{size - 1, 0, -1}};
    MPI_Group backwards;
    MPI_Group_range_incl(all, 1, range, &backwards);
    MPI_Group_rank(backwards, &group_rank);
    CHECK(group_rank == size - 1 - rank);
    MPI_Group_range_excl(all, 1, range, &first);
    CHECK(first == MPI_GROUP_EMPTY);

    MPI_Comm_create(MPI_COMM_WORLD, backwards, &comm);
    MPI_Comm_compare(comm, MPI_COMM_WORLD, &result);
    CHECK(result == (size == 1 ? MPI_CONGRUENT : MPI_SIMILAR));
    MPI_Comm_rank(comm, &group_rank);
    CHECK(group_rank == size - 1 - rank);
    MPI_Comm_free(&comm);
    MPI_Comm_create(MPI_COMM_WORLD, rank % 2 ? odd : even, &comm);
    CHECK(sum_of(comm, 1) == (size + 1 - rank % 2) / 2);
    MPI_Comm_free(&comm);
    MPI_Comm_create(MPI_COMM_WORLD, odd, &comm);
    CHECK((comm == MPI_COMM_NULL) == (rank % 2 == 0));
    if (comm != MPI_COMM_NULL) MPI_Comm_free(&comm);
    if (rank % 2 == 0) {
        MPI_Comm_create_group(MPI_COMM_WORLD, even, 7, &comm);
        CHECK(sum_of(comm, 1) == (size + 1) / 2);
        MPI_Comm_free(&comm);
    }
    MPI_Comm_create_from_group(all, "a program's name", MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm);
    CHECK(sum_of(comm, 1) == size);
    MPI_Comm_free(&comm);
    MPI_Group_free(&all);
    CHECK(all == MPI_GROUP_NULL);
    MPI_Group_free(&odd);
    MPI_Group_free(&even);
    MPI_Group_free(&both);
    MPI_Group_free(&empty);
    MPI_Group_free(&rest);
    MPI_Group_free(&backwards);
    MPI_Group_free(&first);
}

static void names(void) {
    char name[MPI_MAX_OBJECT_NAME];
    int len;
    MPI_Comm dup;
    MPI_Comm_get_name(MPI_COMM_WORLD, name, &len);
    CHECK(len == 14 && strcmp(name, "MPI_COMM_WORLD") == 0);
    MPI_Comm_get_name(MPI_COMM_NULL, name, &len);
    CHECK(strcmp(name, "MPI_COMM_NULL") == 0);
    MPI_Comm_dup(MPI_COMM_WORLD, &dup);
    MPI_Comm_get_name(dup, name, &len);
    CHECK(len == 0 && name[0] == 0);
    MPI_Comm_set_name(dup, "ocean");
    MPI_Comm_get_name(dup, name, &len);
    CHECK(len == 5 && strcmp(name, "ocean") == 0);
    MPI_Comm_free(&dup);
    MPI_Comm parent;
    MPI_Comm_get_parent(&parent);
    CHECK(parent == MPI_COMM_NULL);
}

static void two_sides(void) {
    if (size < 2) return;
    MPI_Comm side, inter, merged, dup, created, none;
    MPI_Group remote, own, part;
    int color = rank % 2, flag, remote_size, value, result;
    MPI_Comm_split(MPI_COMM_WORLD, color, 0, &side);
    CHECK(MPI_Intercomm_create(side, 0, MPI_COMM_WORLD, 1 - color, 9, &inter) == MPI_SUCCESS);
    MPI_Comm_test_inter(inter, &flag);
    CHECK(flag);
    MPI_Comm_test_inter(side, &flag);
    CHECK(!flag);
    MPI_Comm_remote_size(inter, &remote_size);
    CHECK(remote_size == (size + color) / 2);
    MPI_Comm_remote_group(inter, &remote);
    MPI_Comm_group(inter, &own);
    MPI_Group_rank(remote, &value);
    CHECK(value == MPI_UNDEFINED);
    MPI_Comm_compare(inter, side, &result);
    CHECK(result == MPI_UNEQUAL);
    /* The first ranks of both sides communicate. */
    if (rank < 2) {
        int out = 100 + rank, in = 0;
        MPI_Sendrecv(&out, 1, MPI_INT, 0, 3, &in, 1, MPI_INT, 0, 3, inter, MPI_STATUS_IGNORE);
        CHECK(in == 101 - rank);
    }
    MPI_Intercomm_merge(inter, color == 0, &merged);
    MPI_Comm_rank(merged, &value);
    CHECK(value == (color == 0 ? size / 2 + rank / 2 : rank / 2));
    CHECK(sum_of(merged, 1) == size);
    MPI_Comm_free(&merged);
    MPI_Comm_dup(inter, &dup);
    MPI_Comm_compare(inter, dup, &result);
    CHECK(result == MPI_CONGRUENT);
    CHECK(sum_of(dup, 1) == remote_size);
    MPI_Comm_free(&dup);
    /* Communicators of the first tasks of each side, and of one side only. */
    int zero = 0;
    MPI_Group_incl(own, 1, &zero, &part);
    MPI_Comm_create(inter, part, &created);
    CHECK((created != MPI_COMM_NULL) == (rank < 2));
    if (created != MPI_COMM_NULL) MPI_Comm_free(&created);
    MPI_Comm_create(inter, color ? MPI_GROUP_EMPTY : part, &none);
    CHECK(none == MPI_COMM_NULL);
    MPI_Comm_split(inter, rank / 2, 0, &created);
    if (rank / 2 * 2 + 1 < size) {
        MPI_Comm_remote_size(created, &remote_size);
        CHECK(remote_size == 1);
        MPI_Comm_free(&created);
    } else {
        CHECK(created == MPI_COMM_NULL);
    }
    MPI_Comm_free(&inter);
    MPI_Intercomm_create_from_groups(own, 0, remote, 0, "two sides", MPI_INFO_NULL, MPI_ERRORS_RETURN, &inter);
    MPI_Intercomm_merge(inter, 0, &merged);
    CHECK(sum_of(merged, 1) == size);
    MPI_Comm_free(&merged);
    MPI_Comm_free(&inter);
    MPI_Group_free(&own);
    MPI_Group_free(&remote);
    MPI_Group_free(&part);
    MPI_Comm_free(&side);
}

static void mistakes(void) {
    MPI_Comm comm, freed, null = MPI_COMM_NULL, world = MPI_COMM_WORLD;
    MPI_Group group, all, none = MPI_GROUP_NULL;
    int value, wrong[2] = {0, size};
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    MPI_Comm_group(MPI_COMM_WORLD, &all);
    MPI_Comm_dup(MPI_COMM_SELF, &comm);
    freed = comm;
    MPI_Comm_free(&comm);
    CHECK(class_of(MPI_Comm_size(freed, &value)) == MPI_ERR_COMM);
    CHECK(class_of(MPI_Comm_free(&freed)) == MPI_ERR_COMM);
    CHECK(class_of(MPI_Comm_free(&null)) == MPI_ERR_COMM);
    CHECK(class_of(MPI_Comm_free(&world)) == MPI_ERR_COMM);
    CHECK(class_of(MPI_Comm_dup(MPI_COMM_NULL, &comm)) == MPI_ERR_COMM);
    CHECK(class_of(MPI_Comm_dup(MPI_COMM_SELF, NULL)) == MPI_ERR_ARG);
    CHECK(class_of(MPI_Comm_compare(MPI_COMM_WORLD, MPI_COMM_NULL, &value)) == MPI_ERR_COMM);
    CHECK(class_of(MPI_Comm_split(MPI_COMM_SELF, -5, 0, &comm)) == MPI_ERR_ARG);
    CHECK(class_of(MPI_Comm_split_type(MPI_COMM_SELF, 77777, 0, MPI_INFO_NULL, &comm)) == MPI_ERR_ARG);
    CHECK(class_of(MPI_Comm_create(MPI_COMM_SELF, MPI_GROUP_NULL, &comm)) == MPI_ERR_GROUP);
    if (size > 1) CHECK(class_of(MPI_Comm_create(MPI_COMM_SELF, all, &comm)) == MPI_ERR_GROUP);
    CHECK(class_of(MPI_Comm_create_group(MPI_COMM_WORLD, all, -3, &comm)) == MPI_ERR_TAG);
    CHECK(class_of(MPI_Comm_remote_size(MPI_COMM_WORLD, &value)) == MPI_ERR_COMM);
    CHECK(class_of(MPI_Comm_remote_group(MPI_COMM_WORLD, &group)) == MPI_ERR_COMM);
    CHECK(class_of(MPI_Intercomm_merge(MPI_COMM_WORLD, 0, &comm)) == MPI_ERR_COMM);
    CHECK(class_of(MPI_Intercomm_create(MPI_COMM_SELF, 3, MPI_COMM_WORLD, 0, 1, &comm)) == MPI_ERR_RANK);
    CHECK(class_of(MPI_Intercomm_create(MPI_COMM_SELF, 0, MPI_COMM_NULL, 0, 1, &comm)) == MPI_ERR_COMM);
    CHECK(class_of(MPI_Intercomm_create(MPI_COMM_SELF, 0, MPI_COMM_WORLD, -9, 1, &comm)) == MPI_ERR_RANK);
    CHECK(class_of(MPI_Group_size(MPI_GROUP_NULL, &value)) == MPI_ERR_GROUP);
    CHECK(class_of(MPI_Group_incl(all, 2, wrong, &group)) == MPI_ERR_RANK);
    CHECK(class_of(MPI_Group_incl(all, -1, wrong, &group)) == MPI_ERR_ARG);
    wrong[1] = 0;
    CHECK(class_of(MPI_Group_excl(all, 2, wrong, &group)) == MPI_ERR_RANK);
    wrong[1] = -1;
    CHECK(class_of(MPI_Group_excl(all, 2, wrong, &group)) == MPI_ERR_RANK);
    int range[1][3] = {{0, size - 1, 0}};
    CHECK(class_of(MPI_Group_range_incl(all, 1, range, &group)) == MPI_ERR_ARG);
    CHECK(class_of(MPI_Group_free(&none)) == MPI_ERR_GROUP);
    group = all;
    MPI_Group_free(&all);
    CHECK(class_of(MPI_Group_size(group, &value)) == MPI_ERR_GROUP);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_ARE_FATAL);
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    duplicates();
    splits();
    groups();
    names();
    two_sides();
    mistakes();
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) printf("all good\n");
    MPI_Finalize();
    return 0;
}
