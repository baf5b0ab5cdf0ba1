/* Puts and accumulates of many short pieces in memory of malloc, which only its owner has mapped. The result does not depend on what the
   owner does: it waits in a call, it computes without a call until the others have finished (MPI 5.0, 12.7.3: progress), or it computes for
   some time and then makes calls. A put stores the pieces and nothing between them (12.3.1), an exclusive lock excludes other tasks (12.5.3),
   a flush completes the operations at the target (12.5.4), and accumulates are atomic for each element (12.3.4, 12.7.1). */
#include <time.h>

#include "check.h"

/* Pieces of a put: a few messages, and for the last case many. */
enum { PIECES = 2000, MANY = 8000, ROUNDS = 8 };

static int *memory;
static MPI_Win win;
/* Every second int; blocks of one and two ints at unequal distances, of which no two touch; the first MANY ints but every third. */
static MPI_Datatype vector, blocks, wide;
static int displacements[PIECES], lengths[PIECES], ints_of_blocks;

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + 1e-9 * time.tv_nsec;
}

static void compute(double seconds) {
    double start = now();
    while (now() - start < seconds)
        continue;
}

static void make_types(void) {
    int at = 0;
    for (int i = 0; i < PIECES; i++) {
        displacements[i] = at, lengths[i] = 1 + i % 2;
        at += lengths[i] + 1 + i % 3;
        ints_of_blocks += lengths[i];
    }
    CHECK(at <= 2 * MANY);
    MPI_Type_vector(PIECES, 1, 2, MPI_INT, &vector);
    MPI_Type_indexed(PIECES, lengths, displacements, MPI_INT, &blocks);
    MPI_Type_vector(MANY / 2, 2, 3, MPI_INT, &wide);
    MPI_Type_commit(&vector), MPI_Type_commit(&blocks), MPI_Type_commit(&wide);
}

/* Memory between pieces that nobody writes. */
static const int between = 77;

static void clear(void) {
    for (int i = 0; i < 2 * MANY; i++)
        memory[i] = between;
    MPI_Barrier(MPI_COMM_WORLD);
}

/* Checks the ints of this task's memory that `type` selects, in order, and all others. */
static void must_be(MPI_Datatype type, int first, int step) {
    static int chosen[2 * MANY];
    int count = 0;
    memset(chosen, 0, sizeof chosen);
    for (int i = 0; i < PIECES && type == vector; i++)
        chosen[2 * i] = ++count;
    for (int i = 0; i < PIECES && type == blocks; i++)
        for (int k = 0; k < lengths[i]; k++)
            chosen[displacements[i] + k] = ++count;
    for (int i = 0; i < MANY / 2 && type == wide; i++)
        chosen[3 * i] = count + 1, chosen[3 * i + 1] = count + 2, count += 2;
    CHECK(count > 0);
    for (int i = 0; i < 2 * MANY; i++)
        CHECK(memory[i] == (chosen[i] ? first + step * (chosen[i] - 1) : between));
}

static int count_of(MPI_Datatype type) {
    return type == vector ? PIECES : type == blocks ? ints_of_blocks : MANY;
}

static void put(MPI_Datatype type, int to, int first, int step) {
    static int from[2 * MANY];
    for (int i = 0; i < count_of(type); i++)
        from[i] = first + step * i;
    CHECK(MPI_Put(from, count_of(type), MPI_INT, to, 0, 1, type, win) == MPI_SUCCESS);
    /* The buffer may be used again after the operation has completed locally. */
    CHECK(MPI_Win_flush(to, win) == MPI_SUCCESS);
}

/* The last task puts to rank 0, which waits in a barrier; then rank 0 checks. */
static void to_a_waiting_task(MPI_Datatype type) {
    for (int round = 0; round < 3; round++) {
        clear();
        if (rank == size - 1) put(type, 0, round, 3);
        MPI_Barrier(MPI_COMM_WORLD);
        if (rank == 0) must_be(type, round, 3);
        MPI_Barrier(MPI_COMM_WORLD);
    }
}

