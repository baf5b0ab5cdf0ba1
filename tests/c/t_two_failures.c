/* A fatal error, and another one in a function that runs at exit. */
#include <mpi.h>
#include <stdlib.h>

static void at_exit(void) {
    int x = 0;
    MPI_Send(&x, 1, MPI_INT, 99, 0, MPI_COMM_WORLD);
}

int main(int argc, char **argv) {
    int x = 0;
    MPI_Init(&argc, &argv);
    atexit(at_exit);
    MPI_Send(&x, 1, MPI_INT, 77, 0, MPI_COMM_WORLD);
    return 0;
}
