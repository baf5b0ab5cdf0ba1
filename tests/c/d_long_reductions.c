/* Long reductions of several types and lengths, by predefined operations and by one of the program. By predefined operations, two tasks
   combine elements in the packets in which they arrive. */
#include "check.h"

#define MAX 70000

struct located {
    double value;
    int index;
};

static double out[MAX], in[MAX], again[MAX];
static struct located first[MAX / 2], last[MAX / 2];
static long longs[MAX], sums[MAX];
static short shorts[MAX], products[MAX];

static void user_sum(void *earlier, void *later, int *count, MPI_Datatype *type) {
    (void)type;
    for (int i = 0; i < *count; i++)
        ((long *)later)[i] += ((long *)earlier)[i];
}

/* Sums whose bits depend on the order of the additions are the same at all tasks, each time. */
static void bits(int n) {
    for (int i = 0; i < n; i++)
        out[i] = 1.0 / (i % 97 + 3 * rank + 1);
    MPI_Allreduce(out, in, n, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    memcpy(again, in, sizeof(double) * (size_t)n);
    MPI_Bcast(again, n, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    CHECK(!memcmp(in, again, sizeof(double) * (size_t)n));
    for (int i = 0; i < n; i++) {
        double sum = 0;
        for (int r = 0; r < size; r++)
            sum += 1.0 / (i % 97 + 3 * r + 1);
        CHECK(in[i] > sum - 1e-9 && in[i] < sum + 1e-9);
    }
    MPI_Allreduce(out, again, n, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    CHECK(!memcmp(in, again, sizeof(double) * (size_t)n));
    for (int root = 0; root < size; root++) {
        memcpy(again, out, sizeof(double) * (size_t)n);
        MPI_Reduce(rank == root ? MPI_IN_PLACE : again, again, n, MPI_DOUBLE, MPI_MAX, root, MPI_COMM_WORLD);
        for (int i = 0; i < n; i++)
            CHECK(again[i] == (rank == root ? 1.0 / (i % 97 + 1) : out[i]));
    }
}

static void integers(int n, MPI_Op op) {
    for (int i = 0; i < n; i++)
        longs[i] = i + rank, sums[i] = -1;
    MPI_Allreduce(longs, sums, n, MPI_LONG, op, MPI_COMM_WORLD);
    for (int i = 0; i < n; i++)
        CHECK(sums[i] == (long)size * i + (long)size * (size - 1) / 2);
    for (int root = 0; root < size; root++) {
        memset(sums, 0, sizeof sums);
        MPI_Reduce(longs, sums, n, MPI_LONG, op, root, MPI_COMM_WORLD);
        for (int i = 0; i < n; i++)
            CHECK(sums[i] == (rank == root ? (long)size * i + (long)size * (size - 1) / 2 : 0));
    }
    MPI_Allreduce(MPI_IN_PLACE, longs, n, MPI_LONG, op, MPI_COMM_WORLD);
    for (int i = 0; i < n; i++)
        CHECK(longs[i] == (long)size * i + (long)size * (size - 1) / 2);
}

/* Elements of two bytes, and elements whose size is no power of two. */
static void others(int n) {
    for (int i = 0; i < n; i++)
        shorts[i] = (short)(i % 5 + rank);
    MPI_Allreduce(shorts, products, n, MPI_SHORT, MPI_PROD, MPI_COMM_WORLD);
    for (int i = 0; i < n; i++) {
        short product = 1;
        for (int r = 0; r < size; r++)
            product = (short)(product * (i % 5 + r));
        CHECK(products[i] == product);
    }
    for (int i = 0; i < n / 2; i++)
        first[i].value = (i + rank) % size, first[i].index = rank;
    MPI_Allreduce(first, last, n / 2, MPI_DOUBLE_INT, MPI_MAXLOC, MPI_COMM_WORLD);
    for (int i = 0; i < n / 2; i++)
        CHECK(last[i].value == size - 1 && (i + last[i].index) % size == size - 1);
}

int main(int argc, char **argv) {
    static const int lengths[] = { 0, 1, 3, 511, 2049, 4096, 5003, 8191, 16385, 32768, 65537, MAX };
    MPI_Op user;
    begin(&argc, &argv);
    MPI_Op_create(user_sum, 1, &user);
    for (int at = 0; at < (int)(sizeof lengths / sizeof *lengths); at++) {
        bits(lengths[at]);
        integers(lengths[at], MPI_SUM);
        integers(lengths[at], user);
        others(lengths[at]);
    }
    MPI_Op_free(&user);
    return end();
}
