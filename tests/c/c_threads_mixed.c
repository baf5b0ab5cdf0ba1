/* Four threads of each task at once: messages, collectives, and windows, each thread on a communicator of its own, and messages from any
   thread to any thread on a shared communicator. The actions are drawn from a seed, which is printed;
   "c_threads_mixed SEED" repeats them. */
#include "check.h"
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

enum { THREADS = 4, ROUNDS = 75, LONG = 20000, WORDS = 64, SECONDS_MAX = 300 };

static unsigned seed = 20250611;
static MPI_Comm comms[THREADS], shared;
static int numbers[THREADS];
static const char *volatile doing[THREADS];

static void took_too_long(int number) {
    (void)number;
    char line[256];
    int length = snprintf(line, sizeof line, "rank %d, seed %u: the threads have not come back from", rank, seed);
    for (int i = 0; i < THREADS; i++) length += snprintf(line + length, sizeof line - length, " %s", doing[i]);
    if (write(2, line, length) >= 0 && write(2, "\n", 1) >= 0) _exit(3);
    _exit(4);
}

/* All tasks draw the same numbers for one thread and round. */
static unsigned draw(unsigned *state) {
    *state ^= *state << 13, *state ^= *state >> 17, *state ^= *state << 5;
    return *state;
}

struct own {
    int thread, in[LONG], out[LONG];
    MPI_Comm comm;
    MPI_Win win;
    long long *counter;
};

static int value(int from, int thread, int round, int at) { return from * 1000003 + thread * 10007 + round * 101 + at; }

static void fill(struct own *own, int round, int count) {
    for (int i = 0; i < count; i++) own->out[i] = value(rank, own->thread, round, i);
}

static void check(const struct own *own, int from, int thread, int round, int count) {
    for (int i = 0; i < count; i++) CHECK(own->in[i] == value(from, thread, round, i));
}

/* Sends to the right and receives from the left, each time by a different method. */
static void messages(struct own *own, int round, unsigned how, int count) {
    int right = (rank + 1) % size, left = (rank + size - 1) % size, at;
    MPI_Request requests[2];
    MPI_Status status;
    MPI_Message message;
    fill(own, round, count);
    MPI_Isend(own->out, count, MPI_INT, right, round, own->comm, &requests[0]);
    switch (how % 4) {
    case 0: MPI_Recv(own->in, LONG, MPI_INT, left, round, own->comm, &status); break;
    case 1:
        MPI_Probe(MPI_ANY_SOURCE, round, own->comm, &status);
        MPI_Recv(own->in, LONG, MPI_INT, status.MPI_SOURCE, round, own->comm, &status);
        break;
    case 2:
        MPI_Mprobe(left, MPI_ANY_TAG, own->comm, &message, &status);
        MPI_Mrecv(own->in, LONG, MPI_INT, &message, &status);
        break;
    default:
        MPI_Irecv(own->in, LONG, MPI_INT, left, round, own->comm, &requests[1]);
        MPI_Waitany(1, requests + 1, &at, &status);
    }
    MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
    MPI_Get_count(&status, MPI_INT, &at);
    CHECK(at == count && status.MPI_SOURCE == left && status.MPI_TAG == round);
    check(own, left, own->thread, round, count);
}

/* Each thread sends to the next thread of the next task, on the communicator of all threads. */
static void among_threads(struct own *own, int round, int count) {
    int right = (rank + 1) % size, left = (rank + size - 1) % size;
    int to = (own->thread + 1) % THREADS, from = (own->thread + THREADS - 1) % THREADS;
    fill(own, round, count);
    MPI_Sendrecv(own->out, count, MPI_INT, right, round * THREADS + to, own->in, count, MPI_INT, left,
                 round * THREADS + own->thread, shared, MPI_STATUS_IGNORE);
    check(own, left, from, round, count);
}

static void collectives(struct own *own, int round, unsigned how, int count) {
    int root = round % size, part = count / size;
    MPI_Comm part_of, dup;
    fill(own, round, count);
    switch (how % 6) {
    case 0: MPI_Barrier(own->comm); break;
    case 1:
        if (rank == root) memcpy(own->in, own->out, sizeof(int) * count);
        MPI_Bcast(own->in, count, MPI_INT, root, own->comm);
        check(own, root, own->thread, round, count);
        break;
    case 2:
        for (int i = 0; i < count; i++) own->out[i] = rank + i;
        MPI_Allreduce(own->out, own->in, count, MPI_INT, MPI_SUM, own->comm);
        for (int i = 0; i < count; i++) CHECK(own->in[i] == size * (size - 1) / 2 + size * i);
        break;
    case 3:
        MPI_Alltoall(own->out, part, MPI_INT, own->in, part, MPI_INT, own->comm);
        for (int from = 0; from < size; from++)
            for (int i = 0; i < part; i++)
                CHECK(own->in[from * part + i] == value(from, own->thread, round, rank * part + i));
        break;
    case 4:
        MPI_Allgather(own->out, part, MPI_INT, own->in, part, MPI_INT, own->comm);
        for (int from = 0; from < size; from++)
            for (int i = 0; i < part; i++) CHECK(own->in[from * part + i] == value(from, own->thread, round, i));
        break;
    default:
        MPI_Comm_dup(own->comm, &dup);
        MPI_Comm_split(dup, rank % 2, rank, &part_of);
        MPI_Barrier(part_of);
        MPI_Comm_free(&part_of);
        MPI_Comm_free(&dup);
    }
}

