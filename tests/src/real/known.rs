//! Known failures, each with its reason: they are listed, and the command does not fail because of them. If a listed case passes, the
//! command fails until its line is removed.

/// Program, the case's whole name, and why it fails.
const KNOWN: &[(&str, &str, &str)] = &[
    ("crate mpi (rsmpi)", "spawn", NO_SPAWN),
    ("crate mpi (rsmpi)", "spawn_multiple", NO_SPAWN),
    ("NetPIPE", "put, checked", NO_INFO),
    ("NetPIPE", "get, measured", NO_INFO),
    (
        "C",
        "d_point_to_point",
        "calls MPI_Psend_init_c, an erratum to MPI 5.0 that MPICH 5.0.2 does not have, so that MPICH's wrapper cannot link the program",
    ),
    ("mpi4py", "test_errhandler.TestErrhandlerFile.testCall", NO_FILES),
    ("mpi4py", "test_errhandler.TestErrhandlerFile.testCreate", NO_FILES),
    ("mpi4py", "test_errhandler.TestErrhandlerFile.testErrorsAbort", NO_FILES),
    ("mpi4py", "test_errhandler.TestErrhandlerFile.testErrorsFatal", NO_FILES),
    ("mpi4py", "test_errhandler.TestErrhandlerFile.testErrorsReturn", NO_FILES),
    ("mpi4py", "test_errhandler.TestErrhandlerFile.testGetFree", NO_FILES),
    (
        "mpi4py",
        "unittest.loader._FailedTest.test_subclass",
        "opens a file when it is loaded, which this library does not offer",
    ),
];

const NO_SPAWN: &str = "starts tasks while the job runs, which this library does not offer";
const NO_FILES: &str = "opens a file, which this library does not offer";
const NO_INFO: &str = "passes a null pointer instead of an info object, which is not valid in the standard's binary interface; MPICH crashes, and with MPI_INFO_NULL both libraries run the test";

/// Program, full name of the case, and the reason why it is not run: it would make other cases fail.
const NOT_TRIED: &[(&str, &str, &str)] = &[(
    "mpi4py",
    "test_objmodel.TestObjModel.testSafeFreeCreated",
    "opens a file, which this library does not offer, and then leaves an operation unfinished, which disturbs later tests",
)];

/// The cases of this program that are not run; each counts as failed, with its reason.
pub fn not_tried(program: &str) -> impl Iterator<Item = (&'static str, &'static str)> {
    NOT_TRIED.iter().filter(move |(of, ..)| *of == program).map(|(_, case, why)| (*case, *why))
}

/// The cases of this program that are run and known to fail, in each of its rows, and the reasons.
pub fn cases(program: &str) -> impl Iterator<Item = (&'static str, &'static str)> {
    KNOWN.iter().filter(move |(of, ..)| *of == program).map(|(_, case, why)| (*case, *why))
}
