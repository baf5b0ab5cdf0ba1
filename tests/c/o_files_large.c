/* Files: the calls with large counts (MPI 5.0 chapter 14). */
#include "check.h"
#include <unistd.h>

static int count_of(const MPI_Status *status) {
    int count;
    MPI_Get_count(status, MPI_INT, &count);
    return count;
}

int main(int argc, char **argv) {
    char name[512];
    const char *folder = getenv("TMPDIR");
    int number, back = -1;
    MPI_File file;
    MPI_Status status;
    MPI_Request request;
    MPI_Count extent;
    begin(&argc, &argv);
    number = getpid();
    MPI_Bcast(&number, 1, MPI_INT, 0, MPI_COMM_WORLD);
    snprintf(name, sizeof name, "%s/o_files_large-%d", folder ? folder : "/tmp", number);
    CHECK(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDWR | MPI_MODE_CREATE | MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL, &file) ==
          MPI_SUCCESS);
    CHECK(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL) == MPI_SUCCESS);
    CHECK(MPI_File_get_type_extent_c(file, MPI_DOUBLE, &extent) == MPI_SUCCESS && extent == 8);
    number = rank;
#define DONE(call) CHECK((call) == MPI_SUCCESS && count_of(&status) == 1)
#define WAITED(call) CHECK((call) == MPI_SUCCESS && MPI_Wait(&request, &status) == MPI_SUCCESS && count_of(&status) == 1)
#define IS_BACK(value) do { CHECK(back == (value)); back = -1; } while (0)
    /* Each write stores another number than the one before. */