/* The thread's own window: data put to the next task have arrived after the fence. */
static void fences(struct own *own, int round) {
    int right = (rank + 1) % size, left = (rank + size - 1) % size, got[WORDS];
    int *mine;
    MPI_Win win;
    MPI_Win_allocate(WORDS * sizeof(int), sizeof(int), MPI_INFO_NULL, own->comm, &mine, &win);
    fill(own, round, WORDS);
    MPI_Win_fence(0, win);
    MPI_Put(own->out, WORDS, MPI_INT, right, 0, WORDS, MPI_INT, win);
    MPI_Win_fence(0, win);
    memcpy(own->in, mine, sizeof got);
    check(own, left, own->thread, round, WORDS);
    MPI_Win_fence(0, win);
    MPI_Get(got, WORDS, MPI_INT, right, 0, WORDS, MPI_INT, win);
    MPI_Win_fence(0, win);
    CHECK(memcmp(got, own->out, sizeof got) == 0);
    MPI_Win_free(&win);
}

/* A counter at one task, under the lock of its window; and updates without a lock. */
static void locks(struct own *own, int round) {
    long long one = 1, seen, next;
    int target = round % size;
    MPI_Win_lock(round % 3 ? MPI_LOCK_EXCLUSIVE : MPI_LOCK_SHARED, target, 0, own->win);
    if (round % 3) {
        MPI_Get(&seen, 1, MPI_LONG_LONG, target, 0, 1, MPI_LONG_LONG, own->win);
        MPI_Win_flush(target, own->win);
        next = seen + 1;
        MPI_Put(&next, 1, MPI_LONG_LONG, target, 0, 1, MPI_LONG_LONG, own->win);
    } else {
        MPI_Fetch_and_op(&one, &seen, MPI_LONG_LONG, target, 1, MPI_SUM, own->win);
    }
    MPI_Win_unlock(target, own->win);
}

static void *work(void *argument) {
    struct own *own = calloc(1, sizeof *own);
    CHECK(own != NULL);
    own->thread = *(int *)argument, own->comm = comms[own->thread];
    unsigned state = seed + 7919 * (unsigned)own->thread + 1;
    long long locked = 0, updated = 0, all[2];
    MPI_Win_allocate(2 * sizeof(long long), sizeof(long long), MPI_INFO_NULL, own->comm, &own->counter, &own->win);
    own->counter[0] = own->counter[1] = 0;
    MPI_Barrier(own->comm);
    for (int round = 0; round < ROUNDS; round++) {
        unsigned what = draw(&state), how = draw(&state);
        int count = draw(&state) % 4 ? 1 + (int)(draw(&state) % 300) : 1 + (int)(draw(&state) % LONG);
        unsigned of_all = seed + (unsigned)round;
        if (draw(&of_all) % 4 == 0) doing[own->thread] = "messages among threads", among_threads(own, round, 100);
        switch (what % 7) {
        case 0:
        case 1: doing[own->thread] = "messages", messages(own, round, how, count); break;
        case 2:
        case 3: doing[own->thread] = "collectives", collectives(own, round, how, count); break;
        case 4: doing[own->thread] = "fences", fences(own, round); break;
        default: doing[own->thread] = "locks", locks(own, round), round % 3 ? locked++ : updated++;
        }
    }
    doing[own->thread] = "the end";
    MPI_Barrier(own->comm);
    MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, own->win);
    long long mine[2] = {own->counter[0], own->counter[1]};
    MPI_Win_unlock(rank, own->win);
    MPI_Allreduce(mine, all, 2, MPI_LONG_LONG, MPI_SUM, own->comm);
    CHECK(all[0] == locked * size && all[1] == updated * size);
    MPI_Win_free(&own->win);
    free(own);
    return NULL;
}

int main(int argc, char **argv) {
    int provided;
    pthread_t threads[THREADS];
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    CHECK(provided == MPI_THREAD_MULTIPLE);
    if (argc > 1) seed = (unsigned)strtoul(argv[1], NULL, 0);
    if (rank == 0) printf("seed %u\n", seed), fflush(stdout);
    for (int i = 0; i < THREADS; i++) doing[i] = "the beginning";
    signal(SIGALRM, took_too_long);
    alarm(SECONDS_MAX);
    MPI_Comm_dup(MPI_COMM_WORLD, &shared);
    for (int i = 0; i < THREADS; i++) MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]);
    for (int i = 0; i < THREADS; i++) {
        numbers[i] = i;
        CHECK(pthread_create(&threads[i], NULL, work, &numbers[i]) == 0);
    }
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    for (int i = 0; i < THREADS; i++) MPI_Comm_free(&comms[i]);
    MPI_Comm_free(&shared);
    return end();
}
