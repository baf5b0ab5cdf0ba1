/* Files (MPI 5.0 chapter 14). Each check is one of the standard's sentences. */
#include "check.h"
#include <sys/resource.h>
#include <unistd.h>

static char name[512];

/* What only this library refuses, with this class, is not called on other libraries: some crash, some wait for ever. */
#define REFUSED(call, class)                                                                      \
    do {                                                                                          \
        if (OWN)                                                                                  \
            FAILS(call, class);                                                                   \
    } while (0)

/* Opens the test's file, and checks that the call succeeds. */
static MPI_File open_file(int amode) {
    MPI_File file;
    CHECK(MPI_File_open(MPI_COMM_WORLD, name, amode, MPI_INFO_NULL, &file) == MPI_SUCCESS);
    return file;
}

/* What was written before is read after it, by all tasks (14.6.1). */
static void meet(MPI_File file) {
    CHECK(MPI_File_sync(file) == MPI_SUCCESS);
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK(MPI_File_sync(file) == MPI_SUCCESS);
}

static int count_of(const MPI_Status *status, MPI_Datatype type) {
    int count;
    MPI_Get_count(status, type, &count);
    return count;
}

/* 14.2: open, close, delete, sizes, access modes. */
static void check_opening(void) {
    MPI_File file;
    MPI_Offset bytes;
    MPI_Group group, all;
    int amode, result, all_failed;
    REFUSED(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDONLY, MPI_INFO_NULL, &file), MPI_ERR_NO_SUCH_FILE);
    REFUSED(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_CREATE, MPI_INFO_NULL, &file), MPI_ERR_AMODE);
    REFUSED(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDONLY | MPI_MODE_CREATE, MPI_INFO_NULL, &file), MPI_ERR_AMODE);
    REFUSED(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDWR | MPI_MODE_SEQUENTIAL, MPI_INFO_NULL, &file), MPI_ERR_AMODE);
    if (size > 1) {
        int own = rank == 0 ? MPI_MODE_RDWR | MPI_MODE_CREATE : MPI_MODE_WRONLY | MPI_MODE_CREATE;
        REFUSED(MPI_File_open(MPI_COMM_WORLD, name, own, MPI_INFO_NULL, &file), MPI_ERR_NOT_SAME);
    }
    REFUSED(MPI_File_delete(name, MPI_INFO_NULL), MPI_ERR_NO_SUCH_FILE);
    MPI_Barrier(MPI_COMM_WORLD);
    file = open_file(MPI_MODE_RDWR | MPI_MODE_CREATE | MPI_MODE_EXCL);
    CHECK(MPI_File_get_amode(file, &amode) == MPI_SUCCESS && amode == (MPI_MODE_RDWR | MPI_MODE_CREATE | MPI_MODE_EXCL));
    MPI_File_get_group(file, &group);
    MPI_Comm_group(MPI_COMM_WORLD, &all);
    MPI_Group_compare(group, all, &result);
    CHECK(result == MPI_IDENT);
    MPI_Group_free(&group);
    MPI_Group_free(&all);
    CHECK(MPI_File_get_size(file, &bytes) == MPI_SUCCESS && bytes == 0);
    CHECK(MPI_File_set_size(file, 1000) == MPI_SUCCESS);
    CHECK(MPI_File_get_size(file, &bytes) == MPI_SUCCESS && bytes == 1000);
    CHECK(MPI_File_preallocate(file, 500) == MPI_SUCCESS);
    CHECK(MPI_File_get_size(file, &bytes) == MPI_SUCCESS && bytes == 1000);
    CHECK(MPI_File_preallocate(file, 5000) == MPI_SUCCESS);
    CHECK(MPI_File_get_size(file, &bytes) == MPI_SUCCESS && bytes == 5000);
    REFUSED(MPI_File_set_size(file, -1), MPI_ERR_ARG);
    if (size > 1)
        REFUSED(MPI_File_set_size(file, rank), MPI_ERR_NOT_SAME);
    CHECK(MPI_File_sync(file) == MPI_SUCCESS);
    CHECK(MPI_File_close(&file) == MPI_SUCCESS && file == MPI_FILE_NULL);
    int exclusive = MPI_MODE_RDWR | MPI_MODE_CREATE | MPI_MODE_EXCL;
    REFUSED(MPI_File_open(MPI_COMM_WORLD, name, exclusive, MPI_INFO_NULL, &file), MPI_ERR_FILE_EXISTS);
    /* A file whose folder is a file. */
    char below[600];
    snprintf(below, sizeof below, "%s/below", name);
    result = class_of(MPI_File_open(MPI_COMM_WORLD, below, MPI_MODE_RDONLY, MPI_INFO_NULL, &file));
    CHECK(result == MPI_ERR_BAD_FILE || result == MPI_ERR_NO_SUCH_FILE);
    file = open_file(MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE);
    CHECK(MPI_File_close(&file) == MPI_SUCCESS);
    all_failed = class_of(MPI_File_open(MPI_COMM_SELF, name, MPI_MODE_RDONLY, MPI_INFO_NULL, &file)) == MPI_ERR_NO_SUCH_FILE;
    CHECK(all_failed);
    file = MPI_FILE_NULL;
    REFUSED(MPI_File_close(&file), MPI_ERR_FILE);
    MPI_Barrier(MPI_COMM_WORLD);
}

