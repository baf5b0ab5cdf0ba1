/* Datatypes: creation, bounds, contents, names, attributes, errors. */
#include "check.h"

/* Finds the displacements of a type's ints, by packing an array of the numbers 0, 1, 2... */
static int picks(MPI_Datatype type, const int *expected, int count) {
    int memory[64], packed[64], bytes, position = 0;
    for (int i = 0; i < 64; i++)
        memory[i] = i;
    MPI_Type_commit(&type);
    MPI_Type_size(type, &bytes);
    if (bytes != count * (int)sizeof(int))
        return 0;
    MPI_Pack(memory, 1, type, packed, sizeof packed, &position, MPI_COMM_WORLD);
    return position == bytes && !memcmp(packed, expected, bytes);
}

#define PICKS(type, ...)                                                         \
    do {                                                                         \
        static const int expected[] = {__VA_ARGS__};                             \
        CHECK(picks(type, expected, (int)(sizeof expected / sizeof *expected))); \
    } while (0)

static MPI_Aint extent_of(MPI_Datatype type) {
    MPI_Aint lower, extent;
    CHECK(MPI_Type_get_extent(type, &lower, &extent) == MPI_SUCCESS);
    return extent;
}

/* Compares the contents of a type with the expected ones. */
static void tells(MPI_Datatype type, int combiner, int ni, const int *integers, int na, const MPI_Aint *addresses, int nd) {
    int found[4], told[32];
    MPI_Aint told_addresses[32];
    MPI_Datatype told_types[8];
    CHECK(MPI_Type_get_envelope(type, &found[0], &found[1], &found[2], &found[3]) == MPI_SUCCESS);
    CHECK(found[0] == ni && found[1] == na && found[2] == nd && found[3] == combiner);
    CHECK(MPI_Type_get_contents(type, ni, na, nd, told, told_addresses, told_types) == MPI_SUCCESS);
    for (int i = 0; i < ni; i++)
        CHECK(told[i] == integers[i]);
    for (int i = 0; i < na; i++)
        CHECK(told_addresses[i] == addresses[i]);
    for (int i = 0; i < nd; i++)
        CHECK(told_types[i] == MPI_INT);
    MPI_Count large[5];
    int large_combiner;
    CHECK(MPI_Type_get_envelope_c(type, &large[0], &large[1], &large[2], &large[3], &large_combiner) == MPI_SUCCESS);
    CHECK(large[0] == ni && large[1] == na && large[2] == 0 && large[3] == nd && large_combiner == combiner);
}

#define LIST(...) (const int[]){__VA_ARGS__}
#define ADDRESSES(...) (const MPI_Aint[]){__VA_ARGS__}

