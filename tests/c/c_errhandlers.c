/* Error handlers of communicators, windows, sessions and files; sessions; longjmp out of an error handler. */
#include <mpi.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int rank = -1, size;

#define CHECK(condition)                                                                          \
    do {                                                                                          \
        if (!(condition)) {                                                                       \
            printf("line %d, rank %d: %s is false\n", __LINE__, rank, #condition);                \
            fflush(stdout);                                                                       \
            exit(3);                                                                              \
        }                                                                                         \
    } while (0)

static int class_of(int code) {
    int class;
    MPI_Error_class(code, &class);
    return class;
}

static int calls, last_code;
static MPI_Comm last_comm;
static MPI_Win last_win;
static MPI_Session last_session;

static void on_comm(MPI_Comm *comm, int *code, ...) {
    calls++, last_comm = *comm, last_code = *code;
}

static void on_win(MPI_Win *win, int *code, ...) {
    calls++, last_win = *win, last_code = *code;
}

static void on_session(MPI_Session *session, int *code, ...) {
    calls++, last_session = *session, last_code = *code;
}

static void on_file(MPI_File *file, int *code, ...) {
    (void)file, (void)code;
    calls++;
}

static void sessions(void) {
    MPI_Session session, freed;
    MPI_Errhandler handler, got;
    MPI_Group group;
    MPI_Comm comm;
    MPI_Info info;
    char name[MPI_MAX_PSET_NAME_LEN];
    int sets, len, flag;
    MPI_Session_create_errhandler(on_session, &handler);
    CHECK(MPI_Session_init(MPI_INFO_NULL, handler, &session) == MPI_SUCCESS);
    calls = 0;
    CHECK(class_of(MPI_Group_from_session_pset(session, "no such set", &group)) == MPI_ERR_ARG);
    CHECK(calls == 1 && last_session == session && class_of(last_code) == MPI_ERR_ARG);
    MPI_Session_get_num_psets(session, MPI_INFO_NULL, &sets);
    CHECK(sets >= 2);
    for (int i = 0; i < sets; i++) {
        len = 0;
        MPI_Session_get_nth_pset(session, MPI_INFO_NULL, i, &len, NULL);
        CHECK(len > 1);
        MPI_Session_get_nth_pset(session, MPI_INFO_NULL, i, &len, name);
        CHECK((int)strlen(name) == len - 1);
        MPI_Session_get_pset_info(session, name, &info);
        MPI_Info_get(info, "mpi_size", 10, name, &flag);
        CHECK(flag);
        MPI_Info_free(&info);
    }
    MPI_Session_get_errhandler(session, &got);
    CHECK(got == handler);
    MPI_Errhandler_free(&got);
    MPI_Errhandler_free(&handler);
    calls = 0;
    MPI_Session_call_errhandler(session, MPI_ERR_OTHER);
    CHECK(calls == 1);
    CHECK(MPI_Group_from_session_pset(session, "mpi://WORLD", &group) == MPI_SUCCESS);
    CHECK(MPI_Comm_create_from_group(group, "sessions", MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm) == MPI_SUCCESS);
    int one = 1, sum, all;
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm);
    MPI_Group_size(group, &all);
    CHECK(sum == all);
    MPI_Comm_free(&comm);
    MPI_Group_free(&group);
    MPI_Session_get_info(session, &info);
    MPI_Info_get(info, "thread_level", MPI_MAX_PSET_NAME_LEN - 1, name, &flag);
    CHECK(flag && strncmp(name, "MPI_THREAD_", 11) == 0);
    MPI_Info_free(&info);
    freed = session;
    MPI_Session_finalize(&session);
    CHECK(session == MPI_SESSION_NULL && freed != session);
}

static void communicators(void) {
    MPI_Errhandler handler, got, freed, win_handler;
    MPI_Comm comm, dup;
    int value;
    char text[MPI_MAX_ERROR_STRING];
    MPI_Comm_get_errhandler(MPI_COMM_WORLD, &got);
    CHECK(got == MPI_ERRORS_ARE_FATAL);
    CHECK(MPI_Errhandler_free(&got) == MPI_SUCCESS && got == MPI_ERRHANDLER_NULL);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_create_errhandler(on_comm, &handler);
    MPI_Win_create_errhandler(on_win, &win_handler);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    CHECK(class_of(MPI_Comm_set_errhandler(comm, win_handler)) == MPI_ERR_ERRHANDLER);
    CHECK(class_of(MPI_Comm_set_errhandler(comm, MPI_ERRHANDLER_NULL)) == MPI_ERR_ERRHANDLER);
    CHECK(class_of(MPI_Comm_create_errhandler(NULL, &got)) == MPI_ERR_ARG);
    CHECK(MPI_Comm_set_errhandler(comm, handler) == MPI_SUCCESS);
    freed = handler;
    MPI_Errhandler_free(&handler);
    CHECK(handler == MPI_ERRHANDLER_NULL);
    CHECK(class_of(MPI_Comm_set_errhandler(MPI_COMM_SELF, freed)) == MPI_ERR_ERRHANDLER);
    CHECK(class_of(MPI_Errhandler_free(&freed)) == MPI_ERR_ERRHANDLER);
    calls = 0;
    CHECK(class_of(MPI_Comm_remote_size(comm, &value)) == MPI_ERR_COMM);
    CHECK(calls == 1 && last_comm == comm && class_of(last_code) == MPI_ERR_COMM);
    MPI_Error_string(last_code, text, &value);
    CHECK(strstr(text, "MPI_Comm_remote_size") && value == (int)strlen(text));
    /* Duplicates have the same handler, and keep it after the first communicator was freed. */
    MPI_Comm_dup(comm, &dup);
    MPI_Comm_free(&comm);
    calls = 0;
    CHECK(class_of(MPI_Send(&value, 1, MPI_INT, size, 0, dup)) == MPI_ERR_RANK);
    CHECK(calls == 1 && last_comm == dup);
    MPI_Comm_call_errhandler(dup, MPI_ERR_TAG);
    CHECK(calls == 2 && last_code == MPI_ERR_TAG);
    /* A handle that an inquiry returns must also be freed. */
    MPI_Comm_get_errhandler(dup, &got);
    CHECK(MPI_Comm_set_errhandler(MPI_COMM_SELF, got) == MPI_SUCCESS);
    MPI_Errhandler_free(&got);
    CHECK(class_of(MPI_Group_size(MPI_GROUP_NULL, &value)) == MPI_ERR_GROUP);
    CHECK(calls == 3 && last_comm == MPI_COMM_SELF);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    /* A call that fails calls the error handler of its object. */
    CHECK(class_of(MPI_Comm_spawn("nobody", MPI_ARGV_NULL, 1, MPI_INFO_NULL, 0, dup, &comm, MPI_ERRCODES_IGNORE)) ==
          MPI_ERR_SPAWN);
    CHECK(calls == 4 && last_comm == dup);
    MPI_Comm_free(&dup);
    MPI_Errhandler_free(&win_handler);
}

