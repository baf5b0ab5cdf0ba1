/* Runs one path of MPI, call by call, for the program `instruction_count`: count PATH BYTES MESSAGES TURNS
 * The instructions of rank 1 inside the functions named counted_* are counted; rank 0 is its peer. The two ranks alternate through two
 * pipes, TURNS.0 and TURNS.1 (each rank waits on its own), so that a message is in the ring before the call that receives it starts, and
 * that call polls once. The first messages are not counted: they connect the two ranks.
 * The paths posted_*:DEPTH and early_*:DEPTH measure a message while DEPTH posted receives, or DEPTH early messages, match nothing. These
 * receives and messages are completed only after the counting.
 * The paths put, get and so on are calls on a window whose memory both ranks have mapped, each with a flush; the peer does nothing.
 * A path with the name of a collective is this collective; rank 1 is the root of reduce and gather, and rank 0 the root of bcast. In a
 * job of three ranks, ranks 0 and 2 write to rank 1's pipe. */
#include <mpi.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define COUNTED __attribute__((noinline, noclone))
enum { WINDOW = 64, UNCOUNTED = 256, BYTES_MAX = 1 << 20, DEPTH_MAX = 10000, BEHIND_TAG = 1000 };

static int rank, size, bytes, own_turn, peer_turn, processes[3];
/* At the start of a cache line, so that the counts of copies do not depend on where the linker puts it. */
static _Alignas(64) char data[BYTES_MAX];
static MPI_Request requests[WINDOW], behind[DEPTH_MAX];
static int depth, source;

static void stop(const char *what)
{
    fprintf(stderr, "count: %s\n", what);
    MPI_Abort(MPI_COMM_WORLD, 2);
}

static void peer_may_go(void)
{
    if (write(peer_turn, "x", 1) != 1) stop("cannot write to the pipe of the peer");
}

static void wait_for_turn(void)
{
    char x;
    if (read(own_turn, &x, 1) != 1) stop("cannot read from this rank's pipe");
}

static int open_turn(const char *turns, int of)
{
    char name[4096];
    snprintf(name, sizeof name, "%s.%d", turns, of);
    int pipe = open(name, O_RDWR); /* for both directions, so that neither rank waits in open */
    if (pipe < 0) stop("cannot open a pipe");
    return pipe;
}

static inline __attribute__((always_inline)) void send_one(int to)
{
    MPI_Send(data, bytes, MPI_BYTE, to, 7, MPI_COMM_WORLD);
}

static inline __attribute__((always_inline)) void start_synchronous(MPI_Request *request, int to)
{
    MPI_Issend(data, bytes, MPI_BYTE, to, 7, MPI_COMM_WORLD, request);
}