/* Rank 0 makes no call until it sees the last value. */
static void to_a_task_that_computes(MPI_Datatype type) {
    clear();
    MPI_Win_lock_all(0, win);
    if (rank == size - 1 && rank > 0) {
        for (int round = 0; round < ROUNDS; round++)
            put(type, 0, round, 1);
        int done = 1;
        MPI_Accumulate(&done, 1, MPI_INT, 0, sizeof(int) * (2 * MANY - 1), 1, MPI_INT, MPI_REPLACE, win);
        MPI_Win_flush(0, win);
    } else if (rank == 0 && size > 1) {
        double start = now();
        while (((volatile int *)memory)[2 * MANY - 1] == between && now() - start < 200)
            continue;
        CHECK(memory[2 * MANY - 1] == 1);
        memory[2 * MANY - 1] = between;
        must_be(type, ROUNDS - 1, 1);
    }
    MPI_Win_unlock_all(win);
    /* What the others have sent meanwhile changes nothing any more. */
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0 && size > 1) must_be(type, ROUNDS - 1, 1);
    MPI_Barrier(MPI_COMM_WORLD);
}

/* Rank 0 computes for times of all lengths, and makes calls between. The last put counts. */
static void to_a_task_that_computes_at_times(MPI_Datatype type) {
    clear();
    MPI_Win_lock_all(0, win);
    int go = 0;
    MPI_Request all;
    if (rank == size - 1) {
        for (int round = 0; round < ROUNDS; round++) {
            put(type, 0, round, 1);
            if (round % 5 == 0) compute(0.002);
        }
    }
    MPI_Ibarrier(MPI_COMM_WORLD, &all);
    for (int round = 0; rank == 0 && !go; round++) {
        compute(0.0001 * (round % 40));
        MPI_Test(&all, &go, MPI_STATUS_IGNORE);
    }
    if (!go) MPI_Wait(&all, MPI_STATUS_IGNORE);
    MPI_Win_unlock_all(win);
    if (rank == 0) must_be(type, ROUNDS - 1, 1);
    MPI_Barrier(MPI_COMM_WORLD);
}

/* All tasks change the memory of all tasks at once, some of them after they have computed. */
static void all_at_once(MPI_Datatype type) {
    static int ones[2 * MANY], found[2 * MANY];
    clear();
    MPI_Win_lock_all(0, win);
    for (int i = 0; i < count_of(type); i++)
        ones[i] = 1;
    for (int round = 0; round < ROUNDS; round++) {
        int to = (rank + round) % size;
        MPI_Accumulate(ones, count_of(type), MPI_INT, to, 0, 1, type, MPI_SUM, win);
        if (round % 7 == rank % 7) compute(0.001 * (rank % 3));
        if (round % 4 == 0) MPI_Get_accumulate(ones, count_of(type), MPI_INT, found, count_of(type), MPI_INT, to, 0, 1, type, MPI_SUM, win);
        MPI_Win_flush(to, win);
        if (round % 4 == 0) CHECK(found[0] > between && found[count_of(type) - 1] > between);
    }
    MPI_Win_unlock_all(win);
    MPI_Barrier(MPI_COMM_WORLD);
    /* Each round, each task has one task that adds to it: twice in one of four rounds. */
    int sum = between + ROUNDS + (ROUNDS + 3) / 4;
    must_be(type, sum, 0);
    MPI_Barrier(MPI_COMM_WORLD);
}

/* Under an exclusive lock all pieces are those of one task, and a number counts the locks. */
static void under_locks(MPI_Datatype type) {
    static int found[2 * MANY];
    clear();
    memory[0] = 0;
    MPI_Barrier(MPI_COMM_WORLD);
    for (int round = 0; round < ROUNDS; round++) {
        int to = round % size;
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, to, 0, win);
        MPI_Get(found, count_of(type), MPI_INT, to, 0, 1, type, win);
        MPI_Win_flush(to, win);
        for (int i = 1; i < count_of(type) && found[0] != 0; i++)
            CHECK(found[i] == found[0]);
        put(type, to, found[0] + 1, 0);
        MPI_Win_unlock(to, win);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    must_be(type, size * ((ROUNDS - rank + size - 1) / size), 0);
    MPI_Barrier(MPI_COMM_WORLD);
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    memory = malloc(2 * MANY * sizeof *memory);
    CHECK(memory != NULL);
    make_types();
    MPI_Win_create(memory, 2 * MANY * sizeof *memory, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    MPI_Datatype types[] = {vector, blocks, wide};
    for (int i = 0; i < 3; i++) {
        MPI_Win_lock_all(0, win);
        to_a_waiting_task(types[i]);
        MPI_Win_unlock_all(win);
        /* Other libraries, and this one with a setting by which tasks do not map each other's memory, need calls of the target. */
        if (OWN && getenv("AM_MEMORY") == NULL) to_a_task_that_computes(types[i]);
        to_a_task_that_computes_at_times(types[i]);
        all_at_once(types[i]);
        under_locks(types[i]);
        MPI_Type_free(&types[i]);
    }
    MPI_Win_free(&win);
    free(memory);
    return end();
}
