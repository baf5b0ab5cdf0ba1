/* MPI_THREAD_MULTIPLE: a thread that waits inside MPI blocks no other thread of its task, in whichever call it waits.

   One thread of a task, the waiter, is in a call that cannot end before the other tasks make their call. They do so only after a second
   thread of the waiter's task has called MPI and told them: by a file, so that they make no progress in MPI before that, and by a
   message. If a call kept the lock of the library while it waits, it would never end; a watchdog names it. */
#include "check.h"
#include <pthread.h>
#include <signal.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { MANY = 50000, TASKS_MAX = 8, LONG_BYTES = 1 << 20, SECONDS_MAX = 200 };

/* The phases of a test: before the call in all tasks; then before the waiter's call in the other tasks; the call; and after it in all
   tasks. */
enum phase { BEFORE, FIRST, CALL, AFTER };

static MPI_Comm comm, side;
static int waiter, peer, n;
static int in[MANY * TASKS_MAX], out[MANY * TASKS_MAX];
static int counts[TASKS_MAX], starts[TASKS_MAX], byte_starts[TASKS_MAX];
static MPI_Datatype types[TASKS_MAX];
static const char *volatile current = "";
static volatile int entered;
static char folder[64];

#define OK(call) succeeds(call, #call, __LINE__)
#define IS_WAITER (rank == waiter)
#define IS_PEER (rank == peer)

