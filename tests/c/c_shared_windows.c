/* Windows on memory that all tasks load from and store to. */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static int rank, size;

#define CHECK(condition)                                                                          \
    do {                                                                                          \
        if (!(condition)) {                                                                       \
            printf("line %d, rank %d: %s is false\n", __LINE__, rank, #condition);                \
            fflush(stdout);                                                                       \
            exit(3);                                                                              \
        }                                                                                         \
    } while (0)

static int class_of(int code) {
    int class;
    MPI_Error_class(code, &class);
    return class;
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm node;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);

    /* Rank r has r + 1 numbers; the parts are contiguous. */
    int *own, *all, *found, unit, *flavor, flag, previous = (rank + size - 1) % size;
    MPI_Aint bytes;
    MPI_Win win;
    MPI_Win_allocate_shared((rank + 1) * sizeof(int), sizeof(int), MPI_INFO_NULL, node, &own, &win);
    MPI_Win_get_attr(win, MPI_WIN_CREATE_FLAVOR, &flavor, &flag);
    CHECK(flag && *flavor == MPI_WIN_FLAVOR_SHARED);
    MPI_Win_shared_query(win, 0, &bytes, &unit, &all);
    CHECK(bytes == sizeof(int) && unit == sizeof(int));
    CHECK(own == all + rank * (rank + 1) / 2);
    MPI_Win_fence(0, win);
    for (int i = 0; i <= rank; i++) own[i] = 100 * rank + i;
    MPI_Win_fence(0, win);
    for (int r = 0; r < size; r++) {
        MPI_Win_shared_query(win, r, &bytes, &unit, &found);
        CHECK(bytes == (MPI_Aint)((r + 1) * sizeof(int)));
        for (int i = 0; i <= r; i++) CHECK(found[i] == 100 * r + i && found + i == all + r * (r + 1) / 2 + i);
    }
    MPI_Win_fence(0, win);
    /* A store into the part of another task, a put, and an update. */
    MPI_Win_shared_query(win, previous, &bytes, &unit, &found);
    found[0] = -rank;
    MPI_Win_fence(0, win);
    CHECK(own[0] == -((rank + 1) % size));
    MPI_Win_fence(0, win);
    int value = 1000 + rank, one = 1;
    MPI_Put(&value, 1, MPI_INT, previous, 0, 1, MPI_INT, win);
    MPI_Win_fence(0, win);
    CHECK(own[0] == 1000 + (rank + 1) % size);
    MPI_Win_fence(0, win);
    for (int i = 0; i < 100; i++) MPI_Accumulate(&one, 1, MPI_INT, 0, 0, 1, MPI_INT, MPI_SUM, win);
    MPI_Win_fence(0, win);
    if (rank == 0) CHECK(own[0] == 1000 + 1 % size + 100 * size);
    CHECK(all[0] == 1000 + 1 % size + 100 * size);
    CHECK(MPI_Win_free(&win) == MPI_SUCCESS);

    /* Parts that begin at separate pages, some of them empty; the query for the first part that is not empty. */
    MPI_Info info;
    MPI_Info_create(&info);
    MPI_Info_set(info, "alloc_shared_noncontig", "true");
    int last = size - 1;
    MPI_Win_allocate_shared(rank == last ? 10 : 0, 1, info, node, &own, &win);
    MPI_Info_free(&info);
    MPI_Win_shared_query(win, MPI_PROC_NULL, &bytes, &unit, &found);
    CHECK(bytes == 10 && unit == 1);
    MPI_Win_lock_all(0, win);
    if (rank == 0) *(volatile char *)found = 7;
    MPI_Win_sync(win);
    MPI_Barrier(node);
    MPI_Win_sync(win);
    if (rank == last) CHECK(*(char *)own == 7);
    MPI_Win_unlock_all(win);
    MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
    CHECK(class_of(MPI_Win_shared_query(win, size, &bytes, &unit, &found)) == MPI_ERR_RANK);
    MPI_Win_free(&win);

    /* A large window, of which most pages are untouched. */
    char *large;
    MPI_Win_allocate_shared((MPI_Aint)1 << 30, 1, MPI_INFO_NULL, node, &large, &win);
    MPI_Win_fence(0, win);
    large[((size_t)1 << 30) - 1] = (char)rank;
    MPI_Win_fence(0, win);
    MPI_Win_shared_query(win, last, &bytes, &unit, &large);
    CHECK(large[((size_t)1 << 30) - 1] == (char)last);
    MPI_Win_free(&win);

    /* The parts of other kinds of windows are in memory of the job here, which each task has mapped (MPI 5.0, 12.2.3). */
    MPI_Win_allocate((rank + 1) * sizeof(int), sizeof(int), MPI_INFO_NULL, node, &own, &win);
    *own = 40 + rank;
    MPI_Win_fence(0, win);
    MPI_Win_shared_query(win, last, &bytes, &unit, &found);
    CHECK(bytes == (MPI_Aint)(size * sizeof(int)) && unit == sizeof(int) && *found == 40 + last);
    MPI_Win_fence(0, win);
    if (rank == 0) *found = 7;
    MPI_Win_fence(0, win);
    if (rank == last) CHECK(*own == 7 && found == own);
    MPI_Win_free(&win);
    int *made = NULL, here;
    if (rank == last) MPI_Alloc_mem(sizeof(int), MPI_INFO_NULL, &made);
    MPI_Win_create(rank == last ? made : &here, rank == last ? sizeof(int) : 0, 1, MPI_INFO_NULL, node, &win);
    MPI_Win_shared_query(win, MPI_PROC_NULL, &bytes, &unit, &found);
    CHECK(bytes == sizeof(int) && unit == 1);
    MPI_Win_fence(0, win);
    if (rank == 0) *found = 8;
    MPI_Win_fence(0, win);
    if (rank == last) CHECK(*made == 8);
    MPI_Win_free(&win);
    /* Memory of the program's own is not mapped. */
    MPI_Win_create(&here, sizeof here, 1, MPI_INFO_NULL, node, &win);
    MPI_Win_shared_query(win, last, &bytes, &unit, &found);
    CHECK(rank == last ? bytes == sizeof here && found == &here : bytes == 0 && found == NULL);
    MPI_Win_free(&win);
    if (rank == last) MPI_Free_mem(made);
    MPI_Comm_free(&node);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) printf("all good\n");
    MPI_Finalize();
    return 0;
}