static int win_deletes;
static MPI_Win expected;

static int win_delete(MPI_Win win, int keyval, void *value, void *extra) {
    char name[MPI_MAX_OBJECT_NAME];
    int len;
    (void)keyval, (void)value, (void)extra;
    CHECK(win == expected && MPI_Win_get_name(win, name, &len) == MPI_SUCCESS);
    win_deletes++;
    return MPI_SUCCESS;
}

static void windows(void) {
    MPI_Errhandler handler;
    MPI_Win win;
    int memory[4] = {0}, key, flag;
    void *value;
    MPI_Win_create(memory, sizeof memory, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    MPI_Win_create_errhandler(on_win, &handler);
    MPI_Win_set_errhandler(win, handler);
    MPI_Errhandler_free(&handler);
    calls = 0;
    CHECK(class_of(MPI_Put(memory, 1, MPI_INT, size, 0, 1, MPI_INT, win)) == MPI_ERR_RANK ||
          class_of(last_code) == MPI_ERR_RMA_SYNC);
    CHECK(calls == 1 && last_win == win);
    MPI_Win_create_keyval(MPI_WIN_NULL_COPY_FN, win_delete, &key, NULL);
    MPI_Win_set_attr(win, key, memory);
    MPI_Win_get_attr(win, key, &value, &flag);
    CHECK(flag && value == memory);
    CHECK(class_of(MPI_Comm_set_attr(MPI_COMM_SELF, key, NULL)) == MPI_ERR_KEYVAL);
    MPI_Win_free_keyval(&key);
    /* A window with an open epoch cannot be freed. */
    MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, win);
    CHECK(class_of(MPI_Win_free(&win)) == MPI_ERR_RMA_SYNC && win_deletes == 0 && calls == 2);
    MPI_Win_unlock(rank, win);
    expected = win;
    CHECK(MPI_Win_free(&win) == MPI_SUCCESS && win == MPI_WIN_NULL && win_deletes == 1);
    CHECK(class_of(MPI_Win_free(&win)) == MPI_ERR_WIN);
}

static void files(void) {
    MPI_Errhandler handler, got;
    MPI_File_get_errhandler(MPI_FILE_NULL, &got);
    CHECK(got == MPI_ERRORS_RETURN);
    MPI_File_create_errhandler(on_file, &handler);
    CHECK(MPI_File_set_errhandler(MPI_FILE_NULL, handler) == MPI_SUCCESS);
    calls = 0;
    MPI_File_call_errhandler(MPI_FILE_NULL, MPI_ERR_IO);
    CHECK(calls == 1);
    MPI_File_set_errhandler(MPI_FILE_NULL, MPI_ERRORS_RETURN);
    MPI_Errhandler_free(&handler);
}

static jmp_buf back;

static void leave(MPI_Comm *comm, int *code, ...) {
    (void)comm, (void)code;
    longjmp(back, 1);
}

/* A jump out of an error handler leaves nothing behind that later calls meet. */
static void jumps(void) {
    enum { ROUNDS = 100 };
    static int jumped;
    const int next = (rank + 1) % size, last = (rank + size - 1) % size;
    MPI_Errhandler handler;
    MPI_Comm comm;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_create_errhandler(leave, &handler);
    MPI_Comm_set_errhandler(comm, handler);
    for (volatile int round = 0; round < ROUNDS; round++) {
        int two[2] = {0}, sum = 0;
        MPI_Request request;
        if (setjmp(back)) {
            jumped++;
        } else if (round % 3 == 0) {
            MPI_Send(&rank, 1, MPI_INT, size, 0, comm);
        } else if (round % 3 == 1) {
            MPI_Bcast(two, -1, MPI_INT, 0, comm);
        } else {
            /* The message is longer than the receive. */
            MPI_Irecv(two, 1, MPI_INT, last, 9, comm, &request);
            MPI_Send(two, 2, MPI_INT, next, 9, comm);
            MPI_Wait(&request, MPI_STATUS_IGNORE);
        }
        MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, comm);
        CHECK(sum == size * (size - 1) / 2);
    }
    CHECK(jumped == ROUNDS);
    MPI_Errhandler_free(&handler);
    MPI_Comm_free(&comm);
}

int main(int argc, char **argv) {
    sessions();
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    sessions();
    communicators();
    windows();
    files();
    jumps();
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) printf("all good\n");
    MPI_Finalize();
    return 0;
}