static inline __attribute__((always_inline)) void receive_one(int from)
{
    MPI_Recv(data, bytes, MPI_BYTE, from, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static inline __attribute__((always_inline)) void send_window(int to)
{
    for (int i = 0; i < WINDOW; i++) MPI_Isend(data, bytes, MPI_BYTE, to, 7, MPI_COMM_WORLD, &requests[i]);
    MPI_Waitall(WINDOW, requests, MPI_STATUSES_IGNORE);
}

static inline __attribute__((always_inline)) void post_window(int from)
{
    for (int i = 0; i < WINDOW; i++) MPI_Irecv(data, bytes, MPI_BYTE, from, 7, MPI_COMM_WORLD, &requests[i]);
}

static inline __attribute__((always_inline)) void wait_for_window(void)
{
    MPI_Waitall(WINDOW, requests, MPI_STATUSES_IGNORE);
}

COUNTED static void counted_send(void) { send_one(0); }
COUNTED static void counted_receive(void) { receive_one(0); }
COUNTED static void counted_issend(MPI_Request *request) { start_synchronous(request, 0); }
COUNTED static void counted_wait(MPI_Request *request) { MPI_Wait(request, MPI_STATUS_IGNORE); }
COUNTED static void counted_send_window(void) { send_window(0); }
COUNTED static void counted_post_window(void) { post_window(0); }
COUNTED static void counted_wait_for_window(void) { wait_for_window(); }

static void send(int counted)
{
    if (rank == 1) {
        if (counted) counted_send(); else send_one(0);
        peer_may_go();
        wait_for_turn();
    } else {
        wait_for_turn();
        receive_one(1);
        peer_may_go();
    }
}

static void receive(int counted)
{
    if (rank == 1) {
        wait_for_turn();
        if (counted) counted_receive(); else receive_one(0);
        peer_may_go();
    } else {
        send_one(1);
        peer_may_go();
        wait_for_turn();
    }
}

/* Before each window the peer sends a message, which is not counted: with it the credits of the last window return. The peer takes a
 * window after all of it has been sent, so that the count does not depend on when the peer runs. */
static void isend(int counted)
{
    if (rank == 1) {
        MPI_Recv(NULL, 0, MPI_BYTE, 0, 8, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (counted) counted_send_window(); else send_window(0);
        peer_may_go();
    } else {
        MPI_Send(NULL, 0, MPI_BYTE, 1, 8, MPI_COMM_WORLD);
        wait_for_turn();
        post_window(1);
        wait_for_window();
    }
}

/* A send in synchronous mode. Its receive starts before the send's wait. The send and the wait are counted. */
static void issend(int counted)
{
    MPI_Request request;
    if (rank == 1) {
        if (counted) counted_issend(&request); else start_synchronous(&request, 0);
        peer_may_go();
        wait_for_turn();
        if (counted) counted_wait(&request); else MPI_Wait(&request, MPI_STATUS_IGNORE);
    } else {
        wait_for_turn();
        receive_one(1);
        peer_may_go();
    }
}

/* The receive that matches a send in synchronous mode. */
static void receive_synchronous(int counted)
{
    MPI_Request request;
    if (rank == 1) {
        wait_for_turn();
        if (counted) counted_receive(); else receive_one(0);
        peer_may_go();
    } else {
        start_synchronous(&request, 1);
        peer_may_go();
        wait_for_turn();
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
}

/* The answer returns the sender's credits, so that a whole window fits into the ring before the receiver polls. */
static void irecv(int counted)
{
    char word = 0;
    if (rank == 1) {
        MPI_Send(&word, 1, MPI_BYTE, 0, 9, MPI_COMM_WORLD);
        if (counted) counted_post_window(); else post_window(0);
        peer_may_go();
        wait_for_turn();
        if (counted) counted_wait_for_window(); else wait_for_window();
    } else {
        wait_for_turn();
        MPI_Recv(&word, 1, MPI_BYTE, 1, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        send_window(1);
        peer_may_go();
    }
}

/* A receive that is posted before its message arrives, from `source`. */
static inline __attribute__((always_inline)) void post(MPI_Request *request)
{
    MPI_Irecv(data, bytes, MPI_BYTE, source, 7, MPI_COMM_WORLD, request);
}

/* A probe for another message handles this message, which thereby becomes an early one. The probe and the receive are both counted. */
static inline __attribute__((always_inline)) void receive_early(void)
{
    int flag;
    MPI_Iprobe(0, 8, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
    MPI_Recv(data, bytes, MPI_BYTE, source, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

COUNTED static void counted_post(MPI_Request *request) { post(request); }
COUNTED static void counted_receive_early(void) { receive_early(); }

static void posted(int counted)
{
    MPI_Request request;
    if (rank == 1) {
        if (counted) counted_post(&request); else post(&request);
        peer_may_go();
        wait_for_turn();
        if (counted) counted_wait(&request); else MPI_Wait(&request, MPI_STATUS_IGNORE);
    } else {
        wait_for_turn();
        send_one(1);
        peer_may_go();
    }
}

static void early(int counted)
{
    if (rank == 1) {
        wait_for_turn();
        if (counted) counted_receive_early(); else receive_early();
        peer_may_go();
    } else {
        send_one(1);
        peer_may_go();
        wait_for_turn();
    }
}

/* Posts receives that no message matches yet, or sends messages that no receive matches yet. */
static void begin_behind(int is_early)
{
    for (int i = 0; i < depth; i++)
        if (rank == 1 && !is_early) MPI_Irecv(NULL, 0, MPI_BYTE, source, BEHIND_TAG + i, MPI_COMM_WORLD, &behind[i]);
        else if (rank == 0 && is_early) MPI_Send(NULL, 0, MPI_BYTE, 1, BEHIND_TAG + i, MPI_COMM_WORLD);
    MPI_Barrier(MPI_COMM_WORLD); /* in which rank 1 handles what has arrived */
}

static void end_behind(int is_early)
{
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < depth; i++)
        if (rank == 0 && !is_early) MPI_Send(NULL, 0, MPI_BYTE, 1, BEHIND_TAG + i, MPI_COMM_WORLD);
        else if (rank == 1 && is_early) MPI_Recv(NULL, 0, MPI_BYTE, 0, BEHIND_TAG + i, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (rank == 1 && !is_early) MPI_Waitall(depth, behind, MPI_STATUSES_IGNORE);
}

/* Calls on the window of rank 0, while rank 0 waits in a barrier. */
static MPI_Win window;
static MPI_Datatype strided;
static long words[BYTES_MAX / sizeof(long)];

static inline __attribute__((always_inline)) void put_one(void)
{
    MPI_Put(data, bytes, MPI_BYTE, 0, 0, bytes, MPI_BYTE, window);
    MPI_Win_flush(0, window);
}

static inline __attribute__((always_inline)) void get_one(void)
{
    MPI_Get(data, bytes, MPI_BYTE, 0, 0, bytes, MPI_BYTE, window);
    MPI_Win_flush(0, window);
}

static inline __attribute__((always_inline)) void put_strided_one(void)
{
    MPI_Put(words, bytes / sizeof(long), MPI_LONG, 0, 0, 1, strided, window);
    MPI_Win_flush(0, window);
}

static inline __attribute__((always_inline)) void get_strided_one(void)
{
    MPI_Get(words, bytes / sizeof(long), MPI_LONG, 0, 0, 1, strided, window);
    MPI_Win_flush(0, window);
}

static inline __attribute__((always_inline)) void fetch_and_op_one(void)
{
    long one = 1, before;
    MPI_Fetch_and_op(&one, &before, MPI_LONG, 0, 0, MPI_SUM, window);
    MPI_Win_flush(0, window);
}

static inline __attribute__((always_inline)) void compare_and_swap_one(void)
{
    long one = 1, before;
    MPI_Compare_and_swap(&one, &one, &before, MPI_LONG, 0, 0, window);
    MPI_Win_flush(0, window);
}

static inline __attribute__((always_inline)) void accumulate_one(void)
{
    MPI_Accumulate(words, bytes / sizeof(long), MPI_LONG, 0, 0, bytes / sizeof(long), MPI_LONG, MPI_SUM, window);
    MPI_Win_flush(0, window);
}

static inline __attribute__((always_inline)) void get_accumulate_one(void)
{
    int count = bytes / sizeof(long);
    MPI_Get_accumulate(words, count, MPI_LONG, data, count, MPI_LONG, 0, 0, count, MPI_LONG, MPI_SUM, window);
    MPI_Win_flush(0, window);
}

#define ON_WINDOW(call) \
    COUNTED static void counted_##call(void) { call##_one(); } \
    static void call(int counted) \
    { \
        if (rank == 1 && counted) counted_##call(); \
        else if (rank == 1) call##_one(); \
    }

ON_WINDOW(put)
ON_WINDOW(get)
ON_WINDOW(put_strided)
ON_WINDOW(get_strided)
ON_WINDOW(fetch_and_op)
ON_WINDOW(compare_and_swap)
ON_WINDOW(accumulate)
ON_WINDOW(get_accumulate)

static void begin_window(void)
{
    void *base;
    MPI_Win_allocate(2 * BYTES_MAX, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &window);
    MPI_Type_vector(bytes / sizeof(long), 1, 2, MPI_LONG, &strided);
    MPI_Type_commit(&strided);
    MPI_Win_lock_all(0, window);
}

static void end_window(void)
{
    MPI_Win_unlock_all(window);
    MPI_Win_free(&window);
    MPI_Type_free(&strided);
}

typedef void Step(int counted);

static const struct {
    const char *name;
    Step *step;
} window_steps[] = {
    { "put", put }, { "get", get }, { "put_strided", put_strided }, { "get_strided", get_strided },
    { "fetch_and_op", fetch_and_op }, { "compare_and_swap", compare_and_swap }, { "accumulate", accumulate }, { "get_accumulate", get_accumulate },
};

/* Whether a process sleeps: the letter after its name. */
static int is_asleep(int of)
{
    char name[64], line[512];
    snprintf(name, sizeof name, "/proc/%d/stat", of);
    FILE *file = fopen(name, "r");
    if (!file || !fgets(line, sizeof line, file)) stop("cannot read the state of another rank");
    fclose(file);
    const char *behind = strrchr(line, ')');
    return behind && behind[2] == 'S';
}

/* Both other ranks have told that they enter the call: one has, and the other does now. */
static void wait_for_two_sleepers(void)
{
    wait_for_turn();
    while (!is_asleep(processes[0]) || !is_asleep(processes[2])) usleep(50);
}

/* A collective of `bytes` bytes, of two or three ranks. The others enter first, and have done all that they can do before rank 1 enters: of
 * two ranks, rank 1 gives the other one 200 microseconds; of three, it waits until both sleep. */
#define COLLECTIVE(name, ...) \
    COUNTED static void counted_##name(void) { __VA_ARGS__; } \
    static void name(int counted) \
    { \
        if (rank != 1) { \
            peer_may_go(); \
            __VA_ARGS__; \
            return; \
        } \
        wait_for_turn(); \
        if (size == 3) wait_for_two_sleepers(); \
        else usleep(200); \
        if (counted) counted_##name(); \
        else { __VA_ARGS__; } \
    }

static long out[3][BYTES_MAX / sizeof(long)], into[3 * BYTES_MAX / sizeof(long)];
#define LONGS (bytes / (int)sizeof(long))

COLLECTIVE(bcast, MPI_Bcast(out, LONGS, MPI_LONG, 0, MPI_COMM_WORLD))
COLLECTIVE(reduce, MPI_Reduce(out, into, LONGS, MPI_LONG, MPI_SUM, 1, MPI_COMM_WORLD))
COLLECTIVE(gather, MPI_Gather(out, LONGS, MPI_LONG, into, LONGS, MPI_LONG, 1, MPI_COMM_WORLD))
COLLECTIVE(barrier, MPI_Barrier(MPI_COMM_WORLD))
COLLECTIVE(allreduce, MPI_Allreduce(out, into, LONGS, MPI_LONG, MPI_SUM, MPI_COMM_WORLD))
COLLECTIVE(alltoall, MPI_Alltoall(out, LONGS, MPI_LONG, into, LONGS, MPI_LONG, MPI_COMM_WORLD))

static const struct {
    const char *name;
    Step *step;
} collective_steps[] = {
    { "bcast", bcast }, { "reduce", reduce }, { "gather", gather },
    { "barrier", barrier }, { "allreduce", allreduce }, { "alltoall", alltoall },
};

static Step *step_on_window(const char *path)
{
    for (size_t i = 0; i < sizeof window_steps / sizeof *window_steps; i++)
        if (!strcmp(path, window_steps[i].name)) return window_steps[i].step;
    return NULL;
}

static Step *step_of(char *path)
{
    char *at = strchr(path, ':');
    if (at) {
        *at = 0;
        depth = atoi(at + 1);
    }
    for (size_t i = 0; i < sizeof collective_steps / sizeof *collective_steps; i++)
        if (!strcmp(path, collective_steps[i].name)) return collective_steps[i].step;
    if (depth < 0 || depth > DEPTH_MAX) stop("DEPTH is 0 to 10000");
    source = strstr(path, "_any") ? MPI_ANY_SOURCE : 0;
    if (!strcmp(path, "send")) return send;
    if (!strcmp(path, "receive")) return receive;
    if (!strcmp(path, "isend")) return isend;
    if (!strcmp(path, "issend")) return issend;
    if (!strcmp(path, "receive_synchronous")) return receive_synchronous;
    if (!strcmp(path, "irecv")) return irecv;
    return strstr(path, "early") ? early : posted;
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (argc != 5) stop("usage: count PATH BYTES MESSAGES TURNS");
    bytes = atoi(argv[2]);
    if (bytes < 0 || bytes > BYTES_MAX) stop("BYTES is 0 to 1048576");
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (size > 3) stop("a job has at most three ranks");
    int process = getpid();
    MPI_Allgather(&process, 1, MPI_INT, processes, 1, MPI_INT, MPI_COMM_WORLD);
    own_turn = open_turn(argv[4], rank == 1);
    peer_turn = open_turn(argv[4], rank != 1);
    memset(data, 1, sizeof data);

    Step *on_window = step_on_window(argv[1]), *step = on_window ? on_window : step_of(argv[1]);
    if (on_window) begin_window();
    begin_behind(step == early);
    int each = step == isend || step == irecv ? WINDOW : 1;
    for (int i = 0; i < UNCOUNTED; i += each) step(0);
    for (int i = 0; i < atoi(argv[3]); i += each) step(1);
    end_behind(step == early);
    if (on_window) end_window();
    MPI_Finalize();
    return 0;
}
