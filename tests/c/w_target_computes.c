/* Operations on a window need no MPI call by the target, whether all tasks map its memory or the kernel copies it: rank 0 computes, without
   an MPI call, until all other tasks have done every operation on the window of rank 0, and have counted themselves there. For tasks of one
   host: operations on a task of another host need MPI calls by the target. */
#include <complex.h>
#include <stdint.h>
#include <time.h>

#include "check.h"

#define BYTES 1024
#define ROUNDS 50
/* Offsets in the window: the number of tasks that have done all operations, and then the elements of each kind, 16 bytes apart. */
enum { COUNT = 0, LOCKED = 8, PUT = 16, KINDS = 64, MISPLACED = 513, PAIRS = 640, SMALL = 768, ALIGNED = 800 };

static char *memory;
static MPI_Win win;
/* The base of displacements: 0, or in a dynamic window the address of the memory at rank 0. */
static MPI_Aint origin;

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + 1e-9 * time.tv_nsec;
}

/* Computes until `others` tasks have counted themselves. Returns 0 at a time limit, which only ends a test that would hang. */
static int computes_until(int others) {
    double begun = now();
    while (*(volatile int *)(memory + COUNT) != others)
        if (now() - begun > 200) return 0;
    return 1;
}

/* Adds 1 three times in each round: by MPI_Accumulate, and by MPI_Fetch_and_op twice. */
#define ADD(type, datatype, at)                                                                   \
    do {                                                                                          \
        type one = 1, old[2] = {-1, 0};                                                           \
        for (int i = 0; i < ROUNDS; i++) {                                                        \
            MPI_Accumulate(&one, 1, datatype, 0, origin + (at), 1, datatype, MPI_SUM, win);                  \
            MPI_Fetch_and_op(&one, &old[0], datatype, 0, origin + (at), MPI_SUM, win);                       \
            MPI_Fetch_and_op(&one, &old[1], datatype, 0, origin + (at), MPI_SUM, win);                       \
            CHECK(creal(old[1]) > creal(old[0]) || sizeof(type) == 1);                            \
        }                                                                                         \
        MPI_Fetch_and_op(NULL, &old[0], datatype, 0, origin + (at), MPI_NO_OP, win);                         \
        CHECK(creal(old[0]) > creal(old[1]) || sizeof(type) == 1);                                \
    } while (0)

/* Adds 1 by MPI_Compare_and_swap. */
#define SWAP(type, datatype, at)                                                                  \
    do {                                                                                          \
        for (int i = 0; i < ROUNDS; i++) {                                                        \
            type before, after, found;                                                            \
            MPI_Fetch_and_op(NULL, &found, datatype, 0, origin + (at), MPI_NO_OP, win);                      \
            do {                                                                                  \
                before = found, after = before + 1;                                               \
                MPI_Compare_and_swap(&after, &before, &found, datatype, 0, origin + (at), win);              \
            } while (found != before);                                                            \
        }                                                                                         \
    } while (0)

#define EACH_KIND(DO)                                                                             \
    DO(int8_t, MPI_INT8_T, KINDS)                                                                 \
    DO(uint16_t, MPI_UINT16_T, KINDS + 16)                                                        \
    DO(int32_t, MPI_INT32_T, KINDS + 32)                                                          \
    DO(uint64_t, MPI_UINT64_T, KINDS + 48)                                                        \
    DO(float, MPI_FLOAT, KINDS + 64)                                                              \
    DO(double, MPI_DOUBLE, KINDS + 80)                                                            \
    DO(long double, MPI_LONG_DOUBLE, KINDS + 96)                                                  \
    DO(float complex, MPI_C_FLOAT_COMPLEX, KINDS + 112)                                           \
    DO(double complex, MPI_C_DOUBLE_COMPLEX, KINDS + 128)                                         \
    DO(int64_t, MPI_INT64_T, MISPLACED)                                                           \
    DO(int64_t, MPI_INT64_T, MISPLACED + 16 + 3)                                                  \
    DO(int16_t, MPI_INT16_T, MISPLACED + 32)                                                      \
    DO(int16_t, MPI_INT16_T, SMALL) DO(int16_t, MPI_INT16_T, SMALL + 2) DO(int8_t, MPI_INT8_T, SMALL + 4) \
    DO(int8_t, MPI_INT8_T, SMALL + 5)