static void constructors(void) {
    MPI_Datatype type;
    MPI_Aint lower, extent;
    MPI_Type_contiguous(3, MPI_INT, &type);
    PICKS(type, 0, 1, 2);
    tells(type, MPI_COMBINER_CONTIGUOUS, 1, LIST(3), 0, NULL, 1);
    MPI_Type_free(&type);
    CHECK(type == MPI_DATATYPE_NULL);

    MPI_Type_vector(3, 2, 4, MPI_INT, &type);
    PICKS(type, 0, 1, 4, 5, 8, 9);
    CHECK(extent_of(type) == 10 * sizeof(int));
    tells(type, MPI_COMBINER_VECTOR, 3, LIST(3, 2, 4), 0, NULL, 1);
    MPI_Type_free(&type);

    MPI_Type_create_hvector(2, 1, 12, MPI_INT, &type);
    PICKS(type, 0, 3);
    tells(type, MPI_COMBINER_HVECTOR, 2, LIST(2, 1), 1, ADDRESSES(12), 1);
    MPI_Type_free(&type);

    MPI_Type_indexed(3, LIST(1, 0, 2), LIST(5, 9, 1), MPI_INT, &type);
    PICKS(type, 5, 1, 2);
    tells(type, MPI_COMBINER_INDEXED, 7, LIST(3, 1, 0, 2, 5, 9, 1), 0, NULL, 1);
    MPI_Type_get_extent(type, &lower, &extent);
    CHECK(lower == 4 && extent == 20);
    MPI_Type_free(&type);

    MPI_Type_create_hindexed(2, LIST(2, 1), ADDRESSES(8, 20), MPI_INT, &type);
    PICKS(type, 2, 3, 5);
    tells(type, MPI_COMBINER_HINDEXED, 3, LIST(2, 2, 1), 2, ADDRESSES(8, 20), 1);
    MPI_Type_free(&type);

    MPI_Type_create_indexed_block(3, 2, LIST(0, 6, 3), MPI_INT, &type);
    PICKS(type, 0, 1, 6, 7, 3, 4);
    tells(type, MPI_COMBINER_INDEXED_BLOCK, 5, LIST(3, 2, 0, 6, 3), 0, NULL, 1);
    MPI_Type_free(&type);

    MPI_Type_create_hindexed_block(2, 2, ADDRESSES(4, 16), MPI_INT, &type);
    PICKS(type, 1, 2, 4, 5);
    tells(type, MPI_COMBINER_HINDEXED_BLOCK, 2, LIST(2, 2), 2, ADDRESSES(4, 16), 1);
    MPI_Type_free(&type);

    MPI_Type_create_struct(2, LIST(2, 1), ADDRESSES(0, 16), (MPI_Datatype[]){MPI_INT, MPI_INT}, &type);
    PICKS(type, 0, 1, 4);
    tells(type, MPI_COMBINER_STRUCT, 3, LIST(2, 2, 1), 2, ADDRESSES(0, 16), 2);
    MPI_Type_free(&type);

    struct pair { char letter; double number; };
    MPI_Type_create_struct(2, LIST(1, 1), ADDRESSES(0, 8), (MPI_Datatype[]){MPI_DOUBLE, MPI_CHAR}, &type);
    CHECK(extent_of(type) == sizeof(struct pair));
    MPI_Type_get_true_extent(type, &lower, &extent);
    CHECK(lower == 0 && extent == 9);
    MPI_Count large_lower, large_extent, bytes;
    MPI_Type_get_true_extent_x(type, &large_lower, &large_extent);
    CHECK(large_lower == 0 && large_extent == 9);
    MPI_Type_size_x(type, &bytes);
    CHECK(bytes == 9);
    MPI_Type_free(&type);

    MPI_Type_create_subarray(2, LIST(4, 5), LIST(2, 3), LIST(1, 2), MPI_ORDER_C, MPI_INT, &type);
    PICKS(type, 7, 8, 9, 12, 13, 14);
    CHECK(extent_of(type) == 20 * sizeof(int));
    tells(type, MPI_COMBINER_SUBARRAY, 8, LIST(2, 4, 5, 2, 3, 1, 2, MPI_ORDER_C), 0, NULL, 1);
    MPI_Type_free(&type);
    MPI_Type_create_subarray(2, LIST(4, 5), LIST(2, 3), LIST(1, 2), MPI_ORDER_FORTRAN, MPI_INT, &type);
    PICKS(type, 9, 10, 13, 14, 17, 18);
    MPI_Type_free(&type);

    MPI_Type_create_darray(4, 2, 2, LIST(4, 6), LIST(MPI_DISTRIBUTE_BLOCK, MPI_DISTRIBUTE_CYCLIC),
                           LIST(MPI_DISTRIBUTE_DFLT_DARG, 2), LIST(2, 2), MPI_ORDER_C, MPI_INT, &type);
    PICKS(type, 12, 13, 16, 17, 18, 19, 22, 23);
    tells(type, MPI_COMBINER_DARRAY, 12,
          LIST(4, 2, 2, 4, 6, MPI_DISTRIBUTE_BLOCK, MPI_DISTRIBUTE_CYCLIC, MPI_DISTRIBUTE_DFLT_DARG, 2, 2, 2, MPI_ORDER_C), 0,
          NULL, 1);
    MPI_Type_free(&type);

    MPI_Type_create_resized(MPI_INT, -4, 12, &type);
    MPI_Type_get_extent(type, &lower, &extent);
    CHECK(lower == -4 && extent == 12);
    tells(type, MPI_COMBINER_RESIZED, 0, NULL, 2, ADDRESSES(-4, 12), 1);
    MPI_Type_free(&type);

    MPI_Type_dup(MPI_INT, &type);
    CHECK(type != MPI_INT && extent_of(type) == 4);
    tells(type, MPI_COMBINER_DUP, 0, NULL, 0, NULL, 1);
    MPI_Type_free(&type);
}

