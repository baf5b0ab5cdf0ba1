/* Prints the results of calls that start processes. The children are this program; only the parents print. */
#include "say.h"

static MPI_Comm all;

/* Both sides: a message each way between the first parent and the last child, a collective between the groups, and one of all. */
static void talk(MPI_Comm inter, int is_parent) {
    int own, mine, theirs, everyone, sum = -1, got = -1;
    MPI_Comm_rank(inter, &own), MPI_Comm_size(inter, &mine), MPI_Comm_remote_size(inter, &theirs);
    if (own == (is_parent ? 0 : mine - 1)) {
        int other = is_parent ? theirs - 1 : 0;
        MPI_Sendrecv(&mine, 1, MPI_INT, other, 5, &got, 1, MPI_INT, MPI_ANY_SOURCE, 5, inter, MPI_STATUS_IGNORE);
        CHECK(got == theirs);
    }
    MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, inter);
    CHECK(sum == theirs * theirs);
    MPI_Intercomm_merge(inter, !is_parent, &all);
    MPI_Comm_rank(all, &own), MPI_Comm_size(all, &everyone);
    if (is_parent)
        SAY("%d with %d: %d of %d, sum %d", mine, theirs, own, everyone, sum);
    own++, MPI_Allreduce(&own, &sum, 1, MPI_INT, MPI_SUM, all);
    CHECK(sum == everyone * (everyone + 1) / 2);
    MPI_Comm_disconnect(&all), MPI_Comm_disconnect(&inter);
}

/* A child checks what it was told, and tells its parents only by talking. */
static int child(MPI_Comm parent, int argc, char **argv) {
    int *number, flag;
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_APPNUM, &number, &flag);
    CHECK(argc == 4 && strcmp(argv[1], "child") == 0 && strcmp(argv[2], "two words") == 0);
    CHECK(flag && *number == atoi(argv[3]));
    talk(parent, 0);
    MPI_Comm_get_parent(&parent);
    CHECK(parent == MPI_COMM_NULL);
    MPI_Finalize();
    return 0;
}

int main(int argc, char **argv) {
    MPI_Comm parent, inter;
    begin(&argc, &argv);
    MPI_Comm_get_parent(&parent);
    if (parent != MPI_COMM_NULL)
        return child(parent, argc, argv);
    char *words[] = {"child", "two words", "0", NULL}, *more[] = {"child", "two words", "1", NULL};
    int codes[3] = {-1, -1, -1}, root = size - 1;
    MPI_Comm_spawn(argv[0], words, 2, MPI_INFO_NULL, root, MPI_COMM_WORLD, &inter, codes);
    SAY("codes %d %d", codes[0], codes[1]);
    talk(inter, 1);
    char *programs[] = {argv[0], argv[0]}, **arguments[] = {words, more};
    int numbers[] = {1, 2};
    MPI_Info infos[] = {MPI_INFO_NULL, MPI_INFO_NULL};
    MPI_Comm_spawn_multiple(2, programs, arguments, numbers, infos, 0, MPI_COMM_WORLD, &inter, codes);
    SAY("codes %d %d %d", codes[0], codes[1], codes[2]);
    talk(inter, 1);
    MPI_Comm_spawn(argv[0], words, 1, MPI_INFO_NULL, 0, MPI_COMM_SELF, &inter, MPI_ERRCODES_IGNORE);
    SAY("one each");
    talk(inter, 1);
    return end();
}
