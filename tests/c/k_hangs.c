/* Programs that hang; the first argument names one of them. Each but `slow` is ended from outside. */
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int rank, size;

static void receive_from(int source, int tag) {
    int word;
    MPI_Recv(&word, 1, MPI_INT, source, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

/* Two tasks receive from each other; the other tasks of the job have ended. */
static void cycle(void) {
    if (rank < 2) receive_from(1 - rank, 7);
}

/* The same on a communicator whose ranks differ from the ranks of MPI_COMM_WORLD. */
static void reversed(void) {
    MPI_Comm turned;
    int word;
    MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &turned);
    MPI_Recv(&word, 1, MPI_INT, (size - 1 - rank + 1) % size, 3, turned, MPI_STATUS_IGNORE);
}

/* A long message to a task that sends a long message itself. */
static void sends(void) {
    enum { LEN = 1 << 22 };
    char *bytes = calloc(LEN, 1);
    MPI_Send(bytes, LEN, MPI_CHAR, 1 - rank, 5, MPI_COMM_WORLD);
    free(bytes);
}

/* One task does not reach the barrier. */
static void barrier(void) {
    if (rank == 1) {
        volatile unsigned long steps = 0;
        nice(19); /* so that it takes no processor time from other tests */
        for (;;) steps++;
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

/* One task receives instead, while the messages of the barrier wait there. */
static void not_barrier(void) {
    if (rank == 0) receive_from(1, 16);
    MPI_Barrier(MPI_COMM_WORLD);
}

/* A receive from a task that has left the job. */
static void ended(void) {
    if (rank == 0) receive_from(1, 9);
}

/* Nobody connects to a port. */
static void port(void) {
    char text[MPI_MAX_PORT_NAME];
    MPI_Comm inter;
    if (rank > 0) return;
    MPI_Open_port(MPI_INFO_NULL, text);
    MPI_Comm_accept(text, MPI_INFO_NULL, 0, MPI_COMM_SELF, &inter);
}

/* A message has arrived, but the task waits for another message. */
static void wrong_tag(void) {
    int word = 4;
    if (rank == 1) MPI_Send(&word, 1, MPI_INT, 0, 11, MPI_COMM_WORLD);
    receive_from(1 - rank, 12);
}

/* Waits for this number of seconds, and then goes on. */
static unsigned slow_seconds;
static void slow(void) {
    int word = 4;
    if (rank == 1) {
        sleep(slow_seconds);
        MPI_Send(&word, 1, MPI_INT, 0, 2, MPI_COMM_WORLD);
    } else if (rank == 0) {
        receive_from(1, 2);
    }
}

/* One task has a window's lock and waits for a message of the task that waits for the lock. */
static void lock(void) {
    MPI_Win window;
    int *memory;
    MPI_Win_allocate(sizeof *memory, sizeof *memory, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &window);
    if (rank == 1) MPI_Recv(NULL, 0, MPI_INT, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, window);
    if (rank == 0) MPI_Send(NULL, 0, MPI_INT, 1, 1, MPI_COMM_WORLD);
    if (rank == 0) receive_from(1, 6);
    MPI_Win_unlock(0, window);
    MPI_Win_free(&window);
}

static pthread_mutex_t work_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t work_came = PTHREAD_COND_INITIALIZER;

static void *wait_for_work(void *unused) {
    pthread_mutex_lock(&work_lock);
    for (;;) pthread_cond_wait(&work_came, &work_lock);
    return unused;
}

/* As programs in Python receive: at MPI_THREAD_MULTIPLE, by matched probes; a thread of a pool has nothing to do. */
static void probes(void) {
    pthread_t idle;
    MPI_Message message;
    int word;
    pthread_create(&idle, NULL, wait_for_work, NULL);
    MPI_Mprobe(1 - rank, 5, MPI_COMM_WORLD, &message, MPI_STATUS_IGNORE);
    MPI_Mrecv(&word, 1, MPI_INT, &message, MPI_STATUS_IGNORE);
}

/* The same; but a thread sleeps, and may then send. */
static void *sleeps(void *unused) {
    for (;;) sleep(1);
    return unused;
}

static void beside(void *(*thread)(void *)) {
    pthread_t other;
    pthread_create(&other, NULL, thread, NULL);
    MPI_Probe(1 - rank, 6, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void sleeper(void) { beside(sleeps); }

/* The same; but a thread computes. */
static void *computes(void *unused) {
    volatile unsigned long steps = 0;
    nice(19); /* so that it takes no processor time from other tests */
    for (;;) steps++;
    return unused;
}

static void computer(void) { beside(computes); }

/* The same; but a thread looks for messages. */
static void *polls(void *unused) {
    int is_there;
    for (;;) {
        MPI_Iprobe(MPI_ANY_SOURCE, 77, MPI_COMM_WORLD, &is_there, MPI_STATUS_IGNORE);
        usleep(100000);
    }
    return unused;
}

static void poller(void) { beside(polls); }

/* Two threads of each task wait for messages that nobody sends. */
static void *receives(void *unused) {
    receive_from(1 - rank, 14);
    return unused;
}

static void two_threads(void) {
    pthread_t other;
    pthread_create(&other, NULL, receives, NULL);
    receive_from(1 - rank, 13);
}

/* The thread that was to do the work has ended early, as the one of mpi4py's MPIPoolExecutor does when it can't start tasks; its task waits
   for it for ever, and another task for this task. */
static void lost_work(void) {
    char *none[] = {NULL}, said[MPI_MAX_ERROR_STRING];
    MPI_Comm workers;
    int code, length;
    if (rank == 1) receive_from(0, 15);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    code = MPI_Comm_spawn("worker", none, 1, MPI_INFO_NULL, 0, MPI_COMM_SELF, &workers, MPI_ERRCODES_IGNORE);
    MPI_Error_string(code, said, &length);
    fprintf(stderr, "%s\n", said);
    wait_for_work(NULL);
}

/* Task 0 is in the call that the second argument names, which waits since the others do not take part in it. */
static const char *call_name;

#define CALLS(X)                                                                                             \
    X(MPI_Send, (in, LONG, MPI_INT, 1, 17, comm))                                                            \
    X(MPI_Ssend, (in, 1, MPI_INT, 1, 17, comm))                                                              \
    X(MPI_Recv, (in, 1, MPI_INT, 1, 17, comm, MPI_STATUS_IGNORE))                                            \
    X(MPI_Sendrecv, (in, 1, MPI_INT, 1, 17, out, 1, MPI_INT, 1, 17, comm, MPI_STATUS_IGNORE))                \
    X(MPI_Sendrecv_replace, (in, 1, MPI_INT, 1, 17, 1, 17, comm, MPI_STATUS_IGNORE))                         \
    X(MPI_Probe, (1, 17, comm, MPI_STATUS_IGNORE))                                                           \
    X(MPI_Mprobe, (1, 17, comm, &message, MPI_STATUS_IGNORE))                                                \
    X(MPI_Wait, (&request, MPI_STATUS_IGNORE))                                                               \
    X(MPI_Waitall, (1, &request, MPI_STATUSES_IGNORE))                                                       \
    X(MPI_Waitany, (1, &request, &index, MPI_STATUS_IGNORE))                                                 \
    X(MPI_Waitsome, (1, &request, &index, &index, MPI_STATUSES_IGNORE))                                      \
    X(MPI_Barrier, (comm))                                                                                   \
    X(MPI_Bcast, (in, 1, MPI_INT, 1, comm))                                                                  \
    X(MPI_Reduce, (in, out, 1, MPI_INT, MPI_SUM, 0, comm))                                                   \
    X(MPI_Allreduce, (in, out, 1, MPI_INT, MPI_SUM, comm))                                                   \
    X(MPI_Gather, (in, 1, MPI_INT, out, 1, MPI_INT, 0, comm))                                                \
    X(MPI_Scatter, (in, 1, MPI_INT, out, 1, MPI_INT, 1, comm))                                               \
    X(MPI_Allgather, (in, 1, MPI_INT, out, 1, MPI_INT, comm))                                                \
    X(MPI_Alltoall, (in, 1, MPI_INT, out, 1, MPI_INT, comm))                                                 \
    X(MPI_Reduce_scatter_block, (in, out, 1, MPI_INT, MPI_SUM, comm))                                        \
    X(MPI_Comm_split, (comm, 0, 0, &made))                                                                   \
    X(MPI_Win_create, (in, sizeof in, 1, MPI_INFO_NULL, comm, &made_window))                                 \
    X(MPI_Win_fence, (0, window))                                                                            \
    X(MPI_Win_free, (&window))                                                                               \
    X(MPI_Finalize, ())

static void call(void) {
    enum { LONG = 1 << 20 };
    static int in[LONG], out[LONG];
    MPI_Comm comm = MPI_COMM_WORLD, made;
    MPI_Win window, made_window;
    MPI_Message message;
    MPI_Request request;
    int index;
    MPI_Win_create(in, sizeof in, 1, MPI_INFO_NULL, comm, &window);
    MPI_Irecv(out, 1, MPI_INT, 1, 18, comm, &request);
    if (rank > 0) pause();
#define CALL(name, arguments)                                                                                \
    if (strcmp(call_name, #name) == 0) {                                                                     \
        name arguments;                                                                                      \
        return;                                                                                              \
    }
    CALLS(CALL)
}

/* Prints the names of the calls. */
static void names(void) {
#define NAME(name, arguments) puts(#name);
    if (rank == 0) { CALLS(NAME) }
}

int main(int argc, char **argv) {
    const struct { const char *name; void (*run)(void); } shapes[] = {
        {"cycle", cycle}, {"reversed", reversed}, {"sends", sends}, {"barrier", barrier},
        {"ended", ended}, {"wrong_tag", wrong_tag}, {"slow", slow}, {"lock", lock},
        {"probes", probes}, {"sleeper", sleeper}, {"computer", computer},
        {"poller", poller}, {"two_threads", two_threads}, {"lost_work", lost_work}, {"not_barrier", not_barrier},
        {"call", call}, {"names", names}, {"port", port},
    };
    if (argc > 2) slow_seconds = (unsigned)atoi(argv[2]);
    if (argc > 2) call_name = argv[2];
    const char *with_threads[] = {"probes", "sleeper", "computer", "poller", "two_threads"};
    int level = MPI_THREAD_SINGLE;
    for (size_t at = 0; at < sizeof with_threads / sizeof *with_threads; at++)
        if (argc > 1 && strcmp(argv[1], with_threads[at]) == 0) level = MPI_THREAD_MULTIPLE;
    MPI_Init_thread(&argc, &argv, level, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (size_t at = 0; at < sizeof shapes / sizeof *shapes; at++)
        if (argc > 1 && strcmp(argv[1], shapes[at].name) == 0) shapes[at].run();
    MPI_Finalize();
    return 0;
}