static void large_ones(void) {
    MPI_Datatype type, old;
    MPI_Count found[4], counts[8];
    MPI_Aint address;
    int combiner, integer;
    MPI_Type_vector_c(3, 2, 4, MPI_INT, &type);
    PICKS(type, 0, 1, 4, 5, 8, 9);
    MPI_Type_get_envelope_c(type, &found[0], &found[1], &found[2], &found[3], &combiner);
    CHECK(combiner == MPI_COMBINER_VECTOR && found[0] == 0 && found[1] == 0 && found[2] == 3 && found[3] == 1);
    MPI_Type_get_contents_c(type, 0, 0, 3, 1, &integer, &address, counts, &old);
    CHECK(counts[0] == 3 && counts[1] == 2 && counts[2] == 4 && old == MPI_INT);
    MPI_Type_free(&type);
    MPI_Type_create_subarray_c(1, (MPI_Count[]){9}, (MPI_Count[]){2}, (MPI_Count[]){3}, MPI_ORDER_C, MPI_INT, &type);
    PICKS(type, 3, 4);
    MPI_Type_get_envelope_c(type, &found[0], &found[1], &found[2], &found[3], &combiner);
    CHECK(combiner == MPI_COMBINER_SUBARRAY && found[0] == 2 && found[1] == 0 && found[2] == 3 && found[3] == 1);
    MPI_Type_free(&type);
    /* A value that an int cannot hold. */
    MPI_Type_contiguous_c(3000000000, MPI_INT, &type);
    MPI_Count bytes;
    int small;
    MPI_Type_size_c(type, &bytes);
    MPI_Type_size(type, &small);
    CHECK(bytes == 12000000000 && small == MPI_UNDEFINED);
    MPI_Type_free(&type);
}

static void nested(void) {
    MPI_Datatype inner, outer, told;
    int one[4], integers[8];
    MPI_Aint addresses[2];
    MPI_Type_vector(2, 1, 2, MPI_INT, &inner);
    MPI_Type_contiguous(2, inner, &outer);
    MPI_Type_free(&inner);
    PICKS(outer, 0, 2, 3, 5);
    MPI_Type_get_contents(outer, 1, 0, 1, integers, addresses, &told);
    CHECK(told != MPI_INT && told != MPI_DATATYPE_NULL);
    MPI_Type_get_envelope(told, &one[0], &one[1], &one[2], &one[3]);
    CHECK(one[3] == MPI_COMBINER_VECTOR);
    MPI_Type_free(&told);
    PICKS(outer, 0, 2, 3, 5);
    MPI_Type_free(&outer);
}

static void names(void) {
    char name[MPI_MAX_OBJECT_NAME], longest[300];
    int len;
    MPI_Datatype type;
    CHECK(MPI_Type_get_name(MPI_INT, name, &len) == MPI_SUCCESS && !strcmp(name, "MPI_INT") && len == 7);
    MPI_Type_contiguous(2, MPI_INT, &type);
    MPI_Type_get_name(type, name, &len);
    CHECK(len == 0 && !*name);
    MPI_Type_set_name(type, "two");
    MPI_Type_get_name(type, name, &len);
    CHECK(len == 3 && !strcmp(name, "two"));
    memset(longest, 'x', sizeof longest - 1);
    longest[sizeof longest - 1] = 0;
    if (OWN) {
        MPI_Type_set_name(type, longest);
        MPI_Type_get_name(type, name, &len);
        CHECK(len == MPI_MAX_OBJECT_NAME - 1 && (int)strlen(name) == len);
        MPI_Type_get_name(MPI_DATATYPE_NULL, name, &len);
        CHECK(!strcmp(name, "MPI_DATATYPE_NULL"));
    }
    MPI_Type_free(&type);
}

static int copies, deletes, fails;
static MPI_Datatype deleted_of;

static int copy(MPI_Datatype type, int keyval, void *extra, void *in, void *out, int *flag) {
    CHECK(type != MPI_DATATYPE_NULL && keyval != MPI_KEYVAL_INVALID && extra == (void *)&copies);
    copies++;
    *(void **)out = (char *)in + 1;
    *flag = 1;
    return fails ? MPI_ERR_INTERN : MPI_SUCCESS;
}

static int delete (MPI_Datatype type, int keyval, void *value, void *extra) {
    (void)keyval, (void)value, (void)extra;
    deletes++;
    deleted_of = type;
    return fails ? MPI_ERR_INTERN : MPI_SUCCESS;
}

