/* The messages that the tests of statistics and traces count: 13 eager messages of 8 bytes and 1 of a megabyte from rank 0 to rank 1, of
   which 3 arrive before their receives; 10 messages of 8 bytes back, of which rank 0 has to wait for the first. With an argument rank 1
   dies at the end, in a receive. */
#include <mpi.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

static char large[1 << 20];

static void die(int number) {
    (void)number;
    _exit(3);
}

int main(int argc, char **argv) {
    int rank;
    long word = 4;
    const char *pause = getenv("T_TRACE_MILLISECONDS");
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0) {
        for (int i = 0; i < 3; i++) MPI_Send(&word, 1, MPI_LONG, 1, i, MPI_COMM_WORLD);
        for (int i = 0; i < 10; i++) {
            MPI_Send(&word, 1, MPI_LONG, 1, 7, MPI_COMM_WORLD);
            MPI_Recv(&word, 1, MPI_LONG, 1, 8, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        }
        MPI_Send(large, sizeof large, MPI_CHAR, 1, 9, MPI_COMM_WORLD);
    } else {
        for (int i = 0; i < 10; i++) {
            MPI_Recv(&word, 1, MPI_LONG, 0, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            if (i == 0) usleep(1000 * (pause ? atoi(pause) : 300));
            MPI_Send(&word, 1, MPI_LONG, 0, 8, MPI_COMM_WORLD);
        }
        for (int i = 2; i >= 0; i--) MPI_Recv(&word, 1, MPI_LONG, 0, i, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Recv(large, sizeof large, MPI_CHAR, 0, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (argc > 1) {
            signal(SIGALRM, die);
            alarm(1);
            MPI_Recv(&word, 1, MPI_LONG, 0, 99, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        }
    }
    MPI_Finalize();
    return 0;
}
