//! Failures that are known, each with its reason: the command does not fail because of them, and lists them.

/// Program, what the case's name contains, and why it fails.
const KNOWN: &[(&str, &str, &str)] = &[
    ("crate mpi (rsmpi)", "spawn", "starts tasks while the job runs, which this library does not offer"),
    ("NetPIPE", "put, ", NO_INFO),
    ("NetPIPE", "get, ", NO_INFO),
    (
        "C",
        "d_point_to_point",
        "calls MPI_Psend_init_c, an erratum to MPI 5.0: MPICH 5.0.2's wrapper, which builds it here, finds it in no library",
    ),
    ("mpi4py", "test_errhandler.TestErrhandlerFile.", "opens a file, which this library does not offer"),
    ("mpi4py", "test_subclass", "opens a file when it is loaded, which this library does not offer"),
];

const NO_INFO: &str = "gives a null pointer where an info object belongs, which is none in the standard's binary interface; MPICH crashes there, and with MPI_INFO_NULL instead both libraries run it";

/// Program, the case's whole name, and why it is not even tried: it would take others with it.
const NOT_TRIED: &[(&str, &str, &str)] = &[(
    "mpi4py",
    "test_objmodel.TestObjModel.testSafeFreeCreated",
    "opens a file, which this library does not offer, and then leaves an operation that later tests need the place of",
)];

/// The cases of this program that are not tried; each counts as failed, with its reason.
pub fn not_tried(program: &str) -> impl Iterator<Item = (&'static str, &'static str)> {
    NOT_TRIED.iter().filter(move |(of, ..)| *of == program).map(|(_, case, why)| (*case, *why))
}

/// Why this case of this program is known to fail, if it is.
#[must_use]
pub fn reason(program: &str, case: &str) -> Option<&'static str> {
    let known = KNOWN.iter().find(|(of, part, _)| *of == program && case.contains(part));
    let not_tried = NOT_TRIED.iter().find(|(of, name, _)| *of == program && case == *name);
    known.or(not_tried).map(|(_, _, reason)| *reason)
}
