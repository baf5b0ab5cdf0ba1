/* Each rank sends its number to the next one; all ranks get the sum of all numbers. */
#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv) {
    int rank, size, got, sum;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int next = (rank + 1) % size, previous = (rank + size - 1) % size;
    MPI_Sendrecv(&rank, 1, MPI_INT, next, 0, &got, 1, MPI_INT, previous, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Allreduce(&got, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0)
        printf("%s: the sum is %d\n", sum == size * (size - 1) / 2 ? "all good" : "wrong", sum);
    return MPI_Finalize();
}