#define NEXT() (number += 100, MPI_File_seek(file, rank, MPI_SEEK_SET))
#define CHECK_WRITTEN() do { \
        DONE(MPI_File_read_at_c(file, rank, &back, (MPI_Count)1, MPI_INT, &status)); \
        IS_BACK(number); \
    } while (0)
    NEXT();
    DONE(MPI_File_write_at_c(file, rank, &number, (MPI_Count)1, MPI_INT, &status));
    CHECK_WRITTEN();
    NEXT();
    DONE(MPI_File_write_at_all_c(file, rank, &number, (MPI_Count)1, MPI_INT, &status));
    CHECK_WRITTEN();
    NEXT();
    DONE(MPI_File_write_c(file, &number, (MPI_Count)1, MPI_INT, &status));
    CHECK_WRITTEN();
    NEXT();
    DONE(MPI_File_write_all_c(file, &number, (MPI_Count)1, MPI_INT, &status));
    CHECK_WRITTEN();
    NEXT();
    WAITED(MPI_File_iwrite_at_c(file, rank, &number, (MPI_Count)1, MPI_INT, &request));
    CHECK_WRITTEN();
    NEXT();
    WAITED(MPI_File_iwrite_at_all_c(file, rank, &number, (MPI_Count)1, MPI_INT, &request));
    CHECK_WRITTEN();
    NEXT();
    WAITED(MPI_File_iwrite_c(file, &number, (MPI_Count)1, MPI_INT, &request));
    CHECK_WRITTEN();
    NEXT();
    WAITED(MPI_File_iwrite_all_c(file, &number, (MPI_Count)1, MPI_INT, &request));
    CHECK_WRITTEN();
    NEXT();
    CHECK(MPI_File_write_at_all_begin_c(file, rank, &number, (MPI_Count)1, MPI_INT) == MPI_SUCCESS);
    DONE(MPI_File_write_at_all_end(file, &number, &status));
    CHECK_WRITTEN();
    NEXT();
    CHECK(MPI_File_write_all_begin_c(file, &number, (MPI_Count)1, MPI_INT) == MPI_SUCCESS);
    DONE(MPI_File_write_all_end(file, &number, &status));
    CHECK_WRITTEN();
    NEXT();
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_File_seek_shared(file, 0, MPI_SEEK_SET);
    DONE(MPI_File_write_ordered_c(file, &number, (MPI_Count)1, MPI_INT, &status));
    CHECK_WRITTEN();
    NEXT();
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_File_seek_shared(file, 0, MPI_SEEK_SET);
    CHECK(MPI_File_write_ordered_begin_c(file, &number, (MPI_Count)1, MPI_INT) == MPI_SUCCESS);
    DONE(MPI_File_write_ordered_end(file, &number, &status));
    CHECK_WRITTEN();
    /* Reads. */
    DONE(MPI_File_read_at_c(file, rank, &back, (MPI_Count)1, MPI_INT, &status));
    IS_BACK(number);
    DONE(MPI_File_read_at_all_c(file, rank, &back, (MPI_Count)1, MPI_INT, &status));
    IS_BACK(number);
    MPI_File_seek(file, rank, MPI_SEEK_SET);
    DONE(MPI_File_read_c(file, &back, (MPI_Count)1, MPI_INT, &status));
    IS_BACK(number);
    MPI_File_seek(file, rank, MPI_SEEK_SET);
    DONE(MPI_File_read_all_c(file, &back, (MPI_Count)1, MPI_INT, &status));
    IS_BACK(number);
    WAITED(MPI_File_iread_at_c(file, rank, &back, (MPI_Count)1, MPI_INT, &request));
    IS_BACK(number);
    WAITED(MPI_File_iread_at_all_c(file, rank, &back, (MPI_Count)1, MPI_INT, &request));
    IS_BACK(number);
    MPI_File_seek(file, rank, MPI_SEEK_SET);
    WAITED(MPI_File_iread_c(file, &back, (MPI_Count)1, MPI_INT, &request));
    IS_BACK(number);
    MPI_File_seek(file, rank, MPI_SEEK_SET);
    WAITED(MPI_File_iread_all_c(file, &back, (MPI_Count)1, MPI_INT, &request));
    IS_BACK(number);
    CHECK(MPI_File_read_at_all_begin_c(file, rank, &back, (MPI_Count)1, MPI_INT) == MPI_SUCCESS);
    DONE(MPI_File_read_at_all_end(file, &back, &status));
    IS_BACK(number);
    MPI_File_seek(file, rank, MPI_SEEK_SET);
    CHECK(MPI_File_read_all_begin_c(file, &back, (MPI_Count)1, MPI_INT) == MPI_SUCCESS);
    DONE(MPI_File_read_all_end(file, &back, &status));
    IS_BACK(number);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_File_seek_shared(file, 0, MPI_SEEK_SET);
    DONE(MPI_File_read_ordered_c(file, &back, (MPI_Count)1, MPI_INT, &status));
    IS_BACK(number);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_File_seek_shared(file, 0, MPI_SEEK_SET);
    CHECK(MPI_File_read_ordered_begin_c(file, &back, (MPI_Count)1, MPI_INT) == MPI_SUCCESS);
    DONE(MPI_File_read_ordered_end(file, &back, &status));
    IS_BACK(number);
    /* Each task gets the number of one of the tasks by the shared pointer. */
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_File_seek_shared(file, 0, MPI_SEEK_SET);
    DONE(MPI_File_read_shared_c(file, &back, (MPI_Count)1, MPI_INT, &status));
    CHECK(back / 100 == number / 100);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_File_seek_shared(file, 0, MPI_SEEK_SET);
    WAITED(MPI_File_iread_shared_c(file, &back, (MPI_Count)1, MPI_INT, &request));
    CHECK(back / 100 == number / 100);
    MPI_Barrier(MPI_COMM_WORLD);
    DONE(MPI_File_write_shared_c(file, &number, (MPI_Count)1, MPI_INT, &status));
    WAITED(MPI_File_iwrite_shared_c(file, &number, (MPI_Count)1, MPI_INT, &request));
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Offset position;
    CHECK(MPI_File_get_position_shared(file, &position) == MPI_SUCCESS && position == 3 * size);
    CHECK(MPI_File_close(&file) == MPI_SUCCESS);
    return end();
}
