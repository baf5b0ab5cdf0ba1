/* Prints the contents and lengths of datatypes, and the effects of their attributes and names. */
#include "say.h"

enum { ROOM = 64 };

static void say_contents(const char *what, MPI_Datatype type) {
    int combiner, list[ROOM];
    MPI_Aint places[ROOM];
    MPI_Datatype types[ROOM];
    number integers, addresses, inner;
#ifdef LARGE
    MPI_Count large, counts[ROOM];
    MPI_Type_get_envelope_c(type, &integers, &addresses, &large, &inner, &combiner);
#else
    MPI_Type_get_envelope(type, &integers, &addresses, &inner, &combiner);
#endif
    SAY("%s: %d integers, %d addresses, %d types, combiner %d", what, (int)integers, (int)addresses, (int)inner, combiner);
    if (combiner == MPI_COMBINER_NAMED)
        return;
#ifdef LARGE
    MPI_Type_get_contents_c(type, integers, addresses, large, inner, list, places, counts, types);
    for (number at = 0; at < large; at++)
        SAY("%s: count %ld", what, (long)counts[at]);
#else
    MPI_Type_get_contents(type, integers, addresses, inner, list, places, types);
#endif
    for (number at = 0; at < integers; at++)
        SAY("%s: integer %d", what, list[at]);
    for (number at = 0; at < addresses; at++)
        SAY("%s: address %ld", what, (long)places[at]);
    for (number at = 0, of; at < inner; at++) {
        F(MPI_Type_size)(types[at], &of), SAY("%s: a type of %d bytes", what, (int)of);
        int kind, counts_of[3];
        MPI_Type_get_envelope(types[at], counts_of, counts_of + 1, counts_of + 2, &kind);
        if (kind != MPI_COMBINER_NAMED)
            MPI_Type_free(types + at);
    }
}

static void say_type(const char *what, MPI_Datatype type) {
    number bytes;
    address lower, extent, true_lower, true_extent;
    F(MPI_Type_size)(type, &bytes), F(MPI_Type_get_extent)(type, &lower, &extent);
    F(MPI_Type_get_true_extent)(type, &true_lower, &true_extent);
    SAY("%s: size %d, from %ld, extent %ld, true %ld %ld", what, (int)bytes, (long)lower, (long)extent, (long)true_lower, (long)true_extent);
    MPI_Count length, at, span;
    MPI_Type_size_x(type, &length), MPI_Type_get_extent_x(type, &at, &span), SAY("%s: %ld %ld %ld", what, (long)length, (long)at, (long)span);
    MPI_Type_get_true_extent_x(type, &at, &span), SAY("%s: true %ld %ld", what, (long)at, (long)span);
    say_contents(what, type);
}

/* Prints a type, sends data of the type to this task itself, and frees the type. */
static void made(const char *what, MPI_Datatype type) {
    char out[2000], in[2000];
    say_type(what, type), MPI_Type_commit(&type);
    for (int at = 0; at < 2000; at++)
        out[at] = (char)(at % 101), in[at] = 0;
    F(MPI_Sendrecv)(out + 1000, 2, type, 0, 0, in + 1000, 2, type, 0, 0, MPI_COMM_SELF, MPI_STATUS_IGNORE);
    SAY("%s: brought %lx", what, digest(in, sizeof in));
    MPI_Type_free(&type), SAY("%s: freed %d", what, type == MPI_DATATYPE_NULL);
}

static void constructors(void) {
    MPI_Datatype type, inner;
    number lengths[2] = {2, 3}, starts[2] = {5, 1}, sizes[3] = {4, 5, 6}, parts[3] = {2, 3, 1}, from[3] = {1, 0, 4}, grid[2] = {10, 7};
    address places[2] = {-8, 40};
    F(MPI_Type_vector)(3, 2, -4, MPI_INT, &inner);
    F(MPI_Type_vector)(2, 1, 3, inner, &type), made("vector", type);
    F(MPI_Type_create_hvector)(2, 3, 100, inner, &type), made("hvector", type);
    F(MPI_Type_create_resized)(inner, -3, 77, &type), made("resized", type);
    F(MPI_Type_contiguous)(4, inner, &type), made("contiguous", type);
    F(MPI_Type_indexed)(2, lengths, starts, MPI_SHORT, &type), made("indexed", type);
    F(MPI_Type_create_indexed_block)(2, 3, starts, MPI_DOUBLE, &type), made("indexed block", type);
    F(MPI_Type_create_hindexed)(2, lengths, places, MPI_CHAR, &type), made("hindexed", type);
    F(MPI_Type_create_hindexed_block)(2, 3, places, MPI_FLOAT, &type), made("hindexed block", type);
    F(MPI_Type_create_struct)(2, lengths, places, (MPI_Datatype[]){MPI_DOUBLE, MPI_CHAR}, &type), made("struct", type);
    F(MPI_Type_create_subarray)(3, sizes, parts, from, MPI_ORDER_FORTRAN, MPI_INT, &type), made("subarray", type);
    for (int place = 0; place < 6; place++) {
        F(MPI_Type_create_darray)(6, place, 2, grid, (int[]){MPI_DISTRIBUTE_CYCLIC, MPI_DISTRIBUTE_BLOCK}, (int[]){2, MPI_DISTRIBUTE_DFLT_DARG},
                                  (int[]){3, 2}, MPI_ORDER_C, MPI_INT, &type);
        made("darray", type);
    }
    MPI_Type_dup(inner, &type), made("dup", type), MPI_Type_free(&inner);
}