/* 14.4.2 and 14.4.3: explicit offsets, individual pointers, short reads, seeks. */
static void check_access(void) {
    MPI_File file = open_file(MPI_MODE_RDWR | MPI_MODE_CREATE);
    MPI_Offset position;
    MPI_Status status;
    MPI_Request request;
    int out[100], in[100];
    for (int i = 0; i < 100; i++)
        out[i] = 1000 * rank + i;
    CHECK(MPI_File_write_at(file, 400 * rank, out, 100, MPI_INT, &status) == MPI_SUCCESS);
    CHECK(count_of(&status, MPI_INT) == 100);
    meet(file);
    int from = (rank + 1) % size;
    CHECK(MPI_File_read_at(file, 400 * from, in, 100, MPI_INT, &status) == MPI_SUCCESS);
    for (int i = 0; i < 100; i++)
        CHECK(in[i] == 1000 * from + i);
    /* The file ends 10 integers further on: the status says how many were read, and the rest of the buffer stays as it is. */
    in[10] = -7;
    CHECK(MPI_File_read_at(file, 400 * size - 40, in, 100, MPI_INT, &status) == MPI_SUCCESS);
    CHECK(count_of(&status, MPI_INT) == 10 && in[9] == 1000 * (size - 1) + 99 && in[10] == -7);
    CHECK(MPI_File_read_at(file, 400 * size + 8, in, 100, MPI_INT, &status) == MPI_SUCCESS && count_of(&status, MPI_INT) == 0);
    REFUSED(MPI_File_read_at(file, -4, in, 1, MPI_INT, &status), MPI_ERR_ARG);
    /* The individual pointer. */
    CHECK(MPI_File_seek(file, 400 * rank, MPI_SEEK_SET) == MPI_SUCCESS);
    CHECK(MPI_File_read(file, in, 50, MPI_INT, &status) == MPI_SUCCESS && in[49] == 1000 * rank + 49);
    CHECK(MPI_File_get_position(file, &position) == MPI_SUCCESS && position == 400 * rank + 200);
    CHECK(MPI_File_iread(file, in, 50, MPI_INT, &request) == MPI_SUCCESS);
    CHECK(MPI_Wait(&request, &status) == MPI_SUCCESS && count_of(&status, MPI_INT) == 50 && in[0] == 1000 * rank + 50);
    CHECK(request == MPI_REQUEST_NULL);
    CHECK(MPI_File_seek(file, -4, MPI_SEEK_CUR) == MPI_SUCCESS);
    CHECK(MPI_File_read(file, in, 1, MPI_INT, &status) == MPI_SUCCESS && in[0] == 1000 * rank + 99);
    CHECK(MPI_File_seek(file, -4, MPI_SEEK_END) == MPI_SUCCESS);
    CHECK(MPI_File_read(file, in, 5, MPI_INT, &status) == MPI_SUCCESS && count_of(&status, MPI_INT) == 1);
    REFUSED(MPI_File_seek(file, -1, MPI_SEEK_SET), MPI_ERR_ARG);
    REFUSED(MPI_File_seek(file, 0, 77), MPI_ERR_ARG);
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK(MPI_File_iwrite_at(file, 400 * rank, out + 50, 50, MPI_INT, &request) == MPI_SUCCESS);
    CHECK(MPI_Wait(&request, &status) == MPI_SUCCESS && count_of(&status, MPI_INT) == 50);
    CHECK(MPI_File_read_at(file, 400 * rank, in, 1, MPI_INT, &status) == MPI_SUCCESS && in[0] == 1000 * rank + 50);
    CHECK(MPI_File_close(&file) == MPI_SUCCESS);
    /* 14.2.1: a file that is only read, or only written; data behind the end. */
    file = open_file(MPI_MODE_RDONLY);
    REFUSED(MPI_File_write_at(file, 0, out, 1, MPI_INT, &status), MPI_ERR_READ_ONLY);
    REFUSED(MPI_File_set_size(file, 0), MPI_ERR_READ_ONLY);
    CHECK(MPI_File_close(&file) == MPI_SUCCESS);
    file = open_file(MPI_MODE_WRONLY | MPI_MODE_APPEND);
    REFUSED(MPI_File_read_at(file, 0, in, 1, MPI_INT, &status), MPI_ERR_ACCESS);
    CHECK(MPI_File_get_position(file, &position) == MPI_SUCCESS && position == 400 * size);
    CHECK(MPI_File_get_position_shared(file, &position) == MPI_SUCCESS && position == 400 * size);
    CHECK(MPI_File_close(&file) == MPI_SUCCESS);
    if (rank == 0)
        CHECK(MPI_File_delete(name, MPI_INFO_NULL) == MPI_SUCCESS);
    MPI_Barrier(MPI_COMM_WORLD);
}

