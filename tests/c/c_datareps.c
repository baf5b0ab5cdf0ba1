/* Data representations of a program, and external32 for derived types (MPI 5.0 section 14.5). */
#include "check.h"
#include <fcntl.h>
#include <unistd.h>

static char name[512];
/* Two ints with a gap between them, in memory. */
static MPI_Datatype apart;
static int fail_with = MPI_SUCCESS, conversions, state;

/* In the file, an int has 8 bytes, the most significant one first. */
static int extent_of(MPI_Datatype datatype, MPI_Aint *extent, void *extra) {
    CHECK(extra == &state);
    int bytes;
    MPI_Type_size(datatype, &bytes);
    *extent = datatype == MPI_INT ? 8 : bytes;
    return fail_with;
}

/* Where an int lies in the program's elements: 5.1, the type map. */
static int *item(void *user, MPI_Datatype datatype, MPI_Count index) {
    int integers, addresses, types, combiner;
    MPI_Type_get_envelope(datatype, &integers, &addresses, &types, &combiner);
    if (combiner == MPI_COMBINER_NAMED) {
        CHECK(datatype == MPI_INT);
        return (int *)user + index;
    }
    MPI_Aint lower, extent;
    MPI_Type_get_extent(datatype, &lower, &extent);
    CHECK(combiner == MPI_COMBINER_VECTOR && extent == 12);
    return (int *)user + index / 2 * 3 + index % 2 * 2;
}

static int read_large(void *user, MPI_Datatype datatype, MPI_Count count, void *file, MPI_Offset position, void *extra) {
    CHECK(extra == &state);
    conversions++;
    for (MPI_Count at = 0; at < count; at++) {
        const unsigned char *from = (const unsigned char *)file + 8 * at;
        unsigned value = 0;
        for (int byte = 4; byte < 8; byte++)
            value = value << 8 | from[byte];
        *item(user, datatype, position + at) = (int)value;
    }
    return fail_with;
}

static int write_large(void *user, MPI_Datatype datatype, MPI_Count count, void *file, MPI_Offset position, void *extra) {
    CHECK(extra == &state);
    conversions++;
    for (MPI_Count at = 0; at < count; at++) {
        unsigned char *to = (unsigned char *)file + 8 * at;
        unsigned value = (unsigned)*item(user, datatype, position + at);
        memset(to, 0, 8);
        for (int byte = 7; byte >= 4; byte--, value >>= 8)
            to[byte] = (unsigned char)value;
    }
    return fail_with;
}

static int read_small(void *user, MPI_Datatype datatype, int count, void *file, MPI_Offset position, void *extra) {
    return read_large(user, datatype, count, file, position, extra);
}

static int write_small(void *user, MPI_Datatype datatype, int count, void *file, MPI_Offset position, void *extra) {
    return write_large(user, datatype, count, file, position, extra);
}

static int native_extent(MPI_Datatype datatype, MPI_Aint *extent, void *extra) {
    (void)extra;
    int bytes;
    MPI_Type_size(datatype, &bytes);
    *extent = bytes;
    return MPI_SUCCESS;
}

/* 14.5.3: names, and what is refused. */
static void check_registering(void) {
    char text[MPI_MAX_ERROR_STRING], long_name[MPI_MAX_DATAREP_STRING + 1];
    int length;
    CHECK(MPI_Register_datarep("long ints", read_small, write_small, extent_of, &state) == MPI_SUCCESS);
    CHECK(MPI_Register_datarep_c("long ints too", read_large, write_large, extent_of, &state) == MPI_SUCCESS);
    CHECK(MPI_Register_datarep("plain", MPI_CONVERSION_FN_NULL, MPI_CONVERSION_FN_NULL, native_extent, NULL) == MPI_SUCCESS);
    CHECK(MPI_Register_datarep_c("one way", MPI_CONVERSION_FN_NULL_C, write_large, extent_of, &state) == MPI_SUCCESS);
    int code = MPI_Register_datarep("long ints", read_small, write_small, extent_of, &state);
    CHECK(class_of(code) == MPI_ERR_DUP_DATAREP);
    MPI_Error_string(code, text, &length);
    CHECK(strstr(text, "this name already") != NULL);
    FAILS(MPI_Register_datarep_c("external32", read_large, write_large, extent_of, &state), MPI_ERR_DUP_DATAREP);
    FAILS(MPI_Register_datarep("without extents", read_small, write_small, NULL, &state), MPI_ERR_ARG);
    memset(long_name, 'x', MPI_MAX_DATAREP_STRING);
    long_name[MPI_MAX_DATAREP_STRING] = 0;
    FAILS(MPI_Register_datarep(long_name, read_small, write_small, extent_of, &state), MPI_ERR_ARG);
}

