/* Calls shmem_init where it is refused: with SPAWNS in a task that another has started, else beside another library of MPI. */
#include <mpi.h>
#include <shmem.h>
#include <stdio.h>

int main(int argc, char **argv) {
#ifdef SPAWNS
    MPI_Comm parent, children;
    MPI_Init(&argc, &argv);
    MPI_Comm_get_parent(&parent);
    if (parent == MPI_COMM_NULL) {
        MPI_Comm_spawn(argv[0], MPI_ARGV_NULL, 1, MPI_INFO_NULL, 0, MPI_COMM_SELF, &children, MPI_ERRCODES_IGNORE);
        MPI_Finalize();
        return 0;
    }
#endif
    (void)argc, (void)argv;
    shmem_init();
    puts("it was not refused");
    return 0;
}