static void succeeds(int code, const char *call, int line) {
    if (code == MPI_SUCCESS) return;
    printf("line %d, rank %d: %s returns %d\n", line, rank, call, code);
    fflush(stdout);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static void nap(long milliseconds) {
    struct timespec time = {milliseconds / 1000, milliseconds % 1000 * 1000000};
    nanosleep(&time, NULL);
}

static void took_too_long(int number) {
    (void)number;
    static const char what[] = " has not come back: it holds another thread up\n";
    if (write(2, current, strlen(current)) >= 0 && write(2, what, sizeof what - 1) >= 0) _exit(3);
    _exit(4);
}

/* Outside of MPI, a file tells the others that they may go on. */
static void signal_name(int number, char *name, size_t bytes) { snprintf(name, bytes, "%s/%d", folder, number); }

static void tell(int number) {
    char name[128];
    signal_name(number, name, sizeof name);
    FILE *file = fopen(name, "w");
    CHECK(file != NULL);
    fclose(file);
}

static void wait_until_told(int number) {
    char name[128];
    signal_name(number, name, sizeof name);
    while (access(name, F_OK) != 0) nap(1);
}

/* ---- calls that are the same in all tasks ---- */

#define ALL(name, ...)                                                                             \
    static void name(enum phase phase) {                                                           \
        if (phase == CALL) {                                                                       \
            __VA_ARGS__;                                                                           \
        }                                                                                          \
    }

ALL(barrier, OK(MPI_Barrier(comm)))
ALL(bcast, OK(MPI_Bcast(in, n, MPI_INT, peer, comm)))
ALL(gather, OK(MPI_Gather(out, n, MPI_INT, in, n, MPI_INT, waiter, comm)))
ALL(gatherv, OK(MPI_Gatherv(out, n, MPI_INT, in, counts, starts, MPI_INT, waiter, comm)))
ALL(scatter, OK(MPI_Scatter(out, n, MPI_INT, in, n, MPI_INT, peer, comm)))
ALL(scatterv, OK(MPI_Scatterv(out, counts, starts, MPI_INT, in, n, MPI_INT, peer, comm)))
ALL(allgather, OK(MPI_Allgather(out, n, MPI_INT, in, n, MPI_INT, comm)))
ALL(allgatherv, OK(MPI_Allgatherv(out, n, MPI_INT, in, counts, starts, MPI_INT, comm)))
ALL(alltoall, OK(MPI_Alltoall(out, n, MPI_INT, in, n, MPI_INT, comm)))
ALL(alltoallv, OK(MPI_Alltoallv(out, counts, starts, MPI_INT, in, counts, starts, MPI_INT, comm)))
ALL(alltoallw, OK(MPI_Alltoallw(out, counts, byte_starts, types, in, counts, byte_starts, types, comm)))
ALL(reduce, OK(MPI_Reduce(out, in, n, MPI_INT, MPI_SUM, waiter, comm)))
ALL(allreduce, OK(MPI_Allreduce(out, in, n, MPI_INT, MPI_SUM, comm)))
ALL(reduce_scatter, OK(MPI_Reduce_scatter(out, in, counts, MPI_INT, MPI_SUM, comm)))
ALL(reduce_scatter_block, OK(MPI_Reduce_scatter_block(out, in, n, MPI_INT, MPI_SUM, comm)))
ALL(scan, OK(MPI_Scan(out, in, n, MPI_INT, MPI_SUM, comm)))
ALL(exscan, OK(MPI_Exscan(out, in, n, MPI_INT, MPI_SUM, comm)))

/* A ring, on which each task has two neighbours. */
static MPI_Comm ring;
static int two_starts[2], two_counts[2];
static MPI_Aint two_displacements[2];
static MPI_Datatype two_types[2] = {MPI_INT, MPI_INT};

#define NEIGHBOURS(name, ...)                                                                      \
    static void name(enum phase phase) {                                                           \
        int yes = 1;                                                                               \
        if (phase == BEFORE) OK(MPI_Cart_create(comm, 1, &size, &yes, 0, &ring));                  \
        if (phase == CALL) OK(__VA_ARGS__);                                                        \
        if (phase == AFTER) MPI_Comm_free(&ring);                                                  \
    }

NEIGHBOURS(neighbor_allgather, MPI_Neighbor_allgather(out, n, MPI_INT, in, n, MPI_INT, ring))
NEIGHBOURS(neighbor_allgatherv, MPI_Neighbor_allgatherv(out, n, MPI_INT, in, two_counts, two_starts, MPI_INT, ring))
NEIGHBOURS(neighbor_alltoall, MPI_Neighbor_alltoall(out, n, MPI_INT, in, n, MPI_INT, ring))
NEIGHBOURS(neighbor_alltoallv,
           MPI_Neighbor_alltoallv(out, two_counts, two_starts, MPI_INT, in, two_counts, two_starts, MPI_INT, ring))
NEIGHBOURS(neighbor_alltoallw, MPI_Neighbor_alltoallw(out, two_counts, two_displacements, two_types, in, two_counts,
                                                      two_displacements, two_types, ring))

/* ---- new communicators ---- */

static MPI_Comm made;
static MPI_Group everybody;

#define MAKES(name, ...)                                                                           \
    static void name(enum phase phase) {                                                           \
        int yes = 1;                                                                               \
        (void)yes;                                                                                 \
        if (phase == BEFORE) OK(MPI_Comm_group(comm, &everybody));                                 \
        if (phase == CALL) {                                                                       \
            OK(__VA_ARGS__);                                                                       \
        }                                                                                          \
        if (phase == AFTER && made != MPI_COMM_NULL) MPI_Comm_free(&made);                         \
        if (phase == AFTER) MPI_Group_free(&everybody);                                            \
    }

static int others[TASKS_MAX];

MAKES(comm_dup, MPI_Comm_dup(comm, &made))
MAKES(comm_dup_with_info, MPI_Comm_dup_with_info(comm, MPI_INFO_NULL, &made))
MAKES(comm_split, MPI_Comm_split(comm, 0, rank, &made))
MAKES(comm_split_type, MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &made))
MAKES(comm_create, MPI_Comm_create(comm, everybody, &made))
MAKES(comm_create_group, MPI_Comm_create_group(comm, everybody, 3, &made))
MAKES(comm_create_from_group, MPI_Comm_create_from_group(everybody, "wait", MPI_INFO_NULL, MPI_ERRORS_RETURN, &made))
MAKES(cart_create, MPI_Cart_create(comm, 1, &size, &yes, 0, &made))
MAKES(graph_create, MPI_Graph_create(comm, 1, counts, &waiter, 0, &made))
MAKES(dist_graph_create, MPI_Dist_graph_create(comm, 1, &rank, &yes, &peer, &yes, MPI_INFO_NULL, 0, &made))
MAKES(dist_graph_create_adjacent, MPI_Dist_graph_create_adjacent(comm, size, others, counts, size, others, counts,
                                                                 MPI_INFO_NULL, 0, &made))
MAKES(cart_sub, MPI_Cart_sub(ring, &yes, &made))

static void cart_sub_of_ring(enum phase phase) {
    int yes = 1;
    if (phase == BEFORE) OK(MPI_Cart_create(comm, 1, &size, &yes, 0, &ring));
    cart_sub(phase);
    if (phase == AFTER) MPI_Comm_free(&ring);
}

static void comm_idup(enum phase phase) {
    MPI_Request request;
    if (phase == CALL) OK(MPI_Comm_idup(comm, &made, &request)), OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    if (phase == AFTER) MPI_Comm_free(&made);
}

static void comm_disconnect(enum phase phase) {
    if (phase == BEFORE) OK(MPI_Comm_dup(comm, &made));
    if (phase == CALL) OK(MPI_Comm_disconnect(&made));
}

/* The waiter is alone on one side, and the others are on the other side. */
static MPI_Comm local, inter;

static void begin_inter(void) { OK(MPI_Comm_split(comm, IS_WAITER, rank, &local)); }

static void make_inter(void) { OK(MPI_Intercomm_create(local, 0, comm, IS_WAITER ? peer : waiter, 5, &inter)); }

