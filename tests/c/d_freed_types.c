/* A datatype that is freed while an operation uses it (MPI 5.0 section 5.1.9): the user's function of a reduction gets the type with its
   attributes and its name. The delete functions run when nothing uses the type any more. */
#include "check.h"

static int keyval, deleted, runs;
static MPI_Datatype expected;

static int delete(MPI_Datatype type, int key, void *value, void *extra) {
    (void)type, (void)key, (void)value, (void)extra;
    deleted++;
    return MPI_SUCCESS;
}

/* Adds as many numbers as the attribute of the type says. */
static void add(void *a, void *b, int *count, MPI_Datatype *type) {
    int *number = NULL, flag = 0, bytes = 0, length;
    char name[MPI_MAX_OBJECT_NAME];
    runs++;
    MPI_Type_get_attr(*type, keyval, &number, &flag);
    CHECK(flag && *number == 3);
    MPI_Type_size(*type, &bytes);
    CHECK(bytes == 3 * (int)sizeof(int) && *type == expected);
    MPI_Type_get_name(*type, name, &length);
    CHECK(!strcmp(name, "three"));
    for (int i = 0; i < *count * *number; i++)
        ((int *)b)[i] += ((int *)a)[i];
}

static MPI_Datatype three(int *number) {
    MPI_Datatype type;
    MPI_Type_contiguous(3, MPI_INT, &type);
    MPI_Type_commit(&type);
    MPI_Type_set_attr(type, keyval, number);
    MPI_Type_set_name(type, "three");
    expected = type;
    return type;
}

int main(int argc, char **argv) {
    int number = 3, in[3], out[3], flag;
    MPI_Op op;
    MPI_Request request;
    begin(&argc, &argv);
    MPI_Type_create_keyval(MPI_TYPE_NULL_COPY_FN, delete, &keyval, NULL);
    MPI_Op_create(add, 1, &op);
    for (int round = 0; round < 100; round++) {
        for (int i = 0; i < 3; i++)
            in[i] = rank + i;
        const int before = deleted;
        MPI_Datatype type = three(&number);
        MPI_Iallreduce(in, out, 1, type, op, MPI_COMM_WORLD, &request);
        MPI_Datatype old = type;
        MPI_Type_free(&type);
        CHECK(type == MPI_DATATYPE_NULL);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        for (int i = 0; i < 3; i++)
            CHECK(out[i] == size * (size - 1) / 2 + size * i);
        /* The program's handle is invalid. */
        FAILS(MPI_Type_commit(&old), MPI_ERR_TYPE);
        /* A type that nothing uses is deleted at once. */
        type = three(&number);
        MPI_Type_free(&type);
        CHECK(deleted == before + 2);
    }
    int all = 0;
    MPI_Allreduce(&runs, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    CHECK(size == 1 || all > 0);
    /* A persistent reduction uses the type until its request is freed. */
    MPI_Datatype type = three(&number), larger, inner, other;
    MPI_Allreduce_init(in, out, 1, type, op, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
    MPI_Type_free(&type);
    for (int round = 0; round < 3; round++) {
        MPI_Start(&request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        CHECK(out[2] == size * (size - 1) / 2 + size * 2);
    }
    MPI_Request_free(&request);
    /* The contents of a type have handles of their own, whose number does not grow. */
    type = three(&number);
    MPI_Type_contiguous(2, type, &larger);
    MPI_Type_free(&type);
    for (int round = 0; round < 2000; round++) {
        int count;
        MPI_Aint none;
        MPI_Type_get_contents(larger, 1, 0, 1, &count, &none, &inner);
        MPI_Type_dup(inner, &other);
        MPI_Type_free(&inner);
        MPI_Type_free(&other);
    }
    MPI_Type_free(&larger);
    int before = deleted;
    type = three(&number);
    MPI_Type_free(&type);
    CHECK(deleted > before);
    /* Constructors take types by value: neither a type that another was made of nor one that its contents returned is in use. */
    before = deleted;
    type = three(&number);
    MPI_Type_contiguous(2, type, &larger);
    MPI_Type_dup(type, &other);
    MPI_Type_free(&type);
    CHECK(deleted == before + 1);
    int count;
    MPI_Aint none;
    MPI_Type_get_contents(larger, 1, 0, 1, &count, &none, &inner);
    CHECK(count == 2);
    MPI_Type_set_attr(inner, keyval, &number);
    MPI_Type_free(&inner);
    CHECK(deleted == before + 2);
    MPI_Type_free(&larger);
    MPI_Type_free(&other);
    CHECK(deleted == before + 2);
    MPI_Op_free(&op);
    MPI_Type_free_keyval(&keyval);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    MPI_Finalized(&flag);
    /* 100 rounds with two types each, and five types. */
    if (deleted != 205) {
        printf("rank %d: %d types were deleted\n", rank, deleted);
        return 1;
    }
    if (rank == 0)
        printf("all good\n");
    return 0;
}
