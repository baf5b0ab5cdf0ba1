//! The names of the libraries for programs that were built for other MPI libraries. The build script reads this file, too.

/// The folder of the libraries.
pub(crate) const FOLDER: &str = "faces";

/// The names by which programs ask for the library in the standard interface: that of MPI, then those of OpenSHMEM.
pub(crate) const STANDARD_NAMES: [&str; 3] = ["libmpi_abi.so.1", "libsma.so", "liboshmem.so"];

/// The interfaces that `--abi` takes, their files as cargo builds them, and the names by which programs ask for them and for the libraries
/// that belong to them, which are the same file.
pub(crate) const FACES: [(&str, &str, &[&str]); 2] = [
    (
        "mpich",
        "libmpi_mpich.so",
        &[
            "libmpi.so.12",
            "libmpicxx.so.12",
            "libmpifort.so.12",
            "libmpich.so.12",
            "libmpichcxx.so.12",
            "libmpichfort.so.12",
        ],
    ),
    (
        "openmpi",
        "libmpi_openmpi.so",
        &[
            "libmpi.so.40",
            "libmpi_cxx.so.40",
            "libmpi_mpifh.so.40",
            "libmpi_usempi.so.40",
            "libmpi_usempi_ignore_tkr.so.40",
            "libmpi_usempif08.so.40",
            "libopen-pal.so.40",
            "libopen-pal.so.80",
            "libopen-rte.so.40",
            "libopen_mpi.so.40",
        ],
    ),
];