static void intercomm_create(enum phase phase) {
    if (phase == BEFORE) begin_inter();
    if (phase == CALL) make_inter();
    if (phase == AFTER) MPI_Comm_free(&inter), MPI_Comm_free(&local);
}

static void intercomm_create_from_groups(enum phase phase) {
    if (phase == CALL) {
        MPI_Group all, mine, theirs;
        MPI_Comm_group(comm, &all);
        MPI_Group_incl(all, 1, &waiter, &mine);
        MPI_Group_excl(all, 1, &waiter, &theirs);
        OK(MPI_Intercomm_create_from_groups(IS_WAITER ? mine : theirs, 0, IS_WAITER ? theirs : mine, 0, "sides",
                                            MPI_INFO_NULL, MPI_ERRORS_RETURN, &inter));
        MPI_Group_free(&all), MPI_Group_free(&mine), MPI_Group_free(&theirs);
    }
    if (phase == AFTER) MPI_Comm_free(&inter);
}

#define INTER(name, ...)                                                                           \
    static void name(enum phase phase) {                                                           \
        if (phase == BEFORE) begin_inter(), make_inter();                                          \
        if (phase == CALL) OK(__VA_ARGS__);                                                        \
        if (phase == AFTER) MPI_Comm_free(&inter), MPI_Comm_free(&local);                          \
    }

INTER(inter_barrier, MPI_Barrier(inter))
INTER(inter_allreduce, MPI_Allreduce(out, in, n, MPI_INT, MPI_SUM, inter))
INTER(inter_bcast, MPI_Bcast(in, n, MPI_INT, IS_WAITER ? 0 : IS_PEER ? MPI_ROOT : MPI_PROC_NULL, inter))
INTER(inter_dup, MPI_Comm_dup(inter, &made) || MPI_Comm_free(&made))
INTER(intercomm_merge, MPI_Intercomm_merge(inter, IS_WAITER, &made) || MPI_Comm_free(&made))

/* ---- messages ---- */

#define PAIR(name, of_waiter, of_peer)                                                             \
    static void name(enum phase phase) {                                                           \
        if (phase == CALL && IS_WAITER) {                                                          \
            of_waiter;                                                                             \
        }                                                                                          \
        if (phase == CALL && IS_PEER) {                                                            \
            of_peer;                                                                               \
        }                                                                                          \
    }

static MPI_Status status;
static MPI_Request request, requests[3];
static MPI_Message message;
static int at, many;

#define GETS OK(MPI_Recv(in, MANY, MPI_INT, waiter, 7, comm, MPI_STATUS_IGNORE))
#define GIVES OK(MPI_Send(out, n, MPI_INT, waiter, 7, comm))
#define WAIT OK(MPI_Wait(&request, MPI_STATUS_IGNORE))
#define LISTENS OK(MPI_Irecv(in, MANY, MPI_INT, peer, 7, comm, &request))

PAIR(send_long, OK(MPI_Send(out, MANY, MPI_INT, peer, 7, comm)), GETS)
PAIR(ssend, OK(MPI_Ssend(out, n, MPI_INT, peer, 7, comm)), GETS)
PAIR(recv, OK(MPI_Recv(in, MANY, MPI_INT, peer, 7, comm, MPI_STATUS_IGNORE)), GIVES)
PAIR(recv_any, OK(MPI_Recv(in, MANY, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, comm, MPI_STATUS_IGNORE)), GIVES)
PAIR(sendrecv, OK(MPI_Sendrecv(out, n, MPI_INT, peer, 7, in, MANY, MPI_INT, peer, 7, comm, MPI_STATUS_IGNORE)),
     GETS;
     GIVES)
PAIR(sendrecv_replace, OK(MPI_Sendrecv_replace(in, n, MPI_INT, peer, 7, peer, 7, comm, MPI_STATUS_IGNORE)), GETS; GIVES)
PAIR(probe, OK(MPI_Probe(peer, 7, comm, &status)); OK(MPI_Recv(in, MANY, MPI_INT, peer, 7, comm, MPI_STATUS_IGNORE)), GIVES)
PAIR(mprobe, OK(MPI_Mprobe(peer, 7, comm, &message, &status));
     OK(MPI_Mrecv(in, MANY, MPI_INT, &message, MPI_STATUS_IGNORE)), GIVES)
PAIR(wait_recv, LISTENS; WAIT, GIVES)
PAIR(wait_send, OK(MPI_Isend(out, MANY, MPI_INT, peer, 7, comm, &request)); WAIT, GETS)
PAIR(wait_issend, OK(MPI_Issend(out, n, MPI_INT, peer, 7, comm, &request)); WAIT, GETS)
PAIR(wait_sendrecv, OK(MPI_Isendrecv(out, n, MPI_INT, peer, 7, in, MANY, MPI_INT, peer, 7, comm, &request)); WAIT, GETS; GIVES)
PAIR(wait_sendrecv_replace, OK(MPI_Isendrecv_replace(in, n, MPI_INT, peer, 7, peer, 7, comm, &request)); WAIT, GETS; GIVES)
PAIR(waitall, LISTENS; requests[0] = requests[2] = MPI_REQUEST_NULL; requests[1] = request;
     OK(MPI_Waitall(3, requests, MPI_STATUSES_IGNORE)), GIVES)