static void attributes(void) {
    int key, duplicated, private, flag;
    void *value;
    MPI_Datatype type, dup;
    MPI_Type_create_keyval(copy, delete, &key, &copies);
    MPI_Type_create_keyval(MPI_TYPE_DUP_FN, MPI_TYPE_NULL_DELETE_FN, &duplicated, NULL);
    MPI_Type_create_keyval(MPI_TYPE_NULL_COPY_FN, MPI_TYPE_NULL_DELETE_FN, &private, NULL);
    MPI_Type_contiguous(2, MPI_INT, &type);
    CHECK(MPI_Type_get_attr(type, key, &value, &flag) == MPI_SUCCESS && !flag);
    MPI_Type_set_attr(type, key, (void *)10);
    MPI_Type_set_attr(type, duplicated, (void *)20);
    MPI_Type_set_attr(type, private, (void *)30);
    MPI_Type_set_attr(type, key, (void *)11);
    CHECK(deletes == 1 && deleted_of == type);
    CHECK(MPI_Type_dup(type, &dup) == MPI_SUCCESS && copies == 1);
    MPI_Type_get_attr(dup, key, &value, &flag);
    CHECK(flag && value == (void *)12);
    MPI_Type_get_attr(dup, duplicated, &value, &flag);
    CHECK(flag && value == (void *)20);
    MPI_Type_get_attr(dup, private, &value, &flag);
    CHECK(!flag);
    MPI_Type_delete_attr(dup, duplicated);
    MPI_Type_get_attr(dup, duplicated, &value, &flag);
    CHECK(!flag);
    fails = 1;
    MPI_Datatype none = MPI_DATATYPE_NULL;
    CHECK(MPI_Type_dup(type, &none) != MPI_SUCCESS && none == MPI_DATATYPE_NULL);
    CHECK(MPI_Type_delete_attr(dup, key) != MPI_SUCCESS);
    CHECK(!OWN || MPI_Type_free(&dup) != MPI_SUCCESS);
    fails = 0;
    MPI_Type_get_attr(dup, key, &value, &flag);
    CHECK(flag && value == (void *)12);
    deletes = 0;
    MPI_Datatype was = dup;
    MPI_Type_free(&dup);
    CHECK(deletes == 1 && deleted_of == was);
    int kept = key;
    MPI_Type_free_keyval(&key);
    CHECK(key == MPI_KEYVAL_INVALID);
    /* An attribute still uses the key, so the key exists. */
    CHECK(MPI_Type_set_attr(type, kept, NULL) == MPI_SUCCESS && deletes == 2);
    MPI_Type_free(&type);
    CHECK(deletes == 3);
    if (OWN)
        FAILS(MPI_Type_set_attr(MPI_INT, kept, NULL), MPI_ERR_KEYVAL);
    /* Predefined types have attributes, too. */
    MPI_Type_set_attr(MPI_INT, private, (void *)1);
    MPI_Type_get_attr(MPI_INT, private, &value, &flag);
    CHECK(flag && value == (void *)1);
    MPI_Type_delete_attr(MPI_INT, private);
    int of_comm;
    MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, &of_comm, NULL);
    if (OWN)
        FAILS(MPI_Type_set_attr(MPI_INT, of_comm, NULL), MPI_ERR_KEYVAL);
    MPI_Comm_free_keyval(&of_comm);
    MPI_Type_free_keyval(&duplicated);
    MPI_Type_free_keyval(&private);
}