/* A datatype of two elements: one whose address is not a multiple of its size, and one whose address is. */
static MPI_Datatype mixed(void) {
    int lengths[2] = {1, 1};
    MPI_Aint at[2] = {0, ALIGNED - MISPLACED};
    MPI_Datatype type;
    MPI_Type_create_hindexed(2, lengths, at, MPI_INT64_T, &type);
    MPI_Type_commit(&type);
    return type;
}

static void update(void) {
#define DO(type, datatype, at) ADD(type, datatype, at);
    EACH_KIND(DO)
#undef DO
    SWAP(int8_t, MPI_INT8_T, KINDS);
    SWAP(uint16_t, MPI_UINT16_T, KINDS + 16);
    SWAP(int32_t, MPI_INT32_T, KINDS + 32);
    SWAP(uint64_t, MPI_UINT64_T, KINDS + 48);
    SWAP(int64_t, MPI_INT64_T, MISPLACED);
    /* The second word of this datatype is aligned, and other calls update it as a single word: both kinds of calls must be atomic with
       respect to each other. */
    MPI_Datatype type = mixed();
    int64_t ones[2] = {1, 1}, old[2];
    for (int i = 0; i < ROUNDS; i++) {
        MPI_Accumulate(ones, 2, MPI_INT64_T, 0, origin + MISPLACED, 1, type, MPI_SUM, win);
        MPI_Get_accumulate(ones, 2, MPI_INT64_T, old, 2, MPI_INT64_T, 0, origin + MISPLACED, 1, type, MPI_SUM, win);
        MPI_Accumulate(ones, 1, MPI_INT64_T, 0, origin + ALIGNED, 1, MPI_INT64_T, MPI_SUM, win);
    }
    MPI_Type_free(&type);
    struct { double value; int at; } largest = {rank, rank};
    struct { short value; int at; } least = {(short)-rank, rank};
    MPI_Accumulate(&largest, 1, MPI_DOUBLE_INT, 0, origin + PAIRS, 1, MPI_DOUBLE_INT, MPI_MAXLOC, win);
    MPI_Accumulate(&least, 1, MPI_SHORT_INT, 0, origin + PAIRS + 32, 1, MPI_SHORT_INT, MPI_MINLOC, win);
}

#define MUST_BE(type, at, wanted)                                                                 \
    do {                                                                                          \
        type found;                                                                               \
        memcpy(&found, memory + (at), sizeof found);                                              \
        CHECK(found == (type)(wanted));                                                           \
    } while (0)

static void check(int tasks) {
    int adds = 3 * ROUNDS * tasks, swaps = ROUNDS * tasks;
    MUST_BE(int8_t, KINDS, adds + swaps);
    MUST_BE(uint16_t, KINDS + 16, adds + swaps);
    MUST_BE(int32_t, KINDS + 32, adds + swaps);
    MUST_BE(uint64_t, KINDS + 48, adds + swaps);
    MUST_BE(float, KINDS + 64, adds);
    MUST_BE(double, KINDS + 80, adds);
    MUST_BE(long double, KINDS + 96, adds);
    MUST_BE(float complex, KINDS + 112, adds);
    MUST_BE(double complex, KINDS + 128, adds);
    MUST_BE(int64_t, MISPLACED, adds + swaps + 2 * ROUNDS * tasks);
    MUST_BE(int64_t, MISPLACED + 16 + 3, adds);
    MUST_BE(int16_t, MISPLACED + 32, adds);
    MUST_BE(int16_t, SMALL, adds);
    MUST_BE(int16_t, SMALL + 2, adds);
    MUST_BE(int8_t, SMALL + 4, adds);
    MUST_BE(int8_t, SMALL + 5, adds);
    MUST_BE(int64_t, ALIGNED, 3 * ROUNDS * tasks);
    MUST_BE(double, PAIRS, size - 1);
    MUST_BE(int, PAIRS + 8, size - 1);
    MUST_BE(short, PAIRS + 32, -(size - 1));
    MUST_BE(int, PAIRS + 36, size - 1);
}