PAIR(waitany, LISTENS; requests[0] = requests[2] = MPI_REQUEST_NULL; requests[1] = request;
     OK(MPI_Waitany(3, requests, &at, MPI_STATUS_IGNORE)), GIVES)
PAIR(waitsome, LISTENS; requests[0] = requests[2] = MPI_REQUEST_NULL; requests[1] = request;
     OK(MPI_Waitsome(3, requests, &many, counts + TASKS_MAX - 3, MPI_STATUSES_IGNORE)), GIVES)
PAIR(persistent, OK(MPI_Recv_init(in, MANY, MPI_INT, peer, 7, comm, &request)); OK(MPI_Start(&request)); WAIT;
     MPI_Request_free(&request), GIVES)
PAIR(persistent_send, OK(MPI_Ssend_init(out, n, MPI_INT, peer, 7, comm, &request)); OK(MPI_Startall(1, &request)); WAIT;
     MPI_Request_free(&request), GETS)
PAIR(partitioned_send, OK(MPI_Psend_init(out, 2, n, MPI_INT, peer, 7, comm, MPI_INFO_NULL, &request));
     OK(MPI_Start(&request)); OK(MPI_Pready_range(0, 1, request)); WAIT; MPI_Request_free(&request),
     OK(MPI_Precv_init(in, 1, 2 * n, MPI_INT, waiter, 7, comm, MPI_INFO_NULL, &request));
     OK(MPI_Start(&request)); WAIT; MPI_Request_free(&request))
PAIR(partitioned_recv, OK(MPI_Precv_init(in, 2, n, MPI_INT, peer, 7, comm, MPI_INFO_NULL, &request));
     OK(MPI_Start(&request)); for (int here = 0; !here; ) OK(MPI_Parrived(request, 1, &here)); WAIT;
     MPI_Request_free(&request),
     OK(MPI_Psend_init(out, 1, 2 * n, MPI_INT, waiter, 7, comm, MPI_INFO_NULL, &request));
     OK(MPI_Start(&request)); OK(MPI_Pready(0, request)); WAIT; MPI_Request_free(&request))

/* A long message has been announced; its bytes may not have arrived. */
static void mrecv_announced(enum phase phase) {
    if (phase == FIRST && IS_PEER) OK(MPI_Isend(out, MANY, MPI_INT, waiter, 7, comm, &request));
    if (phase == CALL && IS_WAITER) {
        OK(MPI_Mprobe(peer, 7, comm, &message, &status));
        OK(MPI_Mrecv(in, MANY, MPI_INT, &message, MPI_STATUS_IGNORE));
    }
    if (phase == CALL && IS_PEER) WAIT;
}

/* More short messages than can be sent before the receiver's next call. */
static void flood(enum phase phase) {
    if (phase != CALL) return;
    for (int i = 0; i < 20000 && IS_WAITER; i++) OK(MPI_Send(&i, 1, MPI_INT, peer, 7, comm));
    for (int i = 0, got; i < 20000 && IS_PEER; i++) {
        OK(MPI_Recv(&got, 1, MPI_INT, waiter, 7, comm, MPI_STATUS_IGNORE));
        CHECK(got == i);
    }
}

#define STARTED(name, ...) ALL(name, OK(__VA_ARGS__); WAIT)

STARTED(ibarrier, MPI_Ibarrier(comm, &request))
STARTED(iallreduce, MPI_Iallreduce(out, in, n, MPI_INT, MPI_SUM, comm, &request))
STARTED(ialltoall, MPI_Ialltoall(out, n, MPI_INT, in, n, MPI_INT, comm, &request))
ALL(barrier_init, OK(MPI_Barrier_init(comm, MPI_INFO_NULL, &request)); OK(MPI_Start(&request)); WAIT;
    MPI_Request_free(&request))

/* The program's own request: the second thread completes it. */
static MPI_Request own;
static int fills(void *extra, MPI_Status *to) {
    (void)extra;
    MPI_Status_set_elements(to, MPI_BYTE, 0);
    return MPI_Status_set_cancelled(to, 0);
}
static int frees(void *extra) { return (void)extra, MPI_SUCCESS; }
static int cancels(void *extra, int complete) { return (void)extra, (void)complete, MPI_SUCCESS; }