static void found_by_what_they_hold(void) {
    MPI_Datatype type, other;
    int bytes, envelope[4], integers[2];
    MPI_Aint address;
    CHECK(MPI_Type_match_size(MPI_TYPECLASS_REAL, 8, &type) == MPI_SUCCESS);
    MPI_Type_size(type, &bytes);
    CHECK(bytes == 8);
    CHECK(MPI_Type_match_size(MPI_TYPECLASS_COMPLEX, 8, &type) == MPI_SUCCESS);
    CHECK(MPI_Type_match_size(MPI_TYPECLASS_INTEGER, 4, &type) == MPI_SUCCESS);
    CHECK(MPI_Type_match_size(MPI_TYPECLASS_INTEGER, 3, &type) != MPI_SUCCESS);
    CHECK(MPI_Type_create_f90_real(10, 100, &type) == MPI_SUCCESS);
    CHECK(MPI_Type_create_f90_real(10, 100, &other) == MPI_SUCCESS && other == type);
    MPI_Type_size(type, &bytes);
    CHECK(bytes == 8);
    MPI_Type_get_envelope(type, &envelope[0], &envelope[1], &envelope[2], &envelope[3]);
    CHECK(envelope[0] == 2 && envelope[1] == 0 && envelope[2] == 0 && envelope[3] == MPI_COMBINER_F90_REAL);
    MPI_Type_get_contents(type, 2, 0, 0, integers, &address, &other);
    CHECK(integers[0] == 10 && integers[1] == 100);
    MPI_Type_create_f90_complex(6, MPI_UNDEFINED, &type);
    MPI_Type_size(type, &bytes);
    CHECK(bytes == 8);
    MPI_Type_create_f90_integer(9, &type);
    double sum = 0, one = 1;
    MPI_Type_size(type, &bytes);
    CHECK(bytes == 4);
    MPI_Type_create_f90_real(15, MPI_UNDEFINED, &type);
    CHECK(MPI_Allreduce(&one, &sum, 1, type, MPI_SUM, MPI_COMM_WORLD) == MPI_SUCCESS && sum == size);
    MPI_Type_contiguous(2, type, &other);
    MPI_Datatype told;
    MPI_Type_get_contents(other, 1, 0, 1, integers, &address, &told);
    CHECK(told == type);
    MPI_Type_free(&other);
    if (OWN) {
        FAILS(MPI_Type_create_f90_real(1000, 1, &type), MPI_ERR_ARG);
        MPI_Type_create_f90_integer(9, &type);
        FAILS(MPI_Type_free(&type), MPI_ERR_TYPE);
    }
#if MPI_VERSION > 4 || (MPI_VERSION == 4 && MPI_SUBVERSION > 0)
    MPI_Type_get_value_index(MPI_DOUBLE, MPI_INT, &type);
    CHECK(type == MPI_DOUBLE_INT);
    MPI_Type_get_value_index(MPI_CHAR, MPI_INT, &type);
    CHECK(type == MPI_DATATYPE_NULL);
#endif
}

static void errors(void) {
    MPI_Datatype type = MPI_DATATYPE_NULL, freed, gone, predefined = MPI_INT;
    int bytes, envelope[4], integers[8], element = 0;
    MPI_Aint addresses[2];
    if (!OWN)
        return;
    MPI_Type_contiguous(2, MPI_INT, &freed);
    gone = freed;
    FAILS(MPI_Send(&element, 1, freed, MPI_PROC_NULL, 0, MPI_COMM_WORLD), MPI_ERR_TYPE);
    MPI_Type_free(&freed);
    FAILS(MPI_Type_size(gone, &bytes), MPI_ERR_TYPE);
    FAILS(MPI_Type_size(MPI_DATATYPE_NULL, &bytes), MPI_ERR_TYPE);
    FAILS(MPI_Type_commit(&gone), MPI_ERR_TYPE);
    FAILS(MPI_Type_free(&gone), MPI_ERR_TYPE);
    FAILS(MPI_Type_free(&predefined), MPI_ERR_TYPE);
    FAILS(MPI_Type_free(NULL), MPI_ERR_ARG);
    FAILS(MPI_Type_contiguous(-1, MPI_INT, &type), MPI_ERR_COUNT);
    FAILS(MPI_Type_contiguous(1, gone, &type), MPI_ERR_TYPE);
    FAILS(MPI_Type_contiguous(1, MPI_INT, NULL), MPI_ERR_ARG);
    FAILS(MPI_Type_vector(1, -1, 1, MPI_INT, &type), MPI_ERR_ARG);
    FAILS(MPI_Type_indexed(-2, LIST(1), LIST(1), MPI_INT, &type), MPI_ERR_COUNT);
    FAILS(MPI_Type_indexed(2, NULL, LIST(1, 2), MPI_INT, &type), MPI_ERR_ARG);
    FAILS(MPI_Type_indexed(2, LIST(1, -1), LIST(1, 2), MPI_INT, &type), MPI_ERR_ARG);
    FAILS(MPI_Type_create_struct(1, LIST(1), ADDRESSES(0), &gone, &type), MPI_ERR_TYPE);
    FAILS(MPI_Type_create_struct(1, LIST(1), ADDRESSES(0), NULL, &type), MPI_ERR_ARG);
    FAILS(MPI_Type_create_subarray(1, LIST(4), LIST(5), LIST(0), MPI_ORDER_C, MPI_INT, &type), MPI_ERR_ARG);
    FAILS(MPI_Type_create_subarray(1, LIST(4), LIST(2), LIST(0), 99, MPI_INT, &type), MPI_ERR_ARG);
    FAILS(MPI_Type_create_darray(2, 2, 1, LIST(4), LIST(MPI_DISTRIBUTE_BLOCK), LIST(MPI_DISTRIBUTE_DFLT_DARG), LIST(2),
                                 MPI_ORDER_C, MPI_INT, &type), MPI_ERR_ARG);
    FAILS(MPI_Type_get_contents(MPI_INT, 8, 2, 1, integers, addresses, &type), MPI_ERR_TYPE);
    CHECK(MPI_Type_get_envelope(MPI_INT, &envelope[0], &envelope[1], &envelope[2], &envelope[3]) == MPI_SUCCESS);
    CHECK(envelope[0] == 0 && envelope[2] == 0 && envelope[3] == MPI_COMBINER_NAMED);
    CHECK(type == MPI_DATATYPE_NULL);
    MPI_Op op;
    MPI_Errhandler handler;
    FAILS(MPI_Op_create(NULL, 1, &op), MPI_ERR_ARG);
    FAILS(MPI_Op_create_c(NULL, 1, &op), MPI_ERR_ARG);
    FAILS(MPI_Comm_create_errhandler(NULL, &handler), MPI_ERR_ARG);
    FAILS(MPI_Win_create_errhandler(NULL, &handler), MPI_ERR_ARG);
}

