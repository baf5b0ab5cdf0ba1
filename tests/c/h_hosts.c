/* Shared windows, while tasks 0 and 1 run on one host and task 2 on another. */
#include "check.h"

int main(int argc, char **argv) {
    begin(&argc, &argv);
    int near, *own, *found, unit;
    MPI_Comm node;
    MPI_Win win;
    MPI_Aint bytes;
    CHECK(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node) == MPI_SUCCESS);
    MPI_Comm_size(node, &near);
    CHECK(near == (rank < 2 ? 2 : 1));
    /* The next smaller resource of the job is a host, which the info tells (MPI 5.0, 7.4.2); a host has no smaller one. */
    MPI_Comm smaller, smallest;
    MPI_Info told;
    char resource[MPI_MAX_INFO_VAL + 1] = "";
    int like, has_told = 0;
    MPI_Info_create(&told);
    CHECK(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_HW_UNGUIDED, 0, told, &smaller) == MPI_SUCCESS);
    MPI_Info_get(told, "mpi_hw_resource_type", MPI_MAX_INFO_VAL, resource, &has_told);
    CHECK(has_told && strcmp(resource, "mpi_shared_memory") == 0);
    MPI_Info_free(&told);
    CHECK(smaller != MPI_COMM_NULL && !MPI_Comm_compare(node, smaller, &like) && like == MPI_CONGRUENT);
    CHECK(!MPI_Comm_split_type(smaller, MPI_COMM_TYPE_HW_UNGUIDED, 0, MPI_INFO_NULL, &smallest) && smallest == MPI_COMM_NULL);
    MPI_Comm_free(&smaller);
    CHECK(MPI_Win_allocate_shared(sizeof(int), sizeof(int), MPI_INFO_NULL, node, &own, &win) == MPI_SUCCESS);
    MPI_Win_fence(0, win), *own = 7 + rank, MPI_Win_fence(0, win);
    CHECK(MPI_Win_shared_query(win, near - 1, &bytes, &unit, &found) == MPI_SUCCESS);
    CHECK(bytes == sizeof(int) && *found == (rank < 2 ? 8 : 9));
    MPI_Win_fence(0, win), MPI_Win_free(&win), MPI_Comm_free(&node);
    /* Of an allocated window in a job of several hosts, only a task's own part is given; other parts are reported as empty. */
    CHECK(MPI_Win_allocate(sizeof(int), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &own, &win) == MPI_SUCCESS);
    for (int other = 0; other < 3; other++) {
        CHECK(MPI_Win_shared_query(win, other, &bytes, &unit, &found) == MPI_SUCCESS);
        CHECK(other == rank ? bytes == sizeof(int) && found != NULL : bytes == 0 && found == NULL);
    }
    MPI_Win_free(&win);
    /* All tasks get the error, and go on. */
    FAILS(MPI_Win_allocate_shared(sizeof(int), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &own, &win), MPI_ERR_RMA_SHARED);
    return end();
}