static void grequest(enum phase phase) {
    if (phase == BEFORE) OK(MPI_Grequest_start(fills, frees, cancels, NULL, &own)), request = own;
    if (phase == CALL && IS_WAITER) WAIT;
    if (phase == CALL && !IS_WAITER) OK(MPI_Grequest_complete(own)), WAIT;
}

/* ---- buffered messages ---- */

static char lent[LONG_BYTES];

#define BUFFERED(name, attach, of_waiter, detach)                                                  \
    static void name(enum phase phase) {                                                           \
        void *back = NULL;                                                                         \
        int bytes;                                                                                 \
        (void)back, (void)bytes;                                                                   \
        if (phase == BEFORE && IS_WAITER) OK(attach);                                              \
        if (phase == CALL && IS_WAITER) {                                                          \
            OK(MPI_Bsend(out, MANY, MPI_INT, peer, 7, comm));                                      \
            of_waiter;                                                                             \
        }                                                                                          \
        if (phase == CALL && IS_PEER) GETS;                                                        \
        if (phase == AFTER && IS_WAITER) {                                                         \
            detach;                                                                                \
        }                                                                                          \
    }

BUFFERED(buffer_detach, MPI_Buffer_attach(lent, sizeof lent), OK(MPI_Buffer_detach(&back, &bytes)), )
BUFFERED(buffer_flush, MPI_Buffer_attach(lent, sizeof lent), OK(MPI_Buffer_flush()), OK(MPI_Buffer_detach(&back, &bytes)))
BUFFERED(buffer_iflush, MPI_Buffer_attach(lent, sizeof lent), OK(MPI_Buffer_iflush(&request)); WAIT,
         OK(MPI_Buffer_detach(&back, &bytes)))
BUFFERED(comm_detach_buffer, MPI_Comm_attach_buffer(comm, lent, sizeof lent),
         OK(MPI_Comm_detach_buffer(comm, &back, &bytes)), )
BUFFERED(comm_flush_buffer, MPI_Comm_attach_buffer(comm, lent, sizeof lent), OK(MPI_Comm_flush_buffer(comm)),
         OK(MPI_Comm_detach_buffer(comm, &back, &bytes)))
BUFFERED(comm_iflush_buffer, MPI_Comm_attach_buffer(comm, lent, sizeof lent),
         OK(MPI_Comm_iflush_buffer(comm, &request)); WAIT, OK(MPI_Comm_detach_buffer(comm, &back, &bytes)))
/* ---- windows ---- */

static MPI_Win win;
static int *base, memory[MANY * 2];
static MPI_Group mine, theirs;

static void window(enum phase phase) {
    if (phase == BEFORE) OK(MPI_Win_create(memory, sizeof memory, sizeof(int), MPI_INFO_NULL, comm, &win));
    if (phase == AFTER) OK(MPI_Win_free(&win));
}

#define MAKES_WINDOW(name, ...)                                                                    \
    static void name(enum phase phase) {                                                           \
        if (phase == CALL) OK(__VA_ARGS__);                                                        \
        if (phase == AFTER) OK(MPI_Win_free(&win));                                                \
    }

MAKES_WINDOW(win_create, MPI_Win_create(memory, sizeof memory, sizeof(int), MPI_INFO_NULL, comm, &win))
MAKES_WINDOW(win_allocate, MPI_Win_allocate(4000, 4, MPI_INFO_NULL, comm, &base, &win))
MAKES_WINDOW(win_allocate_shared, MPI_Win_allocate_shared(4000, 4, MPI_INFO_NULL, comm, &base, &win))
MAKES_WINDOW(win_create_dynamic, MPI_Win_create_dynamic(MPI_INFO_NULL, comm, &win))

#define FREES_WINDOW(name, ...)                                                                    \
    static void name(enum phase phase) {                                                           \
        if (phase == BEFORE) OK(__VA_ARGS__);                                                      \
        if (phase == CALL) OK(MPI_Win_free(&win));                                                 \
    }

FREES_WINDOW(win_free_created, MPI_Win_create(memory, sizeof memory, sizeof(int), MPI_INFO_NULL, comm, &win))
FREES_WINDOW(win_free_allocated, MPI_Win_allocate(4000, 4, MPI_INFO_NULL, comm, &base, &win))
FREES_WINDOW(win_free_shared, MPI_Win_allocate_shared(4000, 4, MPI_INFO_NULL, comm, &base, &win))
FREES_WINDOW(win_free_dynamic, MPI_Win_create_dynamic(MPI_INFO_NULL, comm, &win))

static void win_fence(enum phase phase) {
    window(phase);
    if (phase == CALL) {
        OK(MPI_Win_fence(0, win));
        OK(MPI_Put(out, n, MPI_INT, peer, 0, n, MPI_INT, win));
        OK(MPI_Win_fence(0, win));
    }
}