/* Each task's view is every size-th block of `block` integers. */
static void set_strided(MPI_File file, int block) {
    MPI_Datatype blocks, filetype;
    MPI_Type_contiguous(block, MPI_INT, &blocks);
    MPI_Type_create_resized(blocks, 0, (MPI_Aint)block * size * 4, &filetype);
    MPI_Type_commit(&filetype);
    CHECK(MPI_File_set_view(file, (MPI_Offset)8 + 4 * block * rank, MPI_INT, filetype, "native", MPI_INFO_NULL) == MPI_SUCCESS);
    MPI_Type_free(&blocks);
    MPI_Type_free(&filetype);
}

/* 14.3 and 14.4: views, alone and together, with data in memory that are not contiguous, too. */
static void check_views(void) {
    enum { COUNT = 3000 };
    static int out[2 * COUNT], in[2 * COUNT];
    MPI_Datatype every_second;
    MPI_Offset offset, displacement;
    MPI_Status status;
    MPI_Type_create_resized(MPI_INT, 0, 8, &every_second);
    MPI_Type_commit(&every_second);
    for (int block = 1; block <= 1000; block *= 10) {
        for (int way = 0; way < 4; way++) {
            MPI_File file = open_file(MPI_MODE_RDWR | MPI_MODE_CREATE | MPI_MODE_DELETE_ON_CLOSE);
            MPI_Datatype in_memory = way % 2 ? every_second : MPI_INT;
            int step = way % 2 ? 2 : 1;
            long head = -1;
            if (rank == 0)
                CHECK(MPI_File_write_at(file, 0, &head, 8, MPI_BYTE, &status) == MPI_SUCCESS);
            MPI_Barrier(MPI_COMM_WORLD);
            set_strided(file, block);
            memset(in, 0x55, sizeof in);
            for (int i = 0; i < COUNT; i++)
                out[i * step] = 10000 * rank + i;
            int (*write)(MPI_File, MPI_Offset, const void *, int, MPI_Datatype, MPI_Status *) =
                way < 2 ? MPI_File_write_at_all : MPI_File_write_at;
            int (*read)(MPI_File, MPI_Offset, void *, int, MPI_Datatype, MPI_Status *) =
                way < 2 ? MPI_File_read_at_all : MPI_File_read_at;
            CHECK(write(file, 5, out, COUNT, in_memory, &status) == MPI_SUCCESS && count_of(&status, MPI_INT) == COUNT);
            CHECK(read(file, 5, in, COUNT, in_memory, &status) == MPI_SUCCESS && count_of(&status, MPI_INT) == COUNT);
            for (int i = 0; i < COUNT; i++)
                CHECK(in[i * step] == 10000 * rank + i && (step == 1 || in[2 * i + 1] == 0x55555555));
            CHECK(MPI_File_get_byte_offset(file, block + 1 > 6 ? 6 : block, &offset) == MPI_SUCCESS);
            displacement = 8 + 4 * block * rank;
            CHECK(offset == displacement + (block + 1 > 6 ? 24 : 4 * block * size));
            /* Nothing of what no task has written has changed: the first integers of the file, and the gap before position 5. */
            meet(file);
            CHECK(MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL) == MPI_SUCCESS);
            CHECK(MPI_File_read_at_all(file, 0, &head, 8, MPI_BYTE, &status) == MPI_SUCCESS && head == -1);
            CHECK(MPI_File_read_at_all(file, 8, in, 1, MPI_INT, &status) == MPI_SUCCESS && in[0] == 0);
            /* The next task's data, by an offset in bytes. */
            int next = (rank + 1) % size, index = 77 + 5;
            offset = 8 + 4 * ((MPI_Offset)(index / block) * block * size + block * next + index % block);
            CHECK(MPI_File_read_at(file, offset, in, 1, MPI_INT, &status) == MPI_SUCCESS && in[0] == 10000 * next + 77);
            CHECK(MPI_File_close(&file) == MPI_SUCCESS);
        }
    }
    MPI_Type_free(&every_second);
}

