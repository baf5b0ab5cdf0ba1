/* Parts of communicators that outlive the children with whom they were made: their context ids are not given again (MPI 5.0, 11.8.2, 7.4). */
#include "check.h"

enum { ROUNDS = 4 };

int main(int argc, char **argv) {
    MPI_Comm parent, inter, all, part, kept[ROUNDS];
    char *words[] = {"child", NULL};
    begin(&argc, &argv);
    MPI_Comm_get_parent(&parent);
    if (parent != MPI_COMM_NULL) {
        MPI_Intercomm_merge(parent, 0, &all);
        MPI_Comm_split(all, 1, 0, &part);
        MPI_Comm_free(&part), MPI_Comm_disconnect(&all), MPI_Comm_disconnect(&parent);
        MPI_Finalize();
        return 0;
    }
    for (int round = 0; round < ROUNDS; round++) {
        CHECK(MPI_Comm_spawn(argv[0], words, 2, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter, MPI_ERRCODES_IGNORE) == MPI_SUCCESS);
        /* A child is the first task of it, and gives the context ids of the parts. */
        CHECK(MPI_Intercomm_merge(inter, 1, &all) == MPI_SUCCESS);
        CHECK(MPI_Comm_split(all, 0, 0, kept + round) == MPI_SUCCESS);
        CHECK(MPI_Comm_disconnect(&all) == MPI_SUCCESS && MPI_Comm_disconnect(&inter) == MPI_SUCCESS);
        for (int earlier = 0; earlier <= round; earlier++) {
            int mine = rank + earlier, sum = 0;
            CHECK(MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, kept[earlier]) == MPI_SUCCESS);
            CHECK(sum == size * (size - 1) / 2 + size * earlier);
        }
    }
    for (int round = 0; round < ROUNDS; round++)
        MPI_Comm_free(kept + round);
    return end();
}