/* The operations of a task on the window of rank 0. */
static void use(void) {
    int value = 100 + rank, found = 0, one = 1;
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win);
    MPI_Put(&value, 1, MPI_INT, 0, origin + PUT, 1, MPI_INT, win);
    MPI_Win_flush(0, win);
    MPI_Get(&found, 1, MPI_INT, 0, origin + PUT, 1, MPI_INT, win);
    MPI_Win_flush(0, win);
    CHECK(found == value);
    MPI_Win_unlock(0, win);
    /* An exclusive lock excludes all other tasks. */
    for (int i = 0; i < ROUNDS; i++) {
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win);
        MPI_Get(&found, 1, MPI_INT, 0, origin + LOCKED, 1, MPI_INT, win);
        MPI_Win_flush(0, win);
        found++;
        MPI_Put(&found, 1, MPI_INT, 0, origin + LOCKED, 1, MPI_INT, win);
        MPI_Win_unlock(0, win);
    }
    MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win);
    update();
    MPI_Win_unlock(0, win);
    MPI_Win_lock_all(0, win);
    MPI_Accumulate(&one, 1, MPI_INT, 0, origin + COUNT, 1, MPI_INT, MPI_SUM, win);
    MPI_Win_flush_all(win);
    MPI_Win_unlock_all(win);
}

static void test(const char *flavor) {
    memset(memory, 0, BYTES);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank > 0) {
        use();
    } else if (!computes_until(size - 1)) {
        printf("%s: the others waited for a task that computes\n", flavor);
        CHECK(0);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0 && size > 1) {
        check(size - 1);
        MUST_BE(int, LOCKED, ROUNDS * (size - 1));
    }
    /* All tasks update at the same time, including the target, which accesses its own memory by the same calls. */
    memset(memory, 0, BYTES);
    MPI_Barrier(MPI_COMM_WORLD);
    use();
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        check(size);
        MUST_BE(int, LOCKED, ROUNDS * size);
        MUST_BE(int, COUNT, size);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (origin) MPI_Win_detach(win, memory);
    MPI_Win_free(&win);
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    MPI_Win_allocate(BYTES, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win);
    test("MPI_Win_allocate");
    char *block;
    MPI_Alloc_mem(2 * BYTES, MPI_INFO_NULL, &block);
    memory = block;
    MPI_Win_create(memory, BYTES, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    test("MPI_Win_create");
    /* The alignment of an element depends on its address, and not on its offset in the window. */
    memory = block + 4;
    MPI_Win_create(memory, BYTES, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    test("MPI_Win_create, at half a word");
    MPI_Free_mem(block);
    MPI_Win_allocate_shared(BYTES, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win);
    test("MPI_Win_allocate_shared");
    MPI_Info info;
    MPI_Info_create(&info);
    MPI_Info_set(info, "alloc_shared_noncontig", "true");
    MPI_Win_allocate_shared(BYTES, 1, info, MPI_COMM_WORLD, &memory, &win);
    MPI_Info_free(&info);
    test("MPI_Win_allocate_shared, apart");
    /* Memory that only its owner has mapped. */
    static _Alignas(16) char own[BYTES + 16];
    memory = own;
    MPI_Win_create(memory, BYTES, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    test("MPI_Win_create, on private memory");
    memory = own + 4;
    MPI_Win_create(memory, BYTES, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    test("MPI_Win_create, on private memory at half a word");
    /* Memory of both kinds in a dynamic window. */
    MPI_Alloc_mem(BYTES, MPI_INFO_NULL, &block);
    for (int i = 0; i < 2; i++) {
        memory = i ? own : block;
        MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &win);
        MPI_Win_attach(win, memory, BYTES);
        MPI_Get_address(memory, &origin);
        MPI_Bcast(&origin, 1, MPI_AINT, 0, MPI_COMM_WORLD);
        test(i ? "MPI_Win_create_dynamic, private memory" : "MPI_Win_create_dynamic");
    }
    MPI_Free_mem(block);
    return end();
}