/* 14.3: what a view must be, and what MPI_File_get_view returns. */
static void check_view_arguments(void) {
    MPI_File file = open_file(MPI_MODE_RDWR | MPI_MODE_CREATE | MPI_MODE_DELETE_ON_CLOSE);
    MPI_Datatype back, etype, filetype, vector;
    MPI_Offset displacement;
    MPI_Aint extent;
    MPI_Status status;
    char datarep[MPI_MAX_DATAREP_STRING];
    int lengths[2] = {1, 1}, displacements[2] = {4, 0}, combiner, n, value[3];
    MPI_Type_indexed(2, lengths, displacements, MPI_INT, &back);
    MPI_Type_commit(&back);
    REFUSED(MPI_File_set_view(file, 0, MPI_INT, back, "native", MPI_INFO_NULL), MPI_ERR_ARG);
    REFUSED(MPI_File_set_view(file, 0, MPI_INT, MPI_BYTE, "native", MPI_INFO_NULL), MPI_ERR_ARG);
    REFUSED(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "of mine", MPI_INFO_NULL), MPI_ERR_UNSUPPORTED_DATAREP);
    REFUSED(MPI_File_set_view(file, MPI_DISPLACEMENT_CURRENT, MPI_INT, MPI_INT, "native", MPI_INFO_NULL), MPI_ERR_ARG);
    MPI_Type_vector(3, 1, 2, MPI_INT, &vector);
    MPI_Type_commit(&vector);
    CHECK(MPI_File_set_view(file, 12, MPI_INT, vector, "internal", MPI_INFO_NULL) == MPI_SUCCESS);
    MPI_Type_free(&vector);
    CHECK(MPI_File_get_view(file, &displacement, &etype, &filetype, datarep) == MPI_SUCCESS);
    CHECK(displacement == 12 && (!OWN || (etype == MPI_INT && strcmp(datarep, "internal") == 0)));
    MPI_Type_get_envelope(filetype, &n, &n, &n, &combiner);
    CHECK(!OWN || combiner == MPI_COMBINER_VECTOR);
    MPI_Type_free(&filetype);
    /* Only whole etypes are accessed. */
    REFUSED(MPI_File_write_at(file, 0, value, 3, MPI_BYTE, &status), MPI_ERR_ARG);
    MPI_Type_free(&back);
    /* 14.5: external32 has the most significant byte first, and a long has 4 bytes. */
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "external32", MPI_INFO_NULL) == MPI_SUCCESS);
    value[0] = 0x01020304;
    CHECK(MPI_File_write_at_all(file, rank, value, 1, MPI_INT, &status) == MPI_SUCCESS);
    value[1] = 0;
    CHECK(MPI_File_read_at_all(file, rank, value + 1, 1, MPI_INT, &status) == MPI_SUCCESS && value[1] == value[0]);
    CHECK(MPI_File_get_type_extent(file, MPI_INT, &extent) == MPI_SUCCESS && extent == 4);
    CHECK(MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL) == MPI_SUCCESS);
    unsigned char bytes[4];
    CHECK(MPI_File_read_at(file, 4 * rank, bytes, 4, MPI_BYTE, &status) == MPI_SUCCESS && bytes[0] == 1 && bytes[3] == 4);
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK(MPI_File_set_view(file, 0, MPI_LONG, MPI_LONG, "external32", MPI_INFO_NULL) == MPI_SUCCESS);
    long longs[2] = {-5, 6};
    CHECK(MPI_File_write_at(file, 2 * rank, longs, 2, MPI_LONG, &status) == MPI_SUCCESS && count_of(&status, MPI_LONG) == 2);
    longs[0] = longs[1] = 0;
    CHECK(MPI_File_read_at(file, 2 * rank, longs, 2, MPI_LONG, &status) == MPI_SUCCESS && count_of(&status, MPI_LONG) == 2);
    CHECK(longs[0] == -5 && longs[1] == 6);
    CHECK(MPI_File_get_type_extent(file, MPI_LONG, &extent) == MPI_SUCCESS && (!OWN || extent == 4));
    CHECK(MPI_File_close(&file) == MPI_SUCCESS);
}

