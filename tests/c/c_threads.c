/* Threads that make communicators at the same time, each from a communicator of its own, in tasks of odd ranks in the reverse order; a
   thread that waits while another thread works, and while none does; and variables of the tool interface, read in callbacks. */
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define THREADS 3
#define ROUNDS 20

static int rank, size;
static MPI_Comm comms[THREADS];
static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int next;

#define CHECK(condition)                                                                          \
    do {                                                                                          \
        if (!(condition)) {                                                                       \
            printf("line %d, rank %d: %s is false\n", __LINE__, rank, #condition);                \
            fflush(stdout);                                                                       \
            exit(3);                                                                              \
        }                                                                                         \
    } while (0)

/* Threads begin in ascending order in tasks with an even rank, and in descending order in tasks with an odd rank. Each thread then waits
   for all tasks while the next thread begins. */
static void begin(int number) {
    int place = rank % 2 ? THREADS - 1 - number : number;
    pthread_mutex_lock(&turn);
    while (next % THREADS != place) pthread_cond_wait(&changed, &turn);
    next++;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&turn);
}

static void *make(void *argument) {
    int number = *(int *)argument, one = 1, sum;
    MPI_Comm comm = comms[number], dup, part, grid, inter, merged;
    MPI_Group group;
    for (int round = 0; round < ROUNDS; round++) {
        begin(number);
        CHECK(MPI_Comm_split(comm, 0, rank, &part) == MPI_SUCCESS);
        CHECK(MPI_Comm_dup(part, &dup) == MPI_SUCCESS);
        MPI_Comm_free(&part);
        CHECK(MPI_Comm_split(dup, rank % 2, rank, &part) == MPI_SUCCESS);
        CHECK(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, part) == MPI_SUCCESS);
        CHECK(sum == (size + 1 - rank % 2) / 2);
        int period = 0;
        CHECK(MPI_Cart_create(dup, 1, &size, &period, 0, &grid) == MPI_SUCCESS);
        MPI_Comm_free(&grid);
        MPI_Comm_group(dup, &group);
        CHECK(MPI_Comm_create(dup, group, &grid) == MPI_SUCCESS);
        MPI_Comm_free(&grid);
        CHECK(MPI_Comm_create_group(dup, group, number, &grid) == MPI_SUCCESS);
        MPI_Comm_free(&grid);
        MPI_Group_free(&group);
        if (size > 1) {
            CHECK(MPI_Intercomm_create(part, 0, dup, 1 - rank % 2, 3, &inter) == MPI_SUCCESS);
            CHECK(MPI_Intercomm_merge(inter, rank % 2, &merged) == MPI_SUCCESS);
            MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, merged);
            CHECK(sum == size);
            MPI_Comm_free(&merged);
            MPI_Comm_free(&inter);
        }
        MPI_Comm_free(&part);
        MPI_Comm_free(&dup);
    }
    return NULL;
}

static void nap(long milliseconds) {
    struct timespec time = {milliseconds / 1000, milliseconds % 1000 * 1000000};
    nanosleep(&time, NULL);
}

static double processor_seconds(void) {
    struct timespec time;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* Sends to its own task from time to time. */
static void *feed(void *argument) {
    (void)argument;
    for (int i = 0; i < 20; i++) {
        nap(i);
        CHECK(MPI_Send(&i, 1, MPI_INT, rank, 1, comms[0]) == MPI_SUCCESS);
    }
    return NULL;
}

/* A waiting thread sleeps, and lets another thread of its task send the message for which it waits. */
static void rests(void) {
    pthread_t thread;
    int got = -1;
    CHECK(pthread_create(&thread, NULL, feed, NULL) == 0);
    for (int i = 0; i < 20; i++) {
        CHECK(MPI_Recv(&got, 1, MPI_INT, rank, 1, comms[0], MPI_STATUS_IGNORE) == MPI_SUCCESS);
        CHECK(got == i);
    }
    pthread_join(thread, NULL);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        nap(1000);
        for (int to = 1; to < size; to++) MPI_Send(&got, 1, MPI_INT, to, 2, MPI_COMM_WORLD);
        return;
    }
    double before = processor_seconds();
    MPI_Recv(&got, 1, MPI_INT, 0, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    CHECK(processor_seconds() - before < 0.3);
}

/* Threads read a variable of the tool interface at the same time, in callbacks and outside. */
static MPI_T_pvar_session session;
static MPI_T_pvar_handle handle;
static volatile int heard, is_over;

static void read_variable(void) {
    MPI_Count value = -1;
    CHECK(MPI_T_pvar_read(session, handle, &value) == MPI_SUCCESS && value >= 0);
}

static void hear(MPI_Comm *comm, int *code, ...) {
    (void)comm, (void)code, heard++;
    read_variable();
}

static int copy(MPI_Comm comm, int keyval, void *extra, void *in, void *out, int *flag) {
    (void)comm, (void)keyval, (void)extra, *(void **)out = in, *flag = 1;
    read_variable();
    return MPI_SUCCESS;
}

static void *read_on(void *argument) {
    (void)argument;
    while (!is_over) read_variable();
    return NULL;
}

/* Callbacks read the variable while another thread reads it all the time. */
static void tools(void) {
    MPI_Comm comm, dup;
    MPI_Errhandler handler;
    pthread_t thread;
    int provided, index, count, keyval;
    CHECK(MPI_T_init_thread(MPI_THREAD_MULTIPLE, &provided) == MPI_SUCCESS);
    CHECK(MPI_T_pvar_get_index("retries", MPI_T_PVAR_CLASS_COUNTER, &index) == MPI_SUCCESS);
    CHECK(MPI_T_pvar_session_create(&session) == MPI_SUCCESS);
    CHECK(MPI_T_pvar_handle_alloc(session, index, NULL, &handle, &count) == MPI_SUCCESS && count == 1);
    CHECK(MPI_T_pvar_start(session, handle) == MPI_SUCCESS);
    MPI_Comm_dup(MPI_COMM_SELF, &comm);
    MPI_Comm_create_errhandler(hear, &handler);
    MPI_Comm_set_errhandler(comm, handler);
    MPI_Comm_create_keyval(copy, MPI_COMM_NULL_DELETE_FN, &keyval, NULL);
    MPI_Comm_set_attr(comm, keyval, NULL);
    CHECK(pthread_create(&thread, NULL, read_on, NULL) == 0);
    for (int i = 0; i < 2000; i++) {
        MPI_Send(NULL, -1, MPI_INT, 0, 0, comm);
        MPI_Comm_dup(comm, &dup);
        MPI_Comm_free(&dup);
    }
    is_over = 1;
    pthread_join(thread, NULL);
    CHECK(heard == 2000);
    MPI_Comm_free_keyval(&keyval);
    MPI_Errhandler_free(&handler);
    MPI_Comm_free(&comm);
    MPI_T_pvar_session_free(&session);
    MPI_T_finalize();
}

int main(int argc, char **argv) {
    int provided, numbers[THREADS];
    pthread_t threads[THREADS];
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    CHECK(provided == MPI_THREAD_MULTIPLE);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int i = 0; i < THREADS; i++) MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]);
    for (int i = 0; i < THREADS; i++) {
        numbers[i] = i;
        CHECK(pthread_create(&threads[i], NULL, make, &numbers[i]) == 0);
    }
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    rests();
    tools();
    for (int i = 0; i < THREADS; i++) MPI_Comm_free(&comms[i]);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) printf("all good\n");
    MPI_Finalize();
    return 0;
}