static int count_of(MPI_Status *status, MPI_Datatype type) {
    int count;
    MPI_Get_count(status, type, &count);
    return count;
}

static void check_accesses(MPI_File file, const char *representation) {
    MPI_Datatype mine, triple;
    MPI_Aint extent;
    MPI_Offset offset;
    MPI_Status status;
    MPI_Request request;
    char said[MPI_MAX_DATAREP_STRING];
    int out[6], in[6];
    unsigned char raw[8];
    /* Every size-th int is this task's. The displacements are in elements, and so grow with the ints. */
    MPI_Type_create_subarray(1, (int[]){size}, (int[]){1}, (int[]){rank}, MPI_ORDER_C, MPI_INT, &mine);
    MPI_Type_contiguous(3, MPI_INT, &triple);
    MPI_Type_commit(&mine);
    CHECK(MPI_File_set_view(file, 0, MPI_INT, mine, representation, MPI_INFO_NULL) == MPI_SUCCESS);
    CHECK(MPI_File_get_view(file, &offset, &(MPI_Datatype){0}, &(MPI_Datatype){0}, said) == MPI_SUCCESS);
    CHECK(strcmp(said, representation) == 0);
    CHECK(MPI_File_get_type_extent(file, MPI_INT, &extent) == MPI_SUCCESS && extent == 8);
    CHECK(MPI_File_get_type_extent(file, triple, &extent) == MPI_SUCCESS && extent == 24);
    CHECK(MPI_File_get_byte_offset(file, 2, &offset) == MPI_SUCCESS && offset == 8 * (2 * size + rank));
    for (int at = 0; at < 6; at++)
        out[at] = 1000000 * (rank + 1) + at;
    conversions = 0;
    CHECK(MPI_File_write_at_all(file, 0, out, 4, MPI_INT, &status) == MPI_SUCCESS && count_of(&status, MPI_INT) == 4);
    CHECK(conversions > 0);
    MPI_Barrier(MPI_COMM_WORLD);
    /* Memory that is not contiguous: elements 4 and 5 of the task are the ints 0 and 2 of `out`. */
    CHECK(MPI_File_iwrite_at(file, 4, out, 1, apart, &request) == MPI_SUCCESS);
    CHECK(MPI_Wait(&request, &status) == MPI_SUCCESS && count_of(&status, apart) == 1);
    int other = open(name, O_RDONLY), value = out[3];
    CHECK(pread(other, raw, 8, 8 * (3 * size + rank)) == 8);
    for (int byte = 7; byte >= 0; byte--, value >>= 8)
        CHECK(raw[byte] == (byte < 4 ? 0 : (value & 255)));
    close(other);
    memset(in, 0, sizeof in);
    CHECK(MPI_File_read_at_all(file, 0, in, 4, MPI_INT, &status) == MPI_SUCCESS && count_of(&status, MPI_INT) == 4);
    CHECK(memcmp(in, out, 4 * sizeof *in) == 0);
    memset(in, 0, sizeof in);
    CHECK(MPI_File_iread_at(file, 4, in, 1, apart, &request) == MPI_SUCCESS);
    CHECK(MPI_Wait(&request, &status) == MPI_SUCCESS && count_of(&status, apart) == 1);
    CHECK(in[0] == out[0] && in[1] == 0 && in[2] == out[2]);
    MPI_Barrier(MPI_COMM_WORLD);
    /* The file ends inside the last int of each task. */
    CHECK(MPI_File_set_size(file, 8 * 5 * size) == MPI_SUCCESS);
    in[0] = in[2] = -1;
    CHECK(MPI_File_read_at(file, 4, in, 1, apart, &status) == MPI_SUCCESS);
    int elements;
    MPI_Get_elements(&status, apart, &elements);
    CHECK(elements == 1 && in[0] == out[0] && in[2] == -1);
    /* A function of the program fails. */
    fail_with = 77;
    FAILS(MPI_File_write_at(file, 0, out, 1, MPI_INT, &status), MPI_ERR_CONVERSION);
    FAILS(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, representation, MPI_INFO_NULL), MPI_ERR_CONVERSION);
    fail_with = MPI_SUCCESS;
    CHECK(MPI_File_read_at(file, 0, in, 1, MPI_INT, &status) == MPI_SUCCESS && in[0] == out[0]);
    MPI_Type_free(&mine);
    MPI_Type_free(&triple);
    MPI_Barrier(MPI_COMM_WORLD);
}

