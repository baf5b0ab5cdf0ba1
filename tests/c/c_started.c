/* Non-blocking collectives: several at a time between blocking ones, of tasks that are late in turns and wait in different orders, on
   communicators that are freed before their collectives end. */
#include "check.h"
#include <unistd.h>

enum { LONGS_MAX = 3000, TASKS_MAX = 8, STARTED = 10 };

static const int lengths[] = {1, 6, 7, 100, 2, LONGS_MAX, 1};
static long own[LONGS_MAX], out[TASKS_MAX * LONGS_MAX], sum[LONGS_MAX], in_place[LONGS_MAX], composed[LONGS_MAX], broadcast[LONGS_MAX];
static long gathered[TASKS_MAX * LONGS_MAX], all[TASKS_MAX * LONGS_MAX], exchanged[TASKS_MAX * LONGS_MAX], reduced[LONGS_MAX];

static long value(int of, int round, int i) { return 1000003L * (of + 1) + 101 * round + i; }

/* Maps x -> a x + b modulo 2^16, as a << 16 | b: their composition is associative and does not commute. */
static long after(long first, long second) {
    long a = first >> 16 & 0xFFFF, b = first & 0xFFFF, c = second >> 16 & 0xFFFF, d = second & 0xFFFF;
    return (a * c & 0xFFFF) << 16 | ((c * b + d) & 0xFFFF);
}

static void compose(void *earlier, void *later, int *count, MPI_Datatype *type) {
    (void)type;
    for (int i = 0; i < *count; i++) ((long *)later)[i] = after(((long *)earlier)[i], ((long *)later)[i]);
}

static void fill(int count, int round, int root) {
    for (int i = 0; i < count; i++) {
        own[i] = in_place[i] = value(rank, round, i);
        broadcast[i] = rank == root ? value(root, round, i) : 0;
        for (int to = 0; to < size; to++) out[to * count + i] = value(10 * rank + to, round, i);
    }
}

static void check(int count, int round, int root) {
    for (int i = 0; i < count; i++) {
        long expected = 0, composition = value(0, round, i);
        for (int of = 0; of < size; of++) {
            expected += value(of, round, i);
            if (of > 0) composition = after(composition, value(of, round, i));
            CHECK(all[of * count + i] == value(of, round, i));
            CHECK(exchanged[of * count + i] == value(10 * of + rank, round, i));
            CHECK(rank != root || gathered[of * count + i] == value(of, round, i));
        }
        CHECK(sum[i] == expected && in_place[i] == expected && composed[i] == composition);
        CHECK(broadcast[i] == value(root, round, i));
        CHECK(rank != root || reduced[i] == expected);
    }
}

static void wait_for(MPI_Request *requests, int round) {
    int index, done = 0;
    switch ((rank + round) % 4) {
    case 0: CHECK(MPI_Waitall(STARTED, requests, MPI_STATUSES_IGNORE) == MPI_SUCCESS); break;
    case 1:
        for (int i = STARTED; i-- > 0;) CHECK(MPI_Wait(&requests[i], MPI_STATUS_IGNORE) == MPI_SUCCESS);
        break;
    case 2:
        for (int i = 0; i < STARTED; i++) CHECK(MPI_Waitany(STARTED, requests, &index, MPI_STATUS_IGNORE) == MPI_SUCCESS);
        break;
    default:
        while (!done) CHECK(MPI_Testall(STARTED, requests, &done, MPI_STATUSES_IGNORE) == MPI_SUCCESS);
    }
}

static void collectives(MPI_Comm *comm, MPI_Op composition, int count, int round, int frees) {
    MPI_Request requests[STARTED], *next = requests;
    int root = round % size;
    long most = rank;
    fill(count, round, root);
    if (rank == round % size) usleep(1000 * (round % 3));
    CHECK(MPI_Ibarrier(*comm, next++) == MPI_SUCCESS);
    CHECK(MPI_Iallreduce(own, sum, count, MPI_LONG, MPI_SUM, *comm, next++) == MPI_SUCCESS);
    CHECK(MPI_Ibcast(broadcast, count, MPI_LONG, root, *comm, next++) == MPI_SUCCESS);
    CHECK(MPI_Iallreduce(own, composed, count, MPI_LONG, composition, *comm, next++) == MPI_SUCCESS);
    if (round % 3 == 0) {
        CHECK(MPI_Allreduce(MPI_IN_PLACE, &most, 1, MPI_LONG, MPI_MAX, *comm) == MPI_SUCCESS);
        CHECK(most == size - 1);
    }
    CHECK(MPI_Iallgather(own, count, MPI_LONG, all, count, MPI_LONG, *comm, next++) == MPI_SUCCESS);
    CHECK(MPI_Igather(own, count, MPI_LONG, gathered, count, MPI_LONG, root, *comm, next++) == MPI_SUCCESS);
    CHECK(MPI_Ialltoall(out, count, MPI_LONG, exchanged, count, MPI_LONG, *comm, next++) == MPI_SUCCESS);
    CHECK(MPI_Ireduce(own, reduced, count, MPI_LONG, MPI_SUM, root, *comm, next++) == MPI_SUCCESS);
    CHECK(MPI_Iallreduce(MPI_IN_PLACE, in_place, count, MPI_LONG, MPI_SUM, *comm, next++) == MPI_SUCCESS);
    if (round % 3 == 1) CHECK(MPI_Barrier(*comm) == MPI_SUCCESS);
    CHECK(MPI_Ibarrier(*comm, next++) == MPI_SUCCESS);
    if (frees) CHECK(MPI_Comm_free(comm) == MPI_SUCCESS);
    wait_for(requests, round);
    check(count, round, root);
}

int main(int argc, char **argv) {
    MPI_Op composition;
    int provided, round = 0;
    MPI_Init_thread(&argc, &argv, getenv("WITH_THREADS") ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    CHECK(size <= TASKS_MAX);
    MPI_Op_create(compose, 0, &composition);
    for (int again = 0; again < 4; again++)
        for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
            MPI_Comm world = MPI_COMM_WORLD;
            collectives(&world, composition, lengths[i], round++, 0);
        }
    /* A task has memory for 16 boards: each is used again when all tasks have left it. */
    for (int made = 0; made < 40; made++) {
        MPI_Comm comm;
        CHECK(MPI_Comm_dup(MPI_COMM_WORLD, &comm) == MPI_SUCCESS);
        for (int i = 0; i < 10; i++) CHECK(MPI_Barrier(comm) == MPI_SUCCESS);
        collectives(&comm, composition, 3, round++, 0);
        collectives(&comm, composition, 50, round++, 1);
    }
    MPI_Op_free(&composition);
    return end();
}
