/* Windows: each kind of synchronization and of transfer, with any number of tasks. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int rank, size;

#define CHECK(condition)                                                                       \
    do {                                                                                       \
        if (!(condition)) {                                                                    \
            fprintf(stderr, "rank %d, line %d: %s\n", rank, __LINE__, #condition);             \
            MPI_Abort(MPI_COMM_WORLD, 2);                                                      \
        }                                                                                      \
    } while (0)

static void attributes(MPI_Win win, void *base, MPI_Aint bytes, int unit, int flavor) {
    void *value;
    int flag;
    MPI_Win_get_attr(win, MPI_WIN_BASE, &value, &flag);
    CHECK(flag && value == base);
    MPI_Win_get_attr(win, MPI_WIN_SIZE, &value, &flag);
    CHECK(flag && *(MPI_Aint *)value == bytes);
    MPI_Win_get_attr(win, MPI_WIN_DISP_UNIT, &value, &flag);
    CHECK(flag && *(int *)value == unit);
    MPI_Win_get_attr(win, MPI_WIN_CREATE_FLAVOR, &value, &flag);
    CHECK(flag && *(int *)value == flavor);
    MPI_Win_get_attr(win, MPI_WIN_MODEL, &value, &flag);
    CHECK(flag && *(int *)value == MPI_WIN_UNIFIED);
}

static void fences(void) {
    int *memory = calloc(64, sizeof(int)), right = (rank + 1) % size, left = (rank + size - 1) % size, got = -1;
    MPI_Win win;
    MPI_Win_create(memory, 64 * sizeof(int), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    attributes(win, memory, 64 * sizeof(int), sizeof(int), MPI_WIN_FLAVOR_CREATE);
    MPI_Win_fence(MPI_MODE_NOPRECEDE, win);
    int value = 100 + rank;
    MPI_Put(&value, 1, MPI_INT, right, 3, 1, MPI_INT, win);
    MPI_Win_fence(0, win);
    CHECK(memory[3] == 100 + left);
    MPI_Get(&got, 1, MPI_INT, right, 3, 1, MPI_INT, win);
    MPI_Put(&value, 1, MPI_INT, MPI_PROC_NULL, 3, 1, MPI_INT, win);
    MPI_Win_fence(0, win);
    CHECK(got == 100 + rank);
    MPI_Request nothing[4];
    MPI_Rput(&value, 1, MPI_INT, MPI_PROC_NULL, 3, 1, MPI_INT, win, &nothing[0]);
    MPI_Rget(&got, 1, MPI_INT, MPI_PROC_NULL, 3, 1, MPI_INT, win, &nothing[1]);
    MPI_Raccumulate(&value, 1, MPI_INT, MPI_PROC_NULL, 3, 1, MPI_INT, MPI_SUM, win, &nothing[2]);
    MPI_Rget_accumulate(NULL, 0, MPI_INT, &got, 1, MPI_INT, MPI_PROC_NULL, 3, 1, MPI_INT, MPI_NO_OP, win, &nothing[3]);
    MPI_Waitall(4, nothing, MPI_STATUSES_IGNORE);
    CHECK(got == 100 + rank && value == 100 + rank);
    MPI_Accumulate(&value, 1, MPI_INT, 0, 5, 1, MPI_INT, MPI_SUM, win);
    MPI_Win_fence(MPI_MODE_NOSUCCEED, win);
    if (rank == 0) CHECK(memory[5] == 100 * size + size * (size - 1) / 2);
    MPI_Win_free(&win);
    CHECK(win == MPI_WIN_NULL);
    free(memory);
}

static void locks(void) {
    long *memory;
    MPI_Win win;
    MPI_Win_allocate(8 * sizeof(long), sizeof(long), MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win);
    memset(memory, 0, 8 * sizeof(long));
    attributes(win, memory, 8 * sizeof(long), sizeof(long), MPI_WIN_FLAVOR_ALLOCATE);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int turn = 0; turn < 100; turn++) {
        long now;
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win);
        MPI_Get(&now, 1, MPI_LONG, 0, 0, 1, MPI_LONG, win);
        MPI_Win_flush(0, win);
        now++;
        MPI_Put(&now, 1, MPI_LONG, 0, 0, 1, MPI_LONG, win);
        MPI_Win_unlock(0, win);
    }
    MPI_Win_lock_all(0, win);
    long one = 1, old = -1, taken = 0, mine = rank + 1;
    for (int turn = 0; turn < 100; turn++) MPI_Fetch_and_op(&one, &old, MPI_LONG, 0, 1, MPI_SUM, win);
    MPI_Win_flush_all(win);
    CHECK(old >= 99);
    MPI_Compare_and_swap(&mine, &taken, &old, MPI_LONG, 0, 2, win);
    MPI_Win_flush_local(0, win);
    CHECK(old >= 0 && old <= size);
    MPI_Request requests[2];
    long rgot = -1;
    MPI_Rput(&mine, 1, MPI_LONG, rank, 4, 1, MPI_LONG, win, &requests[0]);
    MPI_Raccumulate(&one, 1, MPI_LONG, 0, 3, 1, MPI_LONG, MPI_SUM, win, &requests[1]);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    MPI_Win_flush_all(win);
    MPI_Rget(&rgot, 1, MPI_LONG, rank, 4, 1, MPI_LONG, win, &requests[0]);
    MPI_Rget_accumulate(NULL, 0, MPI_LONG, &old, 1, MPI_LONG, rank, 4, 1, MPI_LONG, MPI_NO_OP, win, &requests[1]);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    CHECK(rgot == mine && old == mine);
    MPI_Win_sync(win);
    MPI_Win_unlock_all(win);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win);
    long all[4];
    MPI_Get(all, 4, MPI_LONG, 0, 0, 4, MPI_LONG, win);
    MPI_Win_unlock(0, win);
    CHECK(all[0] == 100L * size && all[1] == 100L * size && all[2] > 0 && all[3] == size);
    MPI_Win_free(&win);
}

static void groups(void) {
    int memory = -1, right = (rank + 1) % size, left = (rank + size - 1) % size;
    MPI_Win win;
    MPI_Group everybody;
    MPI_Win_create(&memory, sizeof memory, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    MPI_Win_get_group(win, &everybody);
    MPI_Win_post(everybody, 0, win);
    MPI_Win_start(everybody, 0, win);
    MPI_Put(&rank, 1, MPI_INT, right, 0, 1, MPI_INT, win);
    MPI_Win_complete(win);
    if (rank % 2) {
        MPI_Win_wait(win);
    } else {
        for (int flag = 0; !flag;) MPI_Win_test(win, &flag);
    }
    CHECK(memory == left);
    MPI_Win_free(&win);
}

static void dynamic(void) {
    double memory[4] = {0};
    MPI_Win win;
    MPI_Aint *places = malloc(size * sizeof *places), mine;
    MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    MPI_Win_attach(win, memory, sizeof memory);
    MPI_Get_address(memory, &mine);
    MPI_Allgather(&mine, 1, MPI_AINT, places, 1, MPI_AINT, MPI_COMM_WORLD);
    int right = (rank + 1) % size, left = (rank + size - 1) % size;
    double value = 0.5 + rank;
    MPI_Win_fence(0, win);
    MPI_Put(&value, 1, MPI_DOUBLE, right, MPI_Aint_add(places[right], 2 * sizeof(double)), 1, MPI_DOUBLE, win);
    MPI_Win_fence(0, win);
    CHECK(memory[2] == 0.5 + left);
    MPI_Win_detach(win, memory);
    MPI_Win_free(&win);
    free(places);
}

static int deleted, heard;

static int forget(MPI_Win win, int key, void *value, void *extra) {
    (void)win, (void)key;
    deleted += *(int *)value + *(int *)extra;
    return MPI_SUCCESS;
}

static void hear(MPI_Win *win, int *code, ...) {
    (void)win;
    MPI_Error_class(*code, &heard);
}

static void names_and_errors(void) {
    int key, extra = 10, value = 5, *found, flag, len;
    char name[MPI_MAX_OBJECT_NAME];
    MPI_Win win;
    MPI_Win_create_keyval(MPI_WIN_NULL_COPY_FN, forget, &key, &extra);
    MPI_Win_create(NULL, 0, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    MPI_Win_get_attr(win, key, &found, &flag);
    CHECK(!flag);
    MPI_Win_set_attr(win, key, &value);
    MPI_Win_get_attr(win, key, &found, &flag);
    CHECK(flag && found == &value);
    MPI_Win_free_keyval(&key);
    CHECK(key == MPI_KEYVAL_INVALID);
    MPI_Win_set_name(win, "a window");
    MPI_Win_get_name(win, name, &len);
    CHECK(len == 8 && !strcmp(name, "a window"));
    MPI_Errhandler handler;
    MPI_Win_create_errhandler(hear, &handler);
    MPI_Win_set_errhandler(win, handler);
    CHECK(MPI_Win_lock(12345, 0, 0, win) != MPI_SUCCESS && heard == MPI_ERR_LOCKTYPE);
    CHECK(MPI_Win_unlock(0, win) != MPI_SUCCESS && heard == MPI_ERR_RMA_SYNC);
    CHECK(MPI_Put(&value, 1, MPI_INT, size, 0, 1, MPI_INT, win) != MPI_SUCCESS && heard == MPI_ERR_RANK);
    CHECK(MPI_Put(&value, -1, MPI_INT, 0, 0, 1, MPI_INT, win) != MPI_SUCCESS && heard == MPI_ERR_COUNT);
    MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
    MPI_Win_free(&win);
    CHECK(deleted == 15);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    int code = MPI_Win_fence(0, MPI_WIN_NULL);
    MPI_Error_class(code, &heard);
    CHECK(heard == MPI_ERR_WIN);
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    fences();
    locks();
    groups();
    dynamic();
    names_and_errors();
    MPI_Finalize();
    if (rank == 0) puts("all good");
    return 0;
}
