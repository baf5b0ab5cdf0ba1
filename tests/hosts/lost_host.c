/* The host of the last task vanishes: its link goes down while the other tasks wait for this task. Each of them gets an error within
   seconds. */
#include <mpi.h>
#include <stdio.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    int rank, size, number, length;
    char text[MPI_MAX_ERROR_STRING];

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == size - 1) {
        printf("ready\n");
        fflush(stdout);
        for (;;) pause();
    }
    int error = MPI_Recv(&number, 1, MPI_INT, size - 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Error_string(error, text, &length);
    printf("task %d is told: %s\n", rank, error == MPI_SUCCESS ? "nothing" : text);
    fflush(stdout);
    return error == MPI_SUCCESS;
}
