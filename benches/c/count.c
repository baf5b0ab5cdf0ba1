/* One path of MPI, call by call, for the program `instruction_count`: count PATH BYTES MESSAGES TURNS
 * Rank 1 is counted, inside of the functions named counted_*; rank 0 is its peer. The two take turns through two pipes, TURNS.0
 * and TURNS.1 (each rank waits on its own), so that a message is in the ring before the call that takes it, and that call polls once.
 * The first messages are not counted: they connect the two. */
#include <mpi.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define COUNTED __attribute__((noinline, noclone))
enum { WINDOW = 64, UNCOUNTED = 256, BYTES_MAX = 1 << 20 };

static int rank, bytes, own_turn, peer_turn;
static char data[BYTES_MAX];
static MPI_Request requests[WINDOW];

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
    if (read(own_turn, &x, 1) != 1) stop("cannot read from the own pipe");
}

static int open_turn(const char *turns, int of)
{
    char name[4096];
    snprintf(name, sizeof name, "%s.%d", turns, of);
    int pipe = open(name, O_RDWR); /* for both, so that nobody waits in open */
    if (pipe < 0) stop("cannot open a pipe");
    return pipe;
}

static inline __attribute__((always_inline)) void send_one(int to)
{
    MPI_Send(data, bytes, MPI_BYTE, to, 7, MPI_COMM_WORLD);
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

/* With an answer a window, as programs have it: while the sender waits for it, uncounted, its credits come home. */
static void isend(int counted)
{
    if (rank == 1) {
        if (counted) counted_send_window(); else send_window(0);
        MPI_Recv(NULL, 0, MPI_BYTE, 0, 8, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else {
        post_window(1);
        wait_for_window();
        MPI_Send(NULL, 0, MPI_BYTE, 1, 8, MPI_COMM_WORLD);
    }
}

static void irecv(int counted)
{
    if (rank == 1) {
        if (counted) counted_post_window(); else post_window(0);
        peer_may_go();
        wait_for_turn();
        if (counted) counted_wait_for_window(); else wait_for_window();
    } else {
        wait_for_turn();
        send_window(1);
        peer_may_go();
    }
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (argc != 5) stop("usage: count PATH BYTES MESSAGES TURNS");
    const char *path = argv[1];
    bytes = atoi(argv[2]);
    if (bytes < 0 || bytes > BYTES_MAX) stop("BYTES is 0 to 1048576");
    own_turn = open_turn(argv[4], rank);
    peer_turn = open_turn(argv[4], 1 - rank);
    memset(data, 1, sizeof data);

    void (*step)(int) = !strcmp(path, "send") ? send : !strcmp(path, "receive") ? receive : !strcmp(path, "isend") ? isend : irecv;
    int each = step == isend || step == irecv ? WINDOW : 1;
    for (int i = 0; i < UNCOUNTED; i += each) step(0);
    for (int i = 0; i < atoi(argv[3]); i += each) step(1);
    MPI_Finalize();
    return 0;
}