static void groups(enum phase phase) {
    MPI_Group all;
    if (phase == BEFORE) {
        MPI_Comm_group(comm, &all);
        MPI_Group_incl(all, 1, &waiter, &mine), MPI_Group_incl(all, 1, &peer, &theirs);
        MPI_Group_free(&all);
    }
    if (phase == AFTER) MPI_Group_free(&mine), MPI_Group_free(&theirs);
}

/* The waiter is the origin: it starts its epoch before the peer posts. */
static void win_start(enum phase phase) {
    window(phase), groups(phase);
    if (phase == CALL && IS_WAITER) {
        OK(MPI_Win_start(theirs, 0, win));
        OK(MPI_Put(out, n, MPI_INT, peer, 0, n, MPI_INT, win));
        OK(MPI_Win_complete(win));
    }
    if (phase == CALL && IS_PEER) OK(MPI_Win_post(mine, 0, win)), OK(MPI_Win_wait(win));
}

/* MPI_Win_complete waits until the put is stored, which needs the peer. */
static void win_complete(enum phase phase) {
    window(phase), groups(phase);
    if (phase == FIRST && IS_PEER) OK(MPI_Win_post(mine, 0, win));
    if (phase == CALL && IS_WAITER) {
        OK(MPI_Win_start(theirs, 0, win));
        OK(MPI_Put(out, n, MPI_INT, peer, 0, n, MPI_INT, win));
        OK(MPI_Win_complete(win));
    }
    if (phase == CALL && IS_PEER) OK(MPI_Win_wait(win));
}

/* The waiter is the target. */
static void win_wait(enum phase phase) {
    window(phase), groups(phase);
    if (phase == CALL && IS_WAITER) OK(MPI_Win_post(theirs, 0, win)), OK(MPI_Win_wait(win));
    if (phase == CALL && IS_PEER) {
        OK(MPI_Win_start(mine, 0, win));
        OK(MPI_Put(out, n, MPI_INT, waiter, 0, n, MPI_INT, win));
        OK(MPI_Win_complete(win));
    }
}

/* The peer holds the lock that the waiter requests: that of the peer's or of the waiter's part of the window. */
static void contended(enum phase phase, int held, int wanted, int target) {
    window(phase);
    if (phase == FIRST && IS_PEER) OK(MPI_Win_lock(held, target, 0, win));
    if (phase == CALL && IS_PEER) OK(MPI_Win_unlock(target, win));
    if (phase == CALL && IS_WAITER && wanted != 0) OK(MPI_Win_lock(wanted, target, 0, win)), OK(MPI_Win_unlock(target, win));
    if (phase == CALL && IS_WAITER && wanted == 0) OK(MPI_Win_lock_all(0, win)), OK(MPI_Win_unlock_all(win));
}

static void win_lock(enum phase phase) { contended(phase, MPI_LOCK_EXCLUSIVE, MPI_LOCK_EXCLUSIVE, peer); }
static void win_lock_shared(enum phase phase) { contended(phase, MPI_LOCK_EXCLUSIVE, MPI_LOCK_SHARED, peer); }
static void win_lock_after_shared(enum phase phase) { contended(phase, MPI_LOCK_SHARED, MPI_LOCK_EXCLUSIVE, peer); }
static void win_lock_own(enum phase phase) { contended(phase, MPI_LOCK_EXCLUSIVE, MPI_LOCK_EXCLUSIVE, waiter); }
static void win_lock_all(enum phase phase) { contended(phase, MPI_LOCK_EXCLUSIVE, 0, peer); }
static void win_lock_all_own(enum phase phase) { contended(phase, MPI_LOCK_EXCLUSIVE, 0, waiter); }

/* Accesses while the target is outside of MPI: they wait if they need progress of the target. */
static long double element;

#define ACCESS(name, ...)                                                                          \
    static void name(enum phase phase) {                                                           \
        if (phase == AFTER && IS_WAITER) OK(MPI_Win_unlock(peer, win));                            \
        window(phase);                                                                             \
        if (phase == BEFORE && IS_WAITER) OK(MPI_Win_lock(MPI_LOCK_SHARED, peer, 0, win));         \
        if (phase == CALL && IS_WAITER) {                                                          \
            __VA_ARGS__;                                                                           \
        }                                                                                          \
    }

static int compared, found;

ACCESS(put_flush, OK(MPI_Put(out, n, MPI_INT, peer, 0, n, MPI_INT, win)); OK(MPI_Win_flush(peer, win)))
ACCESS(put_flush_all, OK(MPI_Put(out, n, MPI_INT, peer, 0, n, MPI_INT, win)); OK(MPI_Win_flush_all(win)))
ACCESS(put_flush_local, OK(MPI_Put(out, n, MPI_INT, peer, 0, n, MPI_INT, win)); OK(MPI_Win_flush_local(peer, win)))
ACCESS(put_flush_local_all, OK(MPI_Put(out, n, MPI_INT, peer, 0, n, MPI_INT, win)); OK(MPI_Win_flush_local_all(win)))
ACCESS(put_strided, MPI_Datatype every; MPI_Type_vector(n < 300 ? n : 300, 1, 2, MPI_INT, &every); MPI_Type_commit(&every);
       OK(MPI_Put(out, 1, every, peer, 0, 1, every, win)); OK(MPI_Win_flush(peer, win)); MPI_Type_free(&every))
