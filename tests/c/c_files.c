/* Non-blocking accesses to files (MPI 5.0 sections 14.4.1 and 14.4.5): the program goes on while the system is still busy with one. The
 * system is kept busy by a lock on the accessed bytes, which the test holds: in atomic mode, an access waits for it. */
#define _GNU_SOURCE
#include "check.h"
#include <fcntl.h>
#include <pthread.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define BYTES 8192

static char name[512];
static char out[BYTES], in[BYTES];
/* The same file, opened once more. */
static int other;

/* Locks this task's bytes, or unlocks them. */
static void lock(short kind) {
    struct flock bytes = {.l_type = kind, .l_whence = SEEK_SET, .l_start = (off_t)rank * BYTES, .l_len = BYTES};
    CHECK(fcntl(other, F_OFD_SETLK, &bytes) == 0);
}

static void *unlock_later(void *unused) {
    struct timespec a_while = {.tv_nsec = 400000000};
    nanosleep(&a_while, NULL);
    lock(F_UNLCK);
    return unused;
}

static pthread_t start_unlocking(void) {
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, unlock_later, NULL) == 0);
    return thread;
}

static double seconds(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static void messages(void) {
    for (int round = 0; round < 20; round++) {
        int to = (rank + 1) % size, from = (rank + size - 1) % size, sum, got = -1;
        MPI_Sendrecv(&rank, 1, MPI_INT, to, 0, &got, 1, MPI_INT, from, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        CHECK(got == from);
        MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        CHECK(sum == size * (size - 1) / 2);
    }
}

static void fill(char value) {
    memset(out, value + rank, BYTES);
}

static void check_in_file(void) {
    memset(in, 0, BYTES);
    CHECK(pread(other, in, BYTES, (off_t)rank * BYTES) == BYTES && memcmp(in, out, BYTES) == 0);
}

static void check_requests(MPI_File file) {
    MPI_Request requests[2];
    MPI_Status status, statuses[2];
    MPI_Offset position;
    int flag, count;
    pthread_t thread;
    fill('a');
    lock(F_WRLCK);
    CHECK(MPI_File_iwrite_at(file, (MPI_Offset)rank * BYTES, out, BYTES, MPI_CHAR, &requests[0]) == MPI_SUCCESS);
    CHECK(MPI_Test(&requests[0], &flag, &status) == MPI_SUCCESS && !flag);
    messages();
    CHECK(MPI_Request_get_status(requests[0], &flag, &status) == MPI_SUCCESS && !flag);
    /* An access that was started later comes later. The pointer moves at once, as far as the access will. */
    MPI_File_seek(file, (MPI_Offset)rank * BYTES, MPI_SEEK_SET);
    CHECK(MPI_File_iread(file, in, BYTES, MPI_CHAR, &requests[1]) == MPI_SUCCESS);
    CHECK(MPI_File_get_position(file, &position) == MPI_SUCCESS && position == (MPI_Offset)(rank + 1) * BYTES);
    CHECK(MPI_Testall(2, requests, &flag, statuses) == MPI_SUCCESS && !flag);
    lock(F_UNLCK);
    CHECK(MPI_Waitall(2, requests, statuses) == MPI_SUCCESS);
    MPI_Get_count(&statuses[1], MPI_CHAR, &count);
    CHECK(count == BYTES && memcmp(in, out, BYTES) == 0);
    check_in_file();

    /* A wait leaves the processor to others. */
    fill('b');
    lock(F_WRLCK);
    CHECK(MPI_File_iwrite_at(file, (MPI_Offset)rank * BYTES, out, BYTES, MPI_CHAR, &requests[0]) == MPI_SUCCESS);
    double begun = seconds(CLOCK_MONOTONIC), used = seconds(CLOCK_PROCESS_CPUTIME_ID);
    thread = start_unlocking();
    CHECK(MPI_Wait(&requests[0], &status) == MPI_SUCCESS && requests[0] == MPI_REQUEST_NULL);
    MPI_Get_count(&status, MPI_CHAR, &count);
    CHECK(count == BYTES);
    CHECK(seconds(CLOCK_PROCESS_CPUTIME_ID) - used < 0.5 * (seconds(CLOCK_MONOTONIC) - begun));
    pthread_join(thread, NULL);
    check_in_file();
}

/* Split collectives: there may be other communication between the begin and the end. */
static void check_split(MPI_File file) {
    MPI_Status status;
    pthread_t thread;
    int count;
    fill('c');
    lock(F_WRLCK);
    CHECK(MPI_File_write_at_all_begin(file, (MPI_Offset)rank * BYTES, out, BYTES, MPI_CHAR) == MPI_SUCCESS);
    messages();
    thread = start_unlocking();
    CHECK(MPI_File_write_at_all_end(file, out, &status) == MPI_SUCCESS);
    MPI_Get_count(&status, MPI_CHAR, &count);
    CHECK(count == BYTES);
    check_in_file();
    pthread_join(thread, NULL);
}

/* 9.3: the error of an operation is reported when it is waited for, to the error handler of its file. */
static int reported;
static MPI_File reported_of;

static void on_error(MPI_File *file, int *code, ...) {
    reported = class_of(*code);
    reported_of = *file;
}

static void check_errors(MPI_File file) {
    MPI_Request requests[2];
    MPI_Status statuses[2];
    MPI_Errhandler handler;
    struct rlimit old, small;
    char text[MPI_MAX_ERROR_STRING];
    int length, code;
    getrlimit(RLIMIT_FSIZE, &old);
    small = old;
    small.rlim_cur = (rlim_t)size * BYTES;
    setrlimit(RLIMIT_FSIZE, &small);
    MPI_Offset beyond = (MPI_Offset)size * BYTES;
    CHECK(MPI_File_iwrite_at(file, beyond, out, 1, MPI_CHAR, &requests[0]) == MPI_SUCCESS);
    code = MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
    CHECK(class_of(code) == MPI_ERR_QUOTA && requests[0] == MPI_REQUEST_NULL);
    MPI_Error_string(code, text, &length);
    CHECK(strstr(text, name) != NULL);
    MPI_File_create_errhandler(on_error, &handler);
    MPI_File_set_errhandler(file, handler);
    CHECK(MPI_File_iwrite_at(file, beyond, out, 1, MPI_CHAR, &requests[0]) == MPI_SUCCESS);
    CHECK(MPI_File_iread_at(file, (MPI_Offset)rank * BYTES, in, 1, MPI_CHAR, &requests[1]) == MPI_SUCCESS);
    FAILS(MPI_Waitall(2, requests, statuses), MPI_ERR_IN_STATUS);
    CHECK(reported == MPI_ERR_IN_STATUS && reported_of == file);
    CHECK(class_of(statuses[0].MPI_ERROR) == MPI_ERR_QUOTA && statuses[1].MPI_ERROR == MPI_SUCCESS);
    /* Wrong arguments are reported by the call itself. */
    FAILS(MPI_File_iwrite_at(file, -1, out, 1, MPI_CHAR, &requests[0]), MPI_ERR_ARG);
    CHECK(reported == MPI_ERR_ARG && reported_of == file);
    MPI_File_set_errhandler(file, MPI_ERRORS_RETURN);
    MPI_Errhandler_free(&handler);
    setrlimit(RLIMIT_FSIZE, &old);
    MPI_Barrier(MPI_COMM_WORLD);
}

/* 14.2.2: the program should wait first; the file is closed when the access has ended, and no byte is lost. */
static void check_close(MPI_File *file) {
    MPI_Request request;
    MPI_Status status;
    int count;
    fill('d');
    lock(F_WRLCK);
    CHECK(MPI_File_iwrite_at(*file, (MPI_Offset)rank * BYTES, out, BYTES, MPI_CHAR, &request) == MPI_SUCCESS);
    pthread_t thread = start_unlocking();
    CHECK(MPI_File_close(file) == MPI_SUCCESS);
    check_in_file();
    CHECK(MPI_Wait(&request, &status) == MPI_SUCCESS);
    MPI_Get_count(&status, MPI_CHAR, &count);
    CHECK(count == BYTES);
    pthread_join(thread, NULL);
}

int main(int argc, char **argv) {
    MPI_File file;
    MPI_Request request;
    int number = getpid();
    begin(&argc, &argv);
    MPI_Bcast(&number, 1, MPI_INT, 0, MPI_COMM_WORLD);
    const char *folder = getenv("TMPDIR");
    snprintf(name, sizeof name, "%s/c_files-%d", folder ? folder : "/tmp", number);
    CHECK(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDWR | MPI_MODE_CREATE, MPI_INFO_NULL, &file) == MPI_SUCCESS);
    other = open(name, O_RDWR);
    CHECK(other >= 0);
    CHECK(MPI_File_set_atomicity(file, 1) == MPI_SUCCESS);
    check_requests(file);
    check_split(file);
    check_errors(file);
    check_close(&file);
    CHECK(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL, &file) == MPI_SUCCESS);
    /* 11.2: what was started ends before MPI does. */
    fill('e');
    CHECK(MPI_File_set_atomicity(file, 1) == MPI_SUCCESS);
    lock(F_WRLCK);
    CHECK(MPI_File_iwrite_at(file, (MPI_Offset)rank * BYTES, out, BYTES, MPI_CHAR, &request) == MPI_SUCCESS);
    unlink(name);
    pthread_t thread = start_unlocking();
    end();
    pthread_join(thread, NULL);
    memset(in, 0, BYTES);
    return pread(other, in, BYTES, (off_t)rank * BYTES) != BYTES || memcmp(in, out, BYTES) != 0;
}
