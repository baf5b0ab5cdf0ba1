/* Short collectives: all roots, and lengths around the limit of the fast path. Some tasks cannot take the fast path while others do,
   because they use a derived datatype, or have another collective in flight that has to make progress. */
#include "check.h"

enum { LONGS_MAX = 600, TASKS_MAX = 8 };

static const int lengths[] = {0, 1, 2, 15, 16, 17, 100, 512, 513, LONGS_MAX};
static MPI_Datatype own_type;

static long value(int of, int round, int i) { return 1000003L * (of + 1) + 101 * round + i; }

static void fill(long *at, int count, int of, int round) {
    for (int i = 0; i < count; i++) at[i] = value(of, round, i);
}

static int holds(const long *at, int count, int of, int round) {
    for (int i = 0; i < count; i++)
        if (at[i] != value(of, round, i)) return 0;
    return 1;
}

/* The same elements in three descriptions, one for each third of the tasks. */
static MPI_Datatype type_of(int round) {
    return (rank + round) % 3 == 0 ? MPI_BYTE : (rank + round) % 3 == 1 ? MPI_LONG : own_type;
}

static int count_of(int count, MPI_Datatype type) { return type == MPI_BYTE ? count * (int)sizeof(long) : count; }

static void moves(int root, int count, int round) {
    long data[LONGS_MAX], all[TASKS_MAX * LONGS_MAX];
    MPI_Datatype type = type_of(round);
    int n = count_of(count, type), in_place = rank == root && round % 2;

    fill(data, count, rank, round);
    CHECK(MPI_Bcast(data, n, type, root, MPI_COMM_WORLD) == MPI_SUCCESS);
    CHECK(holds(data, count, root, round));

    fill(data, count, rank, round);
    fill(all + rank * count, count, rank, round);
    CHECK(MPI_Gather(in_place ? MPI_IN_PLACE : data, n, type, all, n, type, root, MPI_COMM_WORLD) == MPI_SUCCESS);
    for (int of = 0; rank == root && of < size; of++) CHECK(holds(all + of * count, count, of, round));

    for (int of = 0; of < size; of++) fill(all + of * count, count, root + 10 * of, round);
    memset(data, 0, sizeof data);
    CHECK(MPI_Scatter(all, n, type, in_place ? MPI_IN_PLACE : data, n, type, root, MPI_COMM_WORLD) == MPI_SUCCESS);
    CHECK(holds(in_place ? all + rank * count : data, count, root + 10 * rank, round));
}

static void reduces(int root, int count, int round) {
    long data[LONGS_MAX], result[LONGS_MAX];
    int in_place = rank == root && round % 2;
    fill(data, count, rank, round);
    memset(result, 0xFF, sizeof result);
    if (in_place) memcpy(result, data, sizeof result);
    CHECK(MPI_Reduce(in_place ? MPI_IN_PLACE : data, result, count, MPI_LONG, MPI_SUM, root, MPI_COMM_WORLD) == MPI_SUCCESS);
    for (int i = 0; i < count; i++) {
        long sum = 0;
        for (int of = 0; of < size; of++) sum += value(of, round, i);
        CHECK(result[i] == (rank == root ? sum : -1));
    }
    CHECK(holds(data, count, rank, round));
}

/* Collectives whose result all tasks get. Each task decides by itself whether it passes MPI_IN_PLACE, if the call allows that. */
static void alls(int count, int round) {
    static long out[TASKS_MAX * LONGS_MAX], in[TASKS_MAX * LONGS_MAX];
    MPI_Datatype type = type_of(round);
    int n = count_of(count, type), in_place = (rank + round) % 4 == 3;

    memset(in, 0xFF, sizeof in);
    fill(in_place ? in + rank * count : out, count, rank, round);
    CHECK(MPI_Allgather(in_place ? MPI_IN_PLACE : out, n, type, in, n, type, MPI_COMM_WORLD) == MPI_SUCCESS);
    for (int of = 0; of < size; of++) CHECK(holds(in + of * count, count, of, round));

    memset(in, 0xFF, sizeof in);
    for (int to = 0; to < size; to++) fill(out + to * count, count, 10 * rank + to, round);
    CHECK(MPI_Alltoall(out, n, type, in, n, type, MPI_COMM_WORLD) == MPI_SUCCESS);
    for (int of = 0; of < size; of++) CHECK(holds(in + of * count, count, 10 * of + rank, round));

    fill(out, count, rank, round);
    memset(in, 0xFF, sizeof in);
    if (in_place) memcpy(in, out, sizeof in);
    CHECK(MPI_Allreduce(in_place ? MPI_IN_PLACE : out, in, count, MPI_LONG, MPI_SUM, MPI_COMM_WORLD) == MPI_SUCCESS);
    for (int i = 0; i < count; i++) {
        long sum = 0;
        for (int of = 0; of < size; of++) sum += value(of, round, i);
        CHECK(in[i] == sum);
    }
    CHECK(MPI_Barrier(MPI_COMM_WORLD) == MPI_SUCCESS);
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    if (size > TASKS_MAX) MPI_Abort(MPI_COMM_WORLD, 1);
    MPI_Type_contiguous(1, MPI_LONG, &own_type);
    MPI_Type_commit(&own_type);
    for (int round = 0; round < 6; round++)
        for (unsigned at = 0; at < sizeof lengths / sizeof *lengths; at++)
            for (int root = 0; root < size; root++) {
                MPI_Request pending;
                int is_pending = (rank + round) % 2;
                MPI_Ibarrier(MPI_COMM_WORLD, &pending);
                if (!is_pending) MPI_Wait(&pending, MPI_STATUS_IGNORE);
                moves(root, lengths[at], round);
                reduces(root, lengths[at], round);
                alls(lengths[at], round);
                if (is_pending) MPI_Wait(&pending, MPI_STATUS_IGNORE);
            }
    /* Invalid arguments are errors of the call on the fast path, too. */
    long data = 1, result = 0;
    FAILS(MPI_Reduce(&data, &result, 1, MPI_LONG, MPI_REPLACE, 0, MPI_COMM_WORLD), MPI_ERR_OP);
    FAILS(MPI_Bcast(&data, 1, MPI_LONG, size, MPI_COMM_WORLD), MPI_ERR_ROOT);
    MPI_Type_free(&own_type);
    return end();
}
