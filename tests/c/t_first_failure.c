/* Task 1 gets a message that is too long, and ends late; task 0 fails later, and ends earlier. The argument names a file that task 1 makes
   after its failure. */
#include <fcntl.h>
#include <mpi.h>
#include <stdlib.h>
#include <unistd.h>

static const char *has_failed;

static void linger(void) {
    close(open(has_failed, O_CREAT | O_WRONLY, 0600));
    usleep(500000);
}

int main(int argc, char **argv) {
    int rank, data[8] = {0};
    has_failed = argv[1];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 1) {
        atexit(linger);
        MPI_Recv(data, 4, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else {
        MPI_Send(data, 8, MPI_INT, 1, 0, MPI_COMM_WORLD);
        while (access(has_failed, F_OK) != 0) usleep(1000);
        MPI_Send(data, 8, MPI_INT, 7, 0, MPI_COMM_WORLD);
    }
    return 0;
}