static void named(void) {
    MPI_Datatype type;
    char name[MPI_MAX_OBJECT_NAME];
    int length;
    struct { const char *name; MPI_Datatype type; } all[] = {
        {"int", MPI_INT}, {"double", MPI_DOUBLE}, {"byte", MPI_BYTE}, {"packed", MPI_PACKED}, {"pair", MPI_DOUBLE_INT}, {"short pair", MPI_SHORT_INT},
        {"address", MPI_AINT}, {"count", MPI_COUNT}, {"offset", MPI_OFFSET}, {"long double", MPI_LONG_DOUBLE}, {"complex", MPI_C_DOUBLE_COMPLEX},
        {"wide", MPI_WCHAR}, {"bool", MPI_C_BOOL}, {"of C++", MPI_CXX_BOOL}, {"real", MPI_REAL}, {"logical", MPI_LOGICAL}, {"of 2 bytes", MPI_INT16_T}};
    for (size_t at = 0; at < sizeof all / sizeof *all; at++) {
        say_type(all[at].name, all[at].type);
        MPI_Type_get_name(all[at].type, name, &length), SAY("named %s, %d", name, length);
    }
    MPI_Type_contiguous(3, MPI_INT, &type);
    MPI_Type_get_name(type, name, &length), SAY("no name %d", length);
    MPI_Type_set_name(type, "three of them"), MPI_Type_get_name(type, name, &length), SAY("now %s, %d", name, length);
    SAY("as an integer %d", MPI_Type_fromint(MPI_Type_toint(type)) == type), MPI_Type_free(&type);
    SAY("integers: %d %d", MPI_Type_toint(MPI_INT), MPI_Type_fromint(MPI_Type_toint(MPI_DOUBLE)) == MPI_DOUBLE);
    MPI_Type_match_size(MPI_TYPECLASS_REAL, 8, &type), say_type("a real of 8", type);
    MPI_Type_match_size(MPI_TYPECLASS_INTEGER, 2, &type), say_type("an integer of 2", type);
    MPI_Type_match_size(MPI_TYPECLASS_COMPLEX, 16, &type), say_type("a complex of 16", type);
    MPI_Type_create_f90_integer(9, &type), say_type("integer of 9 digits", type);
    MPI_Type_create_f90_real(12, MPI_UNDEFINED, &type), say_type("real of 12 digits", type);
    MPI_Type_create_f90_complex(6, 30, &type), say_type("complex of 6 digits", type);
    MPI_Type_get_value_index(MPI_DOUBLE, MPI_INT, &type), SAY("double and int %d", type == MPI_DOUBLE_INT);
    MPI_Type_get_value_index(MPI_CHAR, MPI_DOUBLE, &type), SAY("char and double %d", type == MPI_DATATYPE_NULL);
}

static int copied, deleted;
static int copy(MPI_Datatype type, int keyval, void *extra, void *in, void *out, int *flag) {
    (void)type, (void)keyval, copied++, *flag = 1;
    *(void **)out = (char *)in + *(int *)extra;
    return MPI_SUCCESS;
}
static int forget(MPI_Datatype type, int keyval, void *value, void *extra) {
    (void)type, (void)keyval, (void)extra, deleted += (int)(MPI_Aint)value;
    return MPI_SUCCESS;
}

static void attributes(void) {
    MPI_Datatype type, dup;
    int keyval, other, extra = 4, flag;
    void *value;
    MPI_Type_contiguous(2, MPI_INT, &type);
    MPI_Type_create_keyval(copy, forget, &keyval, &extra), MPI_Type_create_keyval(MPI_TYPE_NULL_COPY_FN, MPI_TYPE_NULL_DELETE_FN, &other, NULL);
    MPI_Type_set_attr(type, keyval, (void *)10), MPI_Type_set_attr(type, other, (void *)3), MPI_Type_dup(type, &dup);
    MPI_Type_get_attr(dup, keyval, &value, &flag), SAY("copied %d: %d, %d", copied, flag, flag ? (int)(MPI_Aint)value : -1);
    MPI_Type_get_attr(dup, other, &value, &flag), SAY("not copied %d", flag);
    MPI_Type_set_attr(dup, keyval, (void *)20), SAY("deleted %d", deleted);
    MPI_Type_delete_attr(dup, keyval), MPI_Type_get_attr(dup, keyval, &value, &flag), SAY("deleted %d, there %d", deleted, flag);
    MPI_Type_free(&dup), MPI_Type_free(&type), SAY("deleted %d", deleted);
    MPI_Type_free_keyval(&keyval), MPI_Type_free_keyval(&other), SAY("freed %d", keyval == MPI_KEYVAL_INVALID);
}

static void addresses(void) {
    char place[100];
    MPI_Aint from, to;
    MPI_Get_address(place, &from), MPI_Get_address(place + 60, &to);
    SAY("apart %ld, sum right %d", (long)MPI_Aint_diff(to, from), MPI_Aint_add(from, 60) == to);
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    constructors(), named(), attributes(), addresses();
    fflush(stdout);
    return end();
}