/* 14.4.4: the shared pointer: every access gets a place of its own, and ordered ones lie in the order of the ranks. */
static void check_shared(void) {
    enum { ROUNDS = 20 };
    MPI_File file = open_file(MPI_MODE_RDWR | MPI_MODE_CREATE | MPI_MODE_DELETE_ON_CLOSE);
    MPI_Offset position;
    MPI_Status status;
    MPI_Request request;
    int numbers[64], seen[64][ROUNDS] = {{0}}, last[64];
    CHECK(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL) == MPI_SUCCESS);
    for (int i = 0; i < ROUNDS; i++) {
        int number = 100 * rank + i;
        if (i % 2) {
            CHECK(MPI_File_write_shared(file, &number, 1, MPI_INT, &status) == MPI_SUCCESS);
        } else {
            CHECK(MPI_File_iwrite_shared(file, &number, 1, MPI_INT, &request) == MPI_SUCCESS);
            CHECK(MPI_Wait(&request, &status) == MPI_SUCCESS);
        }
    }
    meet(file);
    CHECK(MPI_File_get_position_shared(file, &position) == MPI_SUCCESS && position == ROUNDS * size);
    for (int i = 0; i < size; i++)
        last[i] = -1;
    for (int i = 0; i < ROUNDS * size; i++) {
        CHECK(MPI_File_read_at(file, i, numbers, 1, MPI_INT, &status) == MPI_SUCCESS);
        CHECK(!seen[numbers[0] / 100][numbers[0] % 100]++ && last[numbers[0] / 100] < numbers[0] % 100);
        last[numbers[0] / 100] = numbers[0] % 100;
    }
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK(MPI_File_seek_shared(file, 3, MPI_SEEK_SET) == MPI_SUCCESS);
    if (size > 1)
        REFUSED(MPI_File_seek_shared(file, rank, MPI_SEEK_SET), MPI_ERR_NOT_SAME);
    for (int i = 0; i <= rank; i++)
        numbers[i] = 10 * rank + i;
    CHECK(MPI_File_write_ordered(file, numbers, rank + 1, MPI_INT, &status) == MPI_SUCCESS && count_of(&status, MPI_INT) == rank + 1);
    CHECK(MPI_File_get_position_shared(file, &position) == MPI_SUCCESS && position == 3 + size * (size + 1) / 2);
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK(MPI_File_seek_shared(file, 3, MPI_SEEK_SET) == MPI_SUCCESS);
    CHECK(MPI_File_read_ordered_begin(file, numbers + 32, rank + 1, MPI_INT) == MPI_SUCCESS);
    CHECK(MPI_File_read_ordered_end(file, numbers + 32, &status) == MPI_SUCCESS && count_of(&status, MPI_INT) == rank + 1);
    for (int i = 0; i <= rank; i++)
        CHECK(numbers[32 + i] == 10 * rank + i);
    CHECK(MPI_File_close(&file) == MPI_SUCCESS);
    /* 14.2.1: a sequential file is only accessed by the shared pointer. */
    file = open_file(MPI_MODE_WRONLY | MPI_MODE_CREATE | MPI_MODE_SEQUENTIAL | MPI_MODE_DELETE_ON_CLOSE);
    REFUSED(MPI_File_write_at(file, 0, numbers, 1, MPI_INT, &status), MPI_ERR_UNSUPPORTED_OPERATION);
    REFUSED(MPI_File_seek(file, 0, MPI_SEEK_SET), MPI_ERR_UNSUPPORTED_OPERATION);
    CHECK(MPI_File_write_shared(file, numbers, 2, MPI_INT, &status) == MPI_SUCCESS);
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK(MPI_File_set_view(file, MPI_DISPLACEMENT_CURRENT, MPI_INT, MPI_INT, "native", MPI_INFO_NULL) == MPI_SUCCESS);
    MPI_Datatype type;
    char datarep[MPI_MAX_DATAREP_STRING];
    CHECK(MPI_File_get_view(file, &position, &type, &type, datarep) == MPI_SUCCESS && position == 8 * size);
    CHECK(MPI_File_close(&file) == MPI_SUCCESS);
}

