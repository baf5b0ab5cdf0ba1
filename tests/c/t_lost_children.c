/* A child that is lost, in the way that the argument names: before it joins MPI, or after it has disconnected from its parents. */
#include <signal.h>
#include <unistd.h>

#include "check.h"

static void child(const char *way) {
    if (strcmp(way, "exits") == 0)
        exit(3);
    if (strcmp(way, "leaves") == 0)
        exit(0);
    if (strcmp(way, "is-killed") == 0)
        raise(SIGKILL);
}

int main(int argc, char **argv) {
    MPI_Comm parent, inter, all;
    char way[32], *words[] = {way, "child", NULL};
    CHECK(argc > 1);
    strncpy(way, argv[1], sizeof way - 1), way[sizeof way - 1] = 0;
    if (argc > 2)
        child(way);
    begin(&argc, &argv);
    MPI_Comm_get_parent(&parent);
    if (parent != MPI_COMM_NULL) {
        MPI_Intercomm_merge(parent, 1, &all);
        MPI_Comm_disconnect(&all), MPI_Comm_disconnect(&parent);
        MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
        MPI_Barrier(MPI_COMM_WORLD); /* Both have disconnected. */
        if (rank == 0 && strcmp(way, "alone") == 0)
            exit(5);
        if (rank == 0 && strcmp(way, "alone-aborts") == 0)
            MPI_Abort(MPI_COMM_WORLD, 6);
        if (rank == 0)
            exit(0);
        MPI_Barrier(MPI_COMM_WORLD); /* Never ends. */
        return 0;
    }
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
    MPI_Comm_spawn(argv[0], words, 2, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter, MPI_ERRCODES_IGNORE);
    MPI_Intercomm_merge(inter, 0, &all);
    MPI_Comm_disconnect(&all), MPI_Comm_disconnect(&inter);
    return end();
}