ACCESS(get, OK(MPI_Get(in, n, MPI_INT, peer, 0, n, MPI_INT, win)))
ACCESS(get_strided, MPI_Datatype every; MPI_Type_vector(n < 300 ? n : 300, 1, 2, MPI_INT, &every); MPI_Type_commit(&every);
       OK(MPI_Get(in, 1, every, peer, 0, 1, every, win)); MPI_Type_free(&every))
ACCESS(rput, OK(MPI_Rput(out, n, MPI_INT, peer, 0, n, MPI_INT, win, &request)); WAIT)
ACCESS(rget, OK(MPI_Rget(in, n, MPI_INT, peer, 0, n, MPI_INT, win, &request)); WAIT)
ACCESS(accumulate, OK(MPI_Accumulate(out, n, MPI_INT, peer, 0, n, MPI_INT, MPI_SUM, win)))
ACCESS(raccumulate, OK(MPI_Raccumulate(out, n, MPI_INT, peer, 0, n, MPI_INT, MPI_SUM, win, &request)); WAIT)
ACCESS(get_accumulate, OK(MPI_Get_accumulate(out, 1, MPI_INT, in, 1, MPI_INT, peer, 0, 1, MPI_INT, MPI_PROD, win)))
ACCESS(rget_accumulate, OK(MPI_Rget_accumulate(out, 1, MPI_INT, in, 1, MPI_INT, peer, 0, 1, MPI_INT, MPI_SUM, win, &request));
       WAIT)
ACCESS(fetch_and_op, OK(MPI_Fetch_and_op(out, in, MPI_INT, peer, 0, MPI_SUM, win)))
ACCESS(compare_and_swap, OK(MPI_Compare_and_swap(out, &compared, &found, MPI_INT, peer, 0, win)))
ACCESS(accumulate_no_word, OK(MPI_Accumulate(&element, 1, MPI_LONG_DOUBLE, peer, 0, 1, MPI_LONG_DOUBLE, MPI_SUM, win)))

/* Memory that the peer has attached to a dynamic window: the waiter has to read the peer's list of pieces. */
static void get_dynamic(enum phase phase) {
    static MPI_Aint where;
    if (phase == BEFORE) {
        OK(MPI_Win_create_dynamic(MPI_INFO_NULL, comm, &win));
        OK(MPI_Win_attach(win, memory, sizeof memory));
        MPI_Get_address(memory, &where);
        OK(MPI_Bcast(&where, 1, MPI_AINT, peer, comm));
        if (IS_WAITER) OK(MPI_Win_lock(MPI_LOCK_SHARED, peer, 0, win));
    }
    if (phase == CALL && IS_WAITER) OK(MPI_Get(in, n, MPI_INT, peer, where, n, MPI_INT, win));
    if (phase == AFTER && IS_WAITER) OK(MPI_Win_unlock(peer, win));
    if (phase == AFTER) {
        OK(MPI_Win_detach(win, memory));
        OK(MPI_Win_free(&win));
    }
}

/* ---- the table ---- */

struct test {
    const char *name;
    void (*run)(enum phase phase);
    /* Whether the last rank is the waiter, because rank 0 does not have to wait in this call. */
    int waits_last;
};

#define T(name) {#name, name, 0}

static const struct test tests[] = {
    T(barrier), T(bcast), T(gather), T(gatherv), T(scatter), T(scatterv), T(allgather), T(allgatherv), T(alltoall),
    T(alltoallv), T(alltoallw), T(reduce), T(allreduce), T(reduce_scatter), T(reduce_scatter_block), {"scan", scan, 1},
    {"exscan", exscan, 1}, T(neighbor_allgather), T(neighbor_allgatherv), T(neighbor_alltoall), T(neighbor_alltoallv),
    T(neighbor_alltoallw), T(ibarrier), T(iallreduce), T(ialltoall), T(barrier_init), T(inter_barrier),
    T(inter_allreduce), T(inter_bcast), T(send_long), T(ssend), T(recv), T(recv_any), T(sendrecv), T(sendrecv_replace),
    T(probe), T(mprobe), T(mrecv_announced), T(wait_recv), T(wait_send), T(wait_issend), T(wait_sendrecv),
    T(wait_sendrecv_replace), T(waitall), T(waitany), T(waitsome), T(persistent), T(persistent_send),
    T(partitioned_send), T(partitioned_recv), T(flood), T(put_flush), T(put_flush_all), T(put_flush_local), T(put_flush_local_all),
    T(put_strided), T(get), T(get_strided), T(rput), T(rget), T(accumulate), T(raccumulate), T(win_fence), T(win_start),
    T(win_complete), T(win_wait), T(get_dynamic),
};

