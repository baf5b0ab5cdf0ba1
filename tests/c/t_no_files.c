/* A program that does not look at the codes of the calls about files. With an argument, each task opens a file of its own. */
#include <mpi.h>

int main(int argc, char **argv) {
    MPI_File file;
    MPI_Init(&argc, &argv);
    for (int round = 0; round < 2; round++) {
        MPI_File_open(argc > 1 ? MPI_COMM_SELF : MPI_COMM_WORLD, "results", MPI_MODE_CREATE | MPI_MODE_WRONLY, MPI_INFO_NULL, &file);
        MPI_File_write(file, &round, 1, MPI_INT, MPI_STATUS_IGNORE);
        MPI_File_close(&file);
    }
    MPI_Finalize();
    return 0;
}