/* 14.5.3: without a function, the data are as in memory. */
static void check_without_functions(MPI_File file) {
    MPI_Status status;
    int out = 41 + rank, in = 0;
    CHECK(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "plain", MPI_INFO_NULL) == MPI_SUCCESS);
    CHECK(MPI_File_write_at(file, rank, &out, 1, MPI_INT, &status) == MPI_SUCCESS);
    int other = open(name, O_RDONLY);
    CHECK(pread(other, &in, 4, 4 * rank) == 4 && in == out);
    close(other);
    CHECK(MPI_File_read_at(file, rank, &in, 1, MPI_INT, &status) == MPI_SUCCESS && in == out);
    CHECK(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "one way", MPI_INFO_NULL) == MPI_SUCCESS);
    CHECK(MPI_File_write_at(file, rank, &out, 1, MPI_INT, &status) == MPI_SUCCESS);
    FAILS(MPI_File_read_at(file, rank, &in, 1, MPI_INT, &status), MPI_ERR_CONVERSION);
    FAILS(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "unknown", MPI_INFO_NULL), MPI_ERR_UNSUPPORTED_DATAREP);
    if (size > 1)
        FAILS(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, rank == 0 ? "plain" : "native", MPI_INFO_NULL), MPI_ERR_NOT_SAME);
    MPI_Barrier(MPI_COMM_WORLD);
}

/* 14.5.2: a long has 4 bytes in external32, so a vector of longs has other displacements there. */
static void check_external32(MPI_File file) {
    MPI_Datatype blocks;
    MPI_Aint extent;
    MPI_Status status;
    long out[4], in[4] = {0};
    unsigned char raw[4];
    MPI_Type_create_subarray(1, (int[]){2 * size}, (int[]){2}, (int[]){2 * rank}, MPI_ORDER_C, MPI_LONG, &blocks);
    MPI_Type_commit(&blocks);
    CHECK(MPI_File_set_view(file, 0, MPI_LONG, blocks, "external32", MPI_INFO_NULL) == MPI_SUCCESS);
    CHECK(MPI_File_get_type_extent(file, blocks, &extent) == MPI_SUCCESS && extent == 8 * size);
    for (int at = 0; at < 4; at++)
        out[at] = -100 * rank - at;
    CHECK(MPI_File_write_at_all(file, 0, out, 4, MPI_LONG, &status) == MPI_SUCCESS && count_of(&status, MPI_LONG) == 4);
    MPI_Barrier(MPI_COMM_WORLD);
    int other = open(name, O_RDONLY), place = 2 * size + 2 * rank + 1;
    CHECK(pread(other, raw, 4, 4 * place) == 4);
    CHECK((int)((unsigned)raw[0] << 24 | raw[1] << 16 | raw[2] << 8 | raw[3]) == out[3]);
    close(other);
    CHECK(MPI_File_read_at_all(file, 0, in, 4, MPI_LONG, &status) == MPI_SUCCESS && memcmp(in, out, sizeof in) == 0);
    MPI_Type_free(&blocks);
    MPI_Barrier(MPI_COMM_WORLD);
}

int main(int argc, char **argv) {
    MPI_File file;
    int number = getpid();
    begin(&argc, &argv);
    MPI_Bcast(&number, 1, MPI_INT, 0, MPI_COMM_WORLD);
    const char *folder = getenv("TMPDIR");
    snprintf(name, sizeof name, "%s/c_datareps-%d", folder ? folder : "/tmp", number);
    MPI_Type_vector(2, 1, 2, MPI_INT, &apart);
    MPI_Type_commit(&apart);
    check_registering();
    int mode = MPI_MODE_RDWR | MPI_MODE_CREATE | MPI_MODE_DELETE_ON_CLOSE;
    CHECK(MPI_File_open(MPI_COMM_WORLD, name, mode, MPI_INFO_NULL, &file) == MPI_SUCCESS);
    check_accesses(file, "long ints");
    check_accesses(file, "long ints too");
    check_without_functions(file);
    check_external32(file);
    CHECK(MPI_File_close(&file) == MPI_SUCCESS);
    MPI_Type_free(&apart);
    return end();
}
