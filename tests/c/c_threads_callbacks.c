/* MPI_THREAD_MULTIPLE: no lock is held while a function of the program runs. Each callback here waits until a second thread of its task
   has made calls of MPI, and makes one itself. If the library kept its lock during a callback, the callback would never return; a
   watchdog names it. */
#include "check.h"
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <unistd.h>

enum { SECONDS_MAX = 200 };

static const char *volatile current = "";
static atomic_int asked, answered, is_over;

static void took_too_long(int number) {
    (void)number;
    static const char what[] = ": a callback holds another thread up\n";
    if (write(2, current, strlen(current)) >= 0 && write(2, what, sizeof what - 1) >= 0) _exit(3);
    _exit(4);
}

static void talk(int tag) {
    int out = 5, in = 0;
    MPI_Sendrecv(&out, 1, MPI_INT, 0, tag, &in, 1, MPI_INT, 0, tag, MPI_COMM_SELF, MPI_STATUS_IGNORE);
    CHECK(in == 5);
}

static void *answer(void *unused) {
    while (!is_over) {
        if (answered == asked) continue;
        talk(1);
        answered++;
    }
    return unused;
}

/* The action of each callback. */
static void ask(void) {
    int number = ++asked;
    while (answered < number) continue;
    talk(2);
}

/* Whether a callback has run since the last call of this function. */
static int has_asked(void) {
    static int before;
    int now = asked, has = now > before;
    before = now;
    return has;
}

/* Whether the operation has run, if it must run in this task: with three tasks, one of them combines nothing. */
static int has_combined(void) { return has_asked() == (size > 1) || size == 3; }

static void sum(void *in, void *inout, int *len, MPI_Datatype *type) {
    (void)type;
    ask();
    for (int i = 0; i < *len; i++) ((int *)inout)[i] += ((int *)in)[i];
}

static int copy_comm(MPI_Comm comm, int key, void *state, void *value, void *out, int *flag) {
    (void)comm, (void)key, (void)state;
    ask();
    *(void **)out = value;
    *flag = 1;
    return MPI_SUCCESS;
}

static int delete_comm(MPI_Comm comm, int key, void *value, void *state) {
    (void)comm, (void)key, (void)value, (void)state;
    ask();
    return MPI_SUCCESS;
}

static int delete_win(MPI_Win win, int key, void *value, void *state) {
    (void)win, (void)key, (void)value, (void)state;
    ask();
    return MPI_SUCCESS;
}

static int delete_type(MPI_Datatype type, int key, void *value, void *state) {
    (void)type, (void)key, (void)value, (void)state;
    ask();
    return MPI_SUCCESS;
}

static void on_error(MPI_Comm *comm, int *code, ...) {
    (void)comm, (void)code;
    ask();
}

static int query(void *state, MPI_Status *status) {
    (void)state;
    ask();
    MPI_Status_set_elements(status, MPI_INT, 0);
    MPI_Status_set_cancelled(status, 0);
    return MPI_SUCCESS;
}

static int release(void *state) {
    (void)state;
    ask();
    return MPI_SUCCESS;
}

static int cancel(void *state, int complete) {
    (void)state, (void)complete;
    ask();
    return MPI_SUCCESS;
}

#define STEP(name)                                                                                \
    current = name;                                                                               \
    alarm(SECONDS_MAX)

int main(int argc, char **argv) {
    int level;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
    CHECK(level == MPI_THREAD_MULTIPLE);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    signal(SIGALRM, took_too_long);
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, answer, NULL) == 0);

    int own[2] = {1, 2}, all[2], flag = 0;
    MPI_Request request;
    MPI_Op op;
    MPI_Op_create(sum, 1, &op);
    STEP("MPI_Reduce_local");
    all[0] = 3, all[1] = 4;
    MPI_Reduce_local(own, all, 2, MPI_INT, op);
    CHECK(has_asked() && all[0] == 4 && all[1] == 6);
    STEP("MPI_Allreduce");
    MPI_Allreduce(own, all, 2, MPI_INT, op, MPI_COMM_WORLD);
    CHECK(has_combined() && all[0] == size && all[1] == 2 * size);
    STEP("MPI_Iallreduce and MPI_Wait");
    MPI_Iallreduce(own, all, 2, MPI_INT, op, MPI_COMM_WORLD, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    CHECK(has_combined() && all[0] == size && all[1] == 2 * size);
    STEP("MPI_Iallreduce and MPI_Test");
    MPI_Iallreduce(own, all, 2, MPI_INT, op, MPI_COMM_WORLD, &request);
    while (!flag) MPI_Test(&request, &flag, MPI_STATUS_IGNORE);
    CHECK(has_combined() && all[0] == size && all[1] == 2 * size);
    STEP("MPI_Iscan and MPI_Waitall beside another one");
    MPI_Request both[2];
    int beside;
    MPI_Iscan(own, all, 2, MPI_INT, op, MPI_COMM_WORLD, &both[0]);
    MPI_Iallreduce(own, &beside, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &both[1]);
    MPI_Waitall(2, both, MPI_STATUSES_IGNORE);
    has_asked();
    CHECK(all[1] == 2 * (rank + 1) && beside == size);
    MPI_Op_free(&op);

    int key, value;
    MPI_Comm dup;
    STEP("a copy and a delete function of a communicator");
    MPI_Comm_create_keyval(copy_comm, delete_comm, &key, NULL);
    MPI_Comm_set_attr(MPI_COMM_WORLD, key, &value);
    MPI_Comm_dup(MPI_COMM_WORLD, &dup);
    CHECK(has_asked());
    MPI_Comm_free(&dup);
    CHECK(has_asked());
    MPI_Comm_delete_attr(MPI_COMM_WORLD, key);
    CHECK(has_asked());
    MPI_Comm_free_keyval(&key);
    STEP("a delete function of a window");
    MPI_Win win;
    MPI_Win_create_keyval(MPI_WIN_NULL_COPY_FN, delete_win, &key, NULL);
    MPI_Win_create(own, sizeof own, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    MPI_Win_set_attr(win, key, &value);
    MPI_Win_free(&win);
    CHECK(has_asked());
    MPI_Win_free_keyval(&key);
    STEP("a delete function of a datatype");
    MPI_Datatype type;
    MPI_Type_create_keyval(MPI_TYPE_NULL_COPY_FN, delete_type, &key, NULL);
    MPI_Type_contiguous(2, MPI_INT, &type);
    MPI_Type_set_attr(type, key, &value);
    MPI_Type_free(&type);
    CHECK(has_asked());
    MPI_Type_free_keyval(&key);

    STEP("an error handler");
    MPI_Errhandler handler;
    MPI_Comm_create_errhandler(on_error, &handler);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler);
    CHECK(MPI_Send(own, 1, MPI_INT, size, 0, MPI_COMM_WORLD) != MPI_SUCCESS);
    CHECK(has_asked());
    MPI_Comm_call_errhandler(MPI_COMM_WORLD, MPI_ERR_OTHER);
    CHECK(has_asked());
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
    MPI_Errhandler_free(&handler);

    STEP("the functions of a generalized request");
    MPI_Grequest_start(query, release, cancel, NULL, &request);
    MPI_Cancel(&request);
    CHECK(has_asked());
    MPI_Grequest_complete(request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    CHECK(has_asked());

    is_over = 1;
    pthread_join(thread, NULL);
    alarm(SECONDS_MAX);
    if (rank == 0) printf("all good\n");
    MPI_Finalize();
    return 0;
}
