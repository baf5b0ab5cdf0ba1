/* Tasks are killed at random moments; the survivors shrink and go on (mpi-ext.h). Arguments: a seed, a file.
 *
 * In some rounds no task revokes: a death alone ends collectives, and calls that make communicators, at all tasks.
 *
 * Each task appends what it has agreed on to the file, with one write, before it does anything else: so the file also has the decisions of
 * tasks that were killed afterwards. The caller checks that all decisions of one agreement are equal. */
#include "check.h"
#include <fcntl.h>
#include <mpi-ext.h>
#include <signal.h>
#include <stdint.h>
#include <sys/time.h>
#include <unistd.h>

enum { ROUNDS = 12, LONG = 1 << 18 };

static uint64_t state;
static int file, world_rank;
static int own[LONG], got[LONG];

static unsigned draw(unsigned below) {
    state += 0x9e3779b97f4a7c15u;
    uint64_t mixed = (state ^ (state >> 30)) * 0xbf58476d1ce4e5b9u;
    mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111ebu;
    return (unsigned)((mixed ^ (mixed >> 31)) % below);
}

static void die(int number) {
    (void)number;
    raise(SIGKILL);
}

/* This task is killed within the next milliseconds. */
static void die_soon(unsigned microseconds) {
    struct itimerval when = {{0, 0}, {0, (long)microseconds + 1}};
    signal(SIGALRM, die);
    setitimer(ITIMER_REAL, &when, NULL);
}

static int is_expected(int code) {
    int class = class_of(code);
    return code == MPI_SUCCESS || class == MPIX_ERR_PROC_FAILED || class == MPIX_ERR_PROC_FAILED_PENDING ||
           class == MPIX_ERR_REVOKED;
}

static void tell(int round, int agreement, int value, int failed) {
    char line[96];
    int length = snprintf(line, sizeof line, "%d.%d %d %d task %d\n", round, agreement, value, failed, world_rank);
    CHECK(write(file, line, (size_t)length) == length);
}

/* One communication of all tasks, which may fail. */
static int communicate(MPI_Comm comm, unsigned kind) {
    int code, other, members;
    MPI_Request requests[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
    MPI_Comm_size(comm, &members);
    MPI_Comm_rank(comm, &rank);
    int next = (rank + 1) % members, before = (rank + members - 1) % members;
    switch (kind) {
    case 0:
        return MPI_Barrier(comm);
    case 1:
        return MPI_Allreduce(own, got, 16, MPI_INT, MPI_SUM, comm);
    case 2:
        return MPI_Bcast(got, LONG, MPI_INT, members / 2, comm);
    case 3:
        code = MPI_Iallreduce(own, got, LONG / 4, MPI_INT, MPI_SUM, comm, &requests[0]);
        return code != MPI_SUCCESS ? code : MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
    case 4:
        return MPI_Sendrecv(own, LONG, MPI_INT, next, 1, got, LONG, MPI_INT, before, 1, comm, MPI_STATUS_IGNORE);
    case 5:
        code = MPI_Irecv(got, LONG, MPI_INT, MPI_ANY_SOURCE, 2, comm, &requests[0]);
        if (code == MPI_SUCCESS)
            code = MPI_Issend(own, 100, MPI_INT, next, 2, comm, &requests[1]);
        for (int each = 0; each < 2; each++) {
            if (requests[each] == MPI_REQUEST_NULL)
                continue;
            other = MPI_Wait(&requests[each], MPI_STATUS_IGNORE);
            code = code != MPI_SUCCESS ? code : other;
            if (other != MPI_SUCCESS) {
                /* The neighbours are in the same exchange: none may wait for this task any more. */
                MPIX_Comm_revoke(comm);
                if (requests[each] != MPI_REQUEST_NULL)
                    CHECK(is_expected(MPI_Wait(&requests[each], MPI_STATUS_IGNORE)));
            }
        }
        return code;
    case 6:
        return MPI_Alltoall(own, 8, MPI_INT, got, 8, MPI_INT, comm);
    default: {
        MPI_Comm copy;
        if (kind == 7)
            code = MPI_Comm_dup(comm, &copy);
        else if (kind == 8)
            code = MPI_Cart_create(comm, 1, &members, &(int){1}, 0, &copy);
        else
            code = MPI_Comm_split(comm, rank % 2, rank, &copy);
        if (code == MPI_SUCCESS)
            MPI_Comm_free(&copy);
        return code;
    }
    }
}

int main(int argc, char **argv) {
    MPI_Comm comm, shrunk;
    int members, sum, bits, agreement;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    CHECK(argc == 3);
    file = open(argv[2], O_WRONLY | O_APPEND | O_CREAT, 0600);
    CHECK(file >= 0);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    int victims_left = size - 2;
    for (int round = 0; round < ROUNDS; round++) {
        /* All tasks draw the same numbers. */
        state = strtoull(argv[1], NULL, 10) * 1000003u + (uint64_t)round;
        unsigned kind = draw(10), victims = draw(3);
        for (unsigned each = 0; each < victims && victims_left > 0; each++, victims_left--) {
            int victim = (int)draw((unsigned)size);
            unsigned when = draw(4) == 0 ? 0 : draw(20000);
            if (victim == world_rank && victim != 0)
                die_soon(when);
        }
        /* Messages between two tasks may wait for one that has left the round with an error. */
        int revokes = kind == 4 || kind == 5 || draw(2) == 0;
        for (int each = 0; each < LONG; each++)
            own[each] = world_rank + 1;
        int code = MPI_SUCCESS;
        for (int repeat = 0; repeat < 20 && code == MPI_SUCCESS; repeat++)
            code = communicate(comm, kind);
        CHECK(is_expected(code));
        if (code != MPI_SUCCESS && revokes && draw(2) == 0)
            MPIX_Comm_revoke(comm);
        for (agreement = 0;; agreement++) {
            bits = code == MPI_SUCCESS ? ~0 : ~1;
            if (code != MPI_SUCCESS && revokes)
                MPIX_Comm_revoke(comm);
            int agreed = MPIX_Comm_agree(comm, &bits);
            CHECK(agreed == MPI_SUCCESS || class_of(agreed) == MPIX_ERR_PROC_FAILED);
            tell(round, agreement, bits, agreed != MPI_SUCCESS);
            if ((bits & 1) && agreed == MPI_SUCCESS)
                break;
            if (revokes)
                MPIX_Comm_revoke(comm);
            code = MPIX_Comm_shrink(comm, &shrunk);
            CHECK(code == MPI_SUCCESS);
            MPI_Comm_free(&comm);
            comm = shrunk;
            MPI_Comm_size(comm, &members);
            tell(round, agreement, members, -1);
            code = MPI_Allreduce(&(int){1}, &sum, 1, MPI_INT, MPI_SUM, comm);
            CHECK(is_expected(code) && (code != MPI_SUCCESS || sum == members));
        }
    }
    MPI_Comm_free(&comm);
    printf("task %d is done\n", world_rank);
    fflush(stdout);
    CHECK(MPI_Finalize() == MPI_SUCCESS);
    return 0;
}