/* Calls for which the number of elements does not matter. */
static const struct test once[] = {
    T(comm_dup), T(comm_dup_with_info), T(comm_idup), T(comm_split), T(comm_split_type), T(comm_create),
    T(comm_create_group), T(comm_create_from_group), T(cart_create), {"cart_sub", cart_sub_of_ring, 0}, T(graph_create),
    T(dist_graph_create), T(dist_graph_create_adjacent), T(comm_disconnect), T(intercomm_create),
    T(intercomm_create_from_groups), T(intercomm_merge), T(inter_dup), T(grequest), T(buffer_detach), T(buffer_flush),
    T(buffer_iflush), T(comm_detach_buffer), T(comm_flush_buffer), T(comm_iflush_buffer),
    T(win_create), T(win_allocate), T(win_allocate_shared),
    T(win_create_dynamic), T(win_free_created), T(win_free_allocated), T(win_free_shared), T(win_free_dynamic),
    T(win_lock), T(win_lock_shared), T(win_lock_after_shared), T(win_lock_own), T(win_lock_all), T(win_lock_all_own),
    T(get_accumulate), T(rget_accumulate), T(fetch_and_op), T(compare_and_swap), T(accumulate_no_word),
};

static int number;

/* The second thread of the waiter's task. */
static void *let_them_go(void *argument) {
    const struct test *test = argument;
    int here;
    while (!entered) nap(1);
    nap(5);
    OK(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, side, &here, MPI_STATUS_IGNORE));
    tell(number);
    for (int to = 0; to < size; to++)
        if (to != rank) OK(MPI_Send(&number, 1, MPI_INT, to, 1, side));
    if (test->run == grequest) OK(MPI_Grequest_complete(own));
    return NULL;
}

static void run(const struct test *test) {
    pthread_t second;
    int got;
    alarm(SECONDS_MAX);
    current = test->name, number++, entered = 0;
    waiter = test->waits_last ? size - 1 : 0, peer = test->waits_last ? 0 : 1;
    made = MPI_COMM_NULL;
    for (int i = 0; i < size; i++)
        counts[i] = n, starts[i] = i * n, byte_starts[i] = i * n * 4, types[i] = MPI_INT, others[i] = i;
    for (int i = 0; i < 2; i++) two_counts[i] = n, two_starts[i] = i * n, two_displacements[i] = (MPI_Aint)i * n * 4;
    test->run(BEFORE);
    if (!IS_WAITER) test->run(FIRST);
    MPI_Barrier(MPI_COMM_WORLD);
    if (IS_WAITER) {
        CHECK(pthread_create(&second, NULL, let_them_go, (void *)test) == 0);
        entered = 1;
        test->run(CALL);
        pthread_join(second, NULL);
    } else {
        wait_until_told(number);
        OK(MPI_Recv(&got, 1, MPI_INT, waiter, 1, side, MPI_STATUS_IGNORE));
        CHECK(got == number);
        test->run(CALL);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    test->run(AFTER);
    char name[128];
    signal_name(number, name, sizeof name);
    if (IS_WAITER) remove(name);
}

/* Whether to run a test: all tests, or those that the arguments name. */
static int is_wanted(const char *name, int argc, char **argv) {
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], name) == 0) return 1;
    return argc < 2;
}

#define LENGTH(array) (sizeof(array) / sizeof *(array))

int main(int argc, char **argv) {
    int provided;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    CHECK(provided == MPI_THREAD_MULTIPLE && size <= TASKS_MAX);
    signal(SIGALRM, took_too_long);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_dup(MPI_COMM_WORLD, &side);
    if (rank == 0) {
        strcpy(folder, "/tmp/c_threads_wait-XXXXXX");
        CHECK(mkdtemp(folder) != NULL);
    }
    MPI_Bcast(folder, sizeof folder, MPI_CHAR, 0, comm);
    for (int longer = 0; longer < 2; longer++) {
        n = longer ? MANY : 1;
        for (size_t i = 0; i < LENGTH(tests) && size > 1; i++)
            if (is_wanted(tests[i].name, argc, argv)) run(&tests[i]);
    }
    n = 1;
    for (size_t i = 0; i < LENGTH(once) && size > 1; i++)
        if (is_wanted(once[i].name, argc, argv)) run(&once[i]);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) rmdir(folder), printf("all good\n"), fflush(stdout);
    MPI_Comm_free(&comm);
    MPI_Comm_free(&side);
    MPI_Finalize();
    return 0;
}
