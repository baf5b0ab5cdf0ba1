#!/bin/sh
# mpi4py's wheel cannot be imported with a library that has the standard's binary interface only, and its error does not say so.
#
# MPI 5.0, chapter 20, defines a binary interface; MPI_Abi_get_version tells its version, or -1 if the library has another one. The wheel of
# mpi4py 4.1.2 asks for it, but has modules for the interfaces of MPICH and Open MPI only. With the wheel of MPICH 5.0.2 it works by libmpi.so.12
# (-1.-1). By libmpi_abi.so.1 of the same wheel (1.0) the import ends with an ImportError that names neither the library nor the interface,
# as if the package were damaged. Built from its source with that library's mpicc, mpi4py has the module.
#
# Exits with 0 if this is still so, with 1 if something else happens, with 2 if the packages cannot be installed.
set -u
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv" && "$folder/venv/bin/pip" -q install --only-binary :all: mpich==5.0.2 mpi4py==4.1.2 || exit 2
"$folder/venv/bin/pip" list 2>/dev/null | grep -E '^(mpich|mpi4py) '
status=0
while read -r library version expected; do
    said=$(LIBRARY="$folder/venv/lib/$library" "$folder/venv/bin/python" -c '
import ctypes, os
library, major, minor = ctypes.CDLL(os.environ["LIBRARY"]), ctypes.c_int(), ctypes.c_int()
library.MPI_Abi_get_version(ctypes.byref(major), ctypes.byref(minor))
print(f"{major.value}.{minor.value}")')
    imported=$(MPI4PY_LIBMPI="$folder/venv/lib/$library" "$folder/venv/bin/python" -c 'from mpi4py import MPI; print("imported")' 2>&1 | tail -n 1)
    echo "$library: version $said; $imported"
    [ "$said" = "$version" ] || status=1
    case $imported in
        "$expected"*) ;;
        *) status=1 ;;
    esac
done <<'LIST'
libmpi.so.12 -1.-1 imported
libmpi_abi.so.1 1.0 ImportError: cannot import name 'MPI' from 'mpi4py'
LIST
exit $status
