/* Three sends to the next task of a ring and three receives from the previous one, and some calls that the tool does not count. */
#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    int rank, tasks, number = 0, i;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &tasks);
    for (i = 0; i < 3; i++) {
        int next = (rank + 1) % tasks, before = (rank + tasks - 1) % tasks;
        if (rank % 2 == 0) MPI_Send(&rank, 1, MPI_INT, next, i, MPI_COMM_WORLD);
        MPI_Recv(&number, 1, MPI_INT, before, i, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (rank % 2 != 0) MPI_Send(&rank, 1, MPI_INT, next, i, MPI_COMM_WORLD);
        PMPI_Barrier(MPI_COMM_WORLD);
    }
    MPI_Finalize();
    return 0;
}