/* 14.4.5: split collective accesses, one at a time. */
static void check_split(void) {
    MPI_File file = open_file(MPI_MODE_RDWR | MPI_MODE_CREATE | MPI_MODE_DELETE_ON_CLOSE);
    MPI_Status status;
    int out[10], in[10];
    for (int i = 0; i < 10; i++)
        out[i] = 10 * rank + i;
    set_strided(file, 2);
    CHECK(MPI_File_write_all_begin(file, out, 10, MPI_INT) == MPI_SUCCESS);
    REFUSED(MPI_File_write_all_begin(file, out, 10, MPI_INT), MPI_ERR_OTHER);
    REFUSED(MPI_File_close(&file), MPI_ERR_OTHER);
    REFUSED(MPI_File_read_all_end(file, in, &status), MPI_ERR_OTHER);
    CHECK(MPI_File_write_all_end(file, out, &status) == MPI_SUCCESS && count_of(&status, MPI_INT) == 10);
    CHECK(MPI_File_read_at_all_begin(file, 0, in, 10, MPI_INT) == MPI_SUCCESS);
    CHECK(MPI_File_read_at_all_end(file, in, &status) == MPI_SUCCESS && count_of(&status, MPI_INT) == 10);
    for (int i = 0; i < 10; i++)
        CHECK(in[i] == out[i]);
    CHECK(MPI_File_close(&file) == MPI_SUCCESS);
}

/* 14.2.8: hints; 14.6.1: atomicity; 9.3 and 14.7: error handlers of files. */
static int handled;

static void handler(MPI_File *file, int *code, ...) {
    (void)file;
    handled = class_of(*code);
}

static void check_properties(void) {
    MPI_File file;
    MPI_Info info;
    MPI_Errhandler errhandler, other;
    MPI_Status status;
    char value[MPI_MAX_INFO_VAL + 1];
    int flag, length = sizeof value, number = 5, numbers[2] = {0, 0};
    MPI_Info_create(&info);
    MPI_Info_set(info, "cb_buffer_size", "4096");
    MPI_Info_set(info, "cb_nodes", "2");
    MPI_Info_set(info, "romio_cb_write", "enable");
    MPI_Info_set(info, "romio_cb_read", "enable");
    MPI_Info_set(info, "of_mine", "1");
    CHECK(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDWR | MPI_MODE_CREATE | MPI_MODE_DELETE_ON_CLOSE, info, &file) == MPI_SUCCESS);
    MPI_Info_free(&info);
    CHECK(MPI_File_get_info(file, &info) == MPI_SUCCESS);
    MPI_Info_get_string(info, "cb_buffer_size", &length, value, &flag);
    CHECK(flag && strcmp(value, "4096") == 0);
    length = sizeof value;
    MPI_Info_get_string(info, "of_mine", &length, value, &flag);
    CHECK(!flag);
    MPI_Info_free(&info);
    /* Rounds of 4096 bytes by two aggregators; every task has data in each. */
    static int many[50000], back[50000];
    for (int i = 0; i < 50000; i++)
        many[i] = rank + i * size;
    set_strided(file, 1);
    CHECK(MPI_File_write_all(file, many, 50000, MPI_INT, &status) == MPI_SUCCESS);
    CHECK(MPI_File_seek(file, 0, MPI_SEEK_SET) == MPI_SUCCESS);
    CHECK(MPI_File_read_all(file, back, 50000, MPI_INT, &status) == MPI_SUCCESS && count_of(&status, MPI_INT) == 50000);
    CHECK(memcmp(many, back, sizeof many) == 0);
    /* Half of the integers lie behind the end. */
    CHECK(MPI_File_read_at_all(file, 25000, back, 50000, MPI_INT, &status) == MPI_SUCCESS && count_of(&status, MPI_INT) == 25000);
    CHECK(back[0] == many[25000] && back[24999] == many[49999]);
    CHECK(MPI_File_get_atomicity(file, &flag) == MPI_SUCCESS && !flag);
    CHECK(MPI_File_set_atomicity(file, 1) == MPI_SUCCESS);
    CHECK(MPI_File_get_atomicity(file, &flag) == MPI_SUCCESS && flag);
    /* All tasks write the same two integers: they are of one task. */
    CHECK(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL) == MPI_SUCCESS);
    int both[2] = {rank, rank};
    CHECK(MPI_File_write_at_all(file, 0, both, 2, MPI_INT, &status) == MPI_SUCCESS);
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK(MPI_File_read_at_all(file, 0, numbers, 2, MPI_INT, &status) == MPI_SUCCESS && numbers[0] == numbers[1]);
    /* Error handlers. */
    CHECK(MPI_File_get_errhandler(file, &errhandler) == MPI_SUCCESS && errhandler == MPI_ERRORS_RETURN);
    MPI_Errhandler_free(&errhandler);
    MPI_File_create_errhandler(handler, &errhandler);
    CHECK(MPI_File_set_errhandler(file, errhandler) == MPI_SUCCESS);
    REFUSED(MPI_File_write_at(file, -1, &number, 1, MPI_INT, &status), MPI_ERR_ARG);
    CHECK(!OWN || handled == MPI_ERR_ARG);
    CHECK(MPI_File_call_errhandler(file, MPI_ERR_QUOTA) == MPI_SUCCESS && handled == MPI_ERR_QUOTA);
    CHECK(MPI_File_set_errhandler(MPI_FILE_NULL, errhandler) == MPI_SUCCESS);
    CHECK(MPI_File_get_errhandler(MPI_FILE_NULL, &other) == MPI_SUCCESS && other == errhandler);
    MPI_Errhandler_free(&other);
    REFUSED(MPI_File_delete("/no such folder/file", MPI_INFO_NULL), MPI_ERR_NO_SUCH_FILE);
    CHECK(!OWN || handled == MPI_ERR_NO_SUCH_FILE);
    MPI_File_set_errhandler(MPI_FILE_NULL, MPI_ERRORS_RETURN);
    MPI_Errhandler_free(&errhandler);
    CHECK(MPI_File_toint(file) != MPI_File_toint(MPI_FILE_NULL) && MPI_File_fromint(MPI_File_toint(file)) == file);
    CHECK(MPI_File_close(&file) == MPI_SUCCESS);
}