/* A derived type in messages and in a reduction. */
static MPI_Datatype complex_type;

static void multiply(void *in, void *inout, int *len, MPI_Datatype *type) {
    double *a = in, *b = inout;
    CHECK(*type == complex_type || !OWN);
    for (int i = 0; i < *len; i++) {
        double real = a[2 * i] * b[2 * i] - a[2 * i + 1] * b[2 * i + 1];
        b[2 * i + 1] = a[2 * i] * b[2 * i + 1] + a[2 * i + 1] * b[2 * i];
        b[2 * i] = real;
    }
}

static void communication(void) {
    int matrix[6][6], column[6], right = (rank + 1) % size, left = (rank + size - 1) % size;
    MPI_Datatype type;
    MPI_Status status;
    for (int i = 0; i < 36; i++)
        matrix[i / 6][i % 6] = 100 * rank + i;
    MPI_Type_vector(6, 1, 6, MPI_INT, &type);
    MPI_Type_commit(&type);
    MPI_Sendrecv(&matrix[0][2], 1, type, right, 0, column, 6, MPI_INT, left, 0, MPI_COMM_WORLD, &status);
    for (int i = 0; i < 6; i++)
        CHECK(column[i] == 100 * left + 6 * i + 2);
    int count, elements;
    MPI_Get_count(&status, type, &count);
    MPI_Get_elements(&status, type, &elements);
    CHECK(count == 1 && elements == 6);
    MPI_Type_free(&type);
    double values[4] = {0, 1, 2, 0}, result[4];
    MPI_Op op;
    MPI_Type_contiguous(2, MPI_DOUBLE, &complex_type);
    MPI_Type_commit(&complex_type);
    MPI_Op_create(multiply, 1, &op);
    MPI_Allreduce(values, result, 2, complex_type, op, MPI_COMM_WORLD);
    CHECK(result[2] == 1 << size && result[3] == 0);
    CHECK(size != 2 || (result[0] == -1 && result[1] == 0));
    MPI_Reduce_local(values, result, 2, complex_type, op);
    CHECK(result[2] == 2 << size);
    MPI_Op_free(&op);
    MPI_Type_free(&complex_type);
    /* Absolute addresses. */
    int first = rank, second = -rank, got[2];
    MPI_Aint addresses[2];
    MPI_Get_address(&first, &addresses[0]);
    MPI_Get_address(&second, &addresses[1]);
    MPI_Type_create_hindexed(2, LIST(1, 1), addresses, MPI_INT, &type);
    MPI_Type_commit(&type);
    MPI_Sendrecv(MPI_BOTTOM, 1, type, right, 1, got, 2, MPI_INT, left, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    CHECK(got[0] == left && got[1] == -left);
    CHECK(MPI_Aint_add(addresses[0], MPI_Aint_diff(addresses[1], addresses[0])) == addresses[1]);
    MPI_Type_free(&type);
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    constructors();
    large_ones();
    nested();
    names();
    attributes();
    found_by_what_they_hold();
    errors();
    communication();
    return end();
}
