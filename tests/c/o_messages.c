/* Prints the results of messages, collectives and windows: every library must print the same. */
#include "check.h"
#include <stdint.h>

#define SAY(...) (printf("%d/%d ", rank, size), printf(__VA_ARGS__), printf("\n"))
#define COUNT 12

/* A checksum of bytes, to compare buffers. */
static unsigned long digest(const void *bytes, size_t length) {
    unsigned long sum = 5381;
    for (size_t at = 0; at < length; at++)
        sum = sum * 33 + ((const unsigned char *)bytes)[at];
    return sum;
}

static void statuses(void) {
    int left = (rank + size - 1) % size, right = (rank + 1) % size, count, elements;
    MPI_Datatype pairs, bytes;
    MPI_Status status;
    int out[COUNT], in[COUNT];
    MPI_Type_contiguous(2, MPI_INT, &pairs), MPI_Type_commit(&pairs);
    MPI_Type_contiguous(4, MPI_BYTE, &bytes), MPI_Type_commit(&bytes);
    for (int length = 0; length <= COUNT; length += 3) {
        for (int at = 0; at < COUNT; at++)
            out[at] = rank * 100 + at, in[at] = -1;
        MPI_Sendrecv(out, length, MPI_INT, right, length, in, COUNT / 2, pairs, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
        MPI_Get_count(&status, pairs, &count), MPI_Get_elements(&status, pairs, &elements);
        SAY("length %d: from %d, tag %d, count %d, elements %d, %lu", length, status.MPI_SOURCE, status.MPI_TAG,
            count == MPI_UNDEFINED ? -99 : count, elements, digest(in, sizeof in));
        CHECK(status.MPI_SOURCE == left);
    }
    MPI_Request request;
    MPI_Message message;
    MPI_Isend(out, 5, MPI_INT, right, 7, MPI_COMM_WORLD, &request);
    MPI_Mprobe(left, 7, MPI_COMM_WORLD, &message, &status), MPI_Get_count(&status, MPI_INT, &count), SAY("probed %d", count);
    MPI_Mrecv(in, 5, MPI_INT, &message, &status), MPI_Wait(&request, MPI_STATUS_IGNORE);
    SAY("no message left %d, %lu", message == MPI_MESSAGE_NULL, digest(in, 20));
    MPI_Recv(in, 1, MPI_INT, MPI_PROC_NULL, 3, MPI_COMM_WORLD, &status), MPI_Get_count(&status, MPI_INT, &count);
    SAY("from nobody %d %d %d", status.MPI_SOURCE == MPI_PROC_NULL, status.MPI_TAG == MPI_ANY_TAG, count);
    MPI_Type_free(&pairs), MPI_Type_free(&bytes);
}

struct of { const char *name; MPI_Datatype type; int bytes, kind; };
enum { INTEGER = 1, REAL = 2, BITS = 4 };

/* Small numbers, whose sums are exact in every type and order. */
static void fill(void *place, const struct of *of, int seed) {
    for (int at = 0; at < COUNT; at++) {
        int number = (seed * 7 + at * 3) % 4 + 1;
        float single = (float)number;
        double twice = number;
        if (of->kind == REAL)
            memcpy((char *)place + at * of->bytes, of->bytes == 4 ? (void *)&single : (void *)&twice, of->bytes);
        else
            memset((char *)place + at * of->bytes, 0, of->bytes), ((char *)place)[at * of->bytes] = (char)number;
    }
}

static int add_then_double(int number) { return number * 2 + 1; }

/* An operation that does not commute, so that the result depends on the order of the ranks. */
static void chain(void *in, void *inout, int *length, MPI_Datatype *type) {
    (void)type;
    for (int at = 0; at < *length; at++) {
        uint32_t *a = (uint32_t *)in + 2 * at, *b = (uint32_t *)inout + 2 * at;
        b[1] = a[1] * b[0] + b[1], b[0] = a[0] * b[0];
    }
}

static void reductions(void) {
    struct of all[] = {{"int", MPI_INT, 4, INTEGER}, {"int8", MPI_INT8_T, 1, INTEGER}, {"uint16", MPI_UINT16_T, 2, INTEGER},
                       {"int64", MPI_INT64_T, 8, INTEGER}, {"unsigned", MPI_UNSIGNED, 4, INTEGER}, {"float", MPI_FLOAT, 4, REAL},
                       {"double", MPI_DOUBLE, 8, REAL}, {"byte", MPI_BYTE, 1, BITS}};
    struct { const char *name; MPI_Op op; int kinds; } ops[] = {
        {"max", MPI_MAX, INTEGER | REAL}, {"min", MPI_MIN, INTEGER | REAL}, {"sum", MPI_SUM, INTEGER | REAL}, {"prod", MPI_PROD, INTEGER | REAL},
        {"land", MPI_LAND, INTEGER}, {"lor", MPI_LOR, INTEGER}, {"lxor", MPI_LXOR, INTEGER},
        {"band", MPI_BAND, INTEGER | BITS}, {"bor", MPI_BOR, INTEGER | BITS}, {"bxor", MPI_BXOR, INTEGER | BITS}};
    char out[COUNT * 8], in[COUNT * 8];
    MPI_Request request;
    for (size_t t = 0; t < sizeof all / sizeof *all; t++)
        for (size_t o = 0; o < sizeof ops / sizeof *ops; o++) {
            if (!(ops[o].kinds & all[t].kind))
                continue;
            size_t bytes = (size_t)COUNT * all[t].bytes;
            unsigned long sums[6] = {0};
            fill(out, &all[t], rank);
            MPI_Allreduce(out, in, COUNT, all[t].type, ops[o].op, MPI_COMM_WORLD), sums[0] = digest(in, bytes);
            memset(in, 9, bytes), MPI_Reduce(out, in, COUNT, all[t].type, ops[o].op, size - 1, MPI_COMM_WORLD), sums[1] = digest(in, bytes);
            memset(in, 9, bytes), MPI_Scan(out, in, COUNT, all[t].type, ops[o].op, MPI_COMM_WORLD), sums[2] = digest(in, bytes);
            memset(in, 9, bytes), MPI_Exscan(out, in, COUNT, all[t].type, ops[o].op, MPI_COMM_WORLD), sums[3] = rank ? digest(in, bytes) : 0;
            memset(in, 9, bytes), MPI_Reduce_scatter_block(out, in, COUNT / size, all[t].type, ops[o].op, MPI_COMM_WORLD), sums[4] = digest(in, bytes);
            memset(in, 9, bytes), MPI_Iallreduce(out, in, COUNT, all[t].type, ops[o].op, MPI_COMM_WORLD, &request);
            MPI_Wait(&request, MPI_STATUS_IGNORE), sums[5] = digest(in, bytes);
            SAY("%s of %s: %lx %lx %lx %lx %lx %lx", ops[o].name, all[t].name, sums[0], sums[1], sums[2], sums[3], sums[4], sums[5]);
        }
    struct { double value; int place; } own = {rank % 2, rank}, far;
    MPI_Allreduce(&own, &far, 1, MPI_DOUBLE_INT, MPI_MAXLOC, MPI_COMM_WORLD), SAY("maxloc %g %d", far.value, far.place);
    MPI_Allreduce(&own, &far, 1, MPI_DOUBLE_INT, MPI_MINLOC, MPI_COMM_WORLD), SAY("minloc %g %d", far.value, far.place);
    MPI_Op ordered;
    MPI_Datatype two;
    MPI_Type_contiguous(2, MPI_UINT32_T, &two), MPI_Type_commit(&two), MPI_Op_create(chain, 0, &ordered);
    uint32_t step[2] = {(uint32_t)rank + 2, (uint32_t)add_then_double(rank)}, came[2] = {0, 0};
    MPI_Allreduce(step, came, 1, two, ordered, MPI_COMM_WORLD), SAY("ordered %u %u", came[0], came[1]);
    MPI_Scan(step, came, 1, two, ordered, MPI_COMM_WORLD), SAY("ordered so far %u %u", came[0], came[1]);
    MPI_Op_free(&ordered), MPI_Type_free(&two);
}

static void exchanges(void) {
    int out[64], in[64], counts[16], places[16], others[16], other_places[16];
    for (int at = 0; at < 64; at++)
        out[at] = rank * 1000 + at;
    for (int at = 0; at < size; at++) {
        counts[at] = at + 1, places[at] = at * 5;
        others[at] = rank + 1, other_places[at] = at * 6;
    }
#define WITH(call) (memset(in, 255, sizeof in), (call), SAY("%.36s %lx", #call, digest(in, sizeof in)))
    WITH(MPI_Gather(out, 3, MPI_INT, in, 3, MPI_INT, size - 1, MPI_COMM_WORLD));
    WITH(MPI_Gatherv(out, rank + 1, MPI_INT, in, counts, places, MPI_INT, 0, MPI_COMM_WORLD));
    WITH(MPI_Scatter(out, 2, MPI_INT, in, 2, MPI_INT, size / 2, MPI_COMM_WORLD));
    WITH(MPI_Scatterv(out, counts, places, MPI_INT, in, rank + 1, MPI_INT, 0, MPI_COMM_WORLD));
    WITH(MPI_Allgather(out, 4, MPI_INT, in, 4, MPI_INT, MPI_COMM_WORLD));
    WITH(MPI_Allgatherv(out, rank + 1, MPI_INT, in, counts, places, MPI_INT, MPI_COMM_WORLD));
    WITH(MPI_Alltoall(out, 3, MPI_INT, in, 3, MPI_INT, MPI_COMM_WORLD));
    WITH(MPI_Alltoallv(out, counts, places, MPI_INT, in, others, other_places, MPI_INT, MPI_COMM_WORLD));
    WITH((memcpy(in, out, sizeof in), MPI_Bcast(in, 17, MPI_INT, size - 1, MPI_COMM_WORLD)));
    WITH((memcpy(in, out, sizeof in), MPI_Allgather(MPI_IN_PLACE, 0, MPI_INT, in, 4, MPI_INT, MPI_COMM_WORLD)));
    WITH((memcpy(in, out, sizeof in), MPI_Alltoall(MPI_IN_PLACE, 0, MPI_INT, in, 4, MPI_INT, MPI_COMM_WORLD)));
}

static void windows(void) {
    int memory[COUNT], got[COUNT], right = (rank + 1) % size, before = -1, found = -1, number = rank + 10, zero = 0;
    MPI_Win win;
    for (int at = 0; at < COUNT; at++)
        memory[at] = rank * 10 + at;
    MPI_Win_create(memory, sizeof memory, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    MPI_Win_fence(0, win);
    MPI_Put(&number, 1, MPI_INT, right, 3, 1, MPI_INT, win);
    for (int target = 0; target < size; target++)
        MPI_Accumulate(&number, 1, MPI_INT, target, 4, 1, MPI_INT, MPI_SUM, win);
    MPI_Win_fence(0, win);
    MPI_Get(got, COUNT, MPI_INT, right, 0, COUNT, MPI_INT, win);
    MPI_Win_fence(0, win);
    SAY("window %lx, next %lx", digest(memory, sizeof memory), digest(got, sizeof got));
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, right, 0, win);
    MPI_Fetch_and_op(&number, &before, MPI_INT, right, 5, MPI_REPLACE, win), MPI_Win_flush(right, win);
    MPI_Compare_and_swap(&zero, &number, &found, MPI_INT, right, 5, win);
    MPI_Win_unlock(right, win);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_fence(0, win);
    SAY("before %d, found %d, now %d", before, found, memory[5]);
    MPI_Win_free(&win);
}

static void packing(void) {
    char bytes[256];
    int place = 0, list[3] = {rank, 2, 3}, back[3];
    double number = 1.5 + rank, read;
    MPI_Pack(list, 3, MPI_INT, bytes, 256, &place, MPI_COMM_WORLD), MPI_Pack(&number, 1, MPI_DOUBLE, bytes, 256, &place, MPI_COMM_WORLD);
    MPI_Bcast(bytes, 256, MPI_PACKED, size - 1, MPI_COMM_WORLD);
    place = 0;
    MPI_Unpack(bytes, 256, &place, back, 3, MPI_INT, MPI_COMM_WORLD), MPI_Unpack(bytes, 256, &place, &read, 1, MPI_DOUBLE, MPI_COMM_WORLD);
    SAY("packed %d %d %d %g", back[0], back[1], back[2], read);
    MPI_Aint far = 0;
    MPI_Pack_external("external32", list, 3, MPI_INT, bytes, 256, &far), MPI_Pack_external("external32", &number, 1, MPI_DOUBLE, bytes, 256, &far);
    SAY("external %ld, %lx", (long)far, digest(bytes, (size_t)far));
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    statuses(), reductions(), exchanges(), windows(), packing();
    fflush(stdout);
    return end();
}