/* 14.7: the system's errors by their classes. */
static void check_system(void) {
    MPI_File file;
    MPI_Status status;
    struct rlimit before, limit;
    int number = 5;
    char program[600];
    if (!OWN)
        return;
    REFUSED(MPI_File_open(MPI_COMM_SELF, "", MPI_MODE_RDONLY, MPI_INFO_NULL, &file), MPI_ERR_BAD_FILE);
    REFUSED(MPI_File_open(MPI_COMM_SELF, "/dev", MPI_MODE_RDONLY, MPI_INFO_NULL, &file), MPI_ERR_BAD_FILE);
    /* A running program cannot be written. */
    ssize_t len = readlink("/proc/self/exe", program, sizeof program - 1);
    CHECK(len > 0);
    program[len] = 0;
    REFUSED(MPI_File_open(MPI_COMM_SELF, program, MPI_MODE_WRONLY, MPI_INFO_NULL, &file), MPI_ERR_FILE_IN_USE);
    CHECK(MPI_File_open(MPI_COMM_SELF, "/dev/full", MPI_MODE_WRONLY, MPI_INFO_NULL, &file) == MPI_SUCCESS);
    REFUSED(MPI_File_write(file, &number, 1, MPI_INT, &status), MPI_ERR_NO_SPACE);
    CHECK(MPI_File_close(&file) == MPI_SUCCESS);
    /* Nothing is mapped at address 0. */
    CHECK(MPI_File_open(MPI_COMM_SELF, "/proc/self/mem", MPI_MODE_RDONLY, MPI_INFO_NULL, &file) == MPI_SUCCESS);
    REFUSED(MPI_File_read_at(file, 0, &number, 1, MPI_INT, &status), MPI_ERR_IO);
    CHECK(MPI_File_close(&file) == MPI_SUCCESS);
    /* Beyond the limit of a file's size the system would end the process by a signal. What fits is written. */
    file = open_file(MPI_MODE_WRONLY | MPI_MODE_CREATE | MPI_MODE_DELETE_ON_CLOSE);
    getrlimit(RLIMIT_FSIZE, &before);
    limit = before;
    limit.rlim_cur = 4096;
    setrlimit(RLIMIT_FSIZE, &limit);
    static char bytes[8192];
    REFUSED(MPI_File_write_at(file, 0, bytes, 8192, MPI_BYTE, &status), MPI_ERR_QUOTA);
    REFUSED(MPI_File_set_size(file, 8192), MPI_ERR_QUOTA);
    setrlimit(RLIMIT_FSIZE, &before);
    MPI_Offset size_of_file;
    CHECK(MPI_File_get_size(file, &size_of_file) == MPI_SUCCESS && size_of_file == 4096);
    CHECK(MPI_File_close(&file) == MPI_SUCCESS);
}

/* The remaining forms of reading and writing, each at a place where the others do not write. */
static void check_forms(void) {
    MPI_File file = open_file(MPI_MODE_RDWR | MPI_MODE_CREATE | MPI_MODE_DELETE_ON_CLOSE);
    MPI_Status status;
    MPI_Request request;
    int number = rank, back = -1;
    CHECK(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL) == MPI_SUCCESS);
    CHECK(MPI_File_set_info(file, MPI_INFO_NULL) == MPI_SUCCESS || !OWN);
#define DONE(call) CHECK((call) == MPI_SUCCESS && count_of(&status, MPI_INT) == 1)
#define WAITED(call) CHECK((call) == MPI_SUCCESS && MPI_Wait(&request, &status) == MPI_SUCCESS && count_of(&status, MPI_INT) == 1)
#define IS_BACK(value) do { CHECK(back == (value)); back = -1; } while (0)
    CHECK(MPI_File_seek(file, rank, MPI_SEEK_SET) == MPI_SUCCESS);
    DONE(MPI_File_write(file, &number, 1, MPI_INT, &status));
    MPI_File_seek(file, rank, MPI_SEEK_SET);
    WAITED(MPI_File_iwrite(file, &number, 1, MPI_INT, &request));
    MPI_File_seek(file, rank, MPI_SEEK_SET);
    WAITED(MPI_File_iwrite_all(file, &number, 1, MPI_INT, &request));
    MPI_File_seek(file, rank, MPI_SEEK_SET);
    DONE(MPI_File_write_all(file, &number, 1, MPI_INT, &status));
    WAITED(MPI_File_iwrite_at_all(file, rank, &number, 1, MPI_INT, &request));
    CHECK(MPI_File_write_at_all_begin(file, rank, &number, 1, MPI_INT) == MPI_SUCCESS);
    DONE(MPI_File_write_at_all_end(file, &number, &status));
    MPI_Barrier(MPI_COMM_WORLD);
    WAITED(MPI_File_iread_at(file, rank, &back, 1, MPI_INT, &request));
    IS_BACK(rank);
    WAITED(MPI_File_iread_at_all(file, rank, &back, 1, MPI_INT, &request));
    IS_BACK(rank);
    MPI_File_seek(file, rank, MPI_SEEK_SET);
    WAITED(MPI_File_iread_all(file, &back, 1, MPI_INT, &request));
    IS_BACK(rank);
    MPI_File_seek(file, rank, MPI_SEEK_SET);
    DONE(MPI_File_read_all(file, &back, 1, MPI_INT, &status));
    IS_BACK(rank);
    MPI_File_seek(file, rank, MPI_SEEK_SET);
    CHECK(MPI_File_read_all_begin(file, &back, 1, MPI_INT) == MPI_SUCCESS);
    DONE(MPI_File_read_all_end(file, &back, &status));
    IS_BACK(rank);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_File_seek_shared(file, 0, MPI_SEEK_SET);
    CHECK(MPI_File_write_ordered_begin(file, &number, 1, MPI_INT) == MPI_SUCCESS);
    DONE(MPI_File_write_ordered_end(file, &number, &status));
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_File_seek_shared(file, 0, MPI_SEEK_SET);
    DONE(MPI_File_read_ordered(file, &back, 1, MPI_INT, &status));
    IS_BACK(rank);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_File_seek_shared(file, 0, MPI_SEEK_SET);
    DONE(MPI_File_read_shared(file, &back, 1, MPI_INT, &status));
    CHECK(back >= 0 && back < size);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_File_seek_shared(file, 0, MPI_SEEK_SET);
    WAITED(MPI_File_iread_shared(file, &back, 1, MPI_INT, &request));
    CHECK(back >= 0 && back < size);
    CHECK(MPI_File_close(&file) == MPI_SUCCESS);
}

int main(int argc, char **argv) {
    int number;
    begin(&argc, &argv);
    const char *folder = getenv("TMPDIR");
    number = getpid();
    MPI_Bcast(&number, 1, MPI_INT, 0, MPI_COMM_WORLD);
    snprintf(name, sizeof name, "%s/o_files-%d", folder ? folder : "/tmp", number);
    check_opening();
    check_access();
    check_views();
    check_view_arguments();
    check_shared();
    check_split();
    check_system();
    check_forms();
    check_properties();
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK(access(name, F_OK) != 0);
    return end();
}
