//! A wheel of this build, installed by pip into an environment, from where its programs and libraries work.

use std::path::Path;
use std::process::Command;

use am_tests::programs::{self, Scratch, run};

/// Adds numbers of the tasks by the functions of a library with MPICH's interface, whose handles are integers.
const PROGRAM: &str = "
import ctypes, sys
mpi = ctypes.CDLL(sys.argv[1])
world = ctypes.c_int(0x44000000)
rank, size, total = ctypes.c_int(), ctypes.c_int(), ctypes.c_int()
major, minor = ctypes.c_int(), ctypes.c_int()
assert mpi.MPI_Abi_get_version(ctypes.byref(major), ctypes.byref(minor)) == 0
assert (major.value, minor.value) == (-1, -1) # by this, mpi4py finds which of its modules to load
assert mpi.MPI_Init(None, None) == 0
assert mpi.MPI_Comm_rank(world, ctypes.byref(rank)) == 0
assert mpi.MPI_Comm_size(world, ctypes.byref(size)) == 0
one = ctypes.c_int(rank.value + 1)
integer, add = ctypes.c_int(0x4c000405), ctypes.c_int(0x58000003)
assert mpi.MPI_Allreduce(ctypes.byref(one), ctypes.byref(total), 1, integer, add, world) == 0
print(f'task {rank.value} of {size.value}: sum {total.value}', flush=True)
assert mpi.MPI_Finalize() == 0
";

/// Copies libraries of glibc without the functions of versions after 2.28: where to, and the libraries.
const HIDE: &str = "
import pathlib, sys, versions
for library in map(pathlib.Path, sys.argv[2:]):
    pathlib.Path(sys.argv[1], library.name).write_bytes(versions.without_newer(library.read_bytes(), (2, 28)))
";

/// Prints the tag of a wheel with this library.
const TAG: &str = "
import pathlib, sys, versions
print(versions.tag([(path, pathlib.Path(path).read_bytes(), False) for path in sys.argv[1:]], None))
";

/// gettid is of 2.30. The newest pow is of 2.29, and there is an older one.
const FUNCTIONS: &str = "
extern int gettid(void) __attribute__((MARK));
extern double pow(double, double);
double use(double number) { return gettid ? gettid() + pow(number, 2.5) : pow(number, 2.5); }
";

fn said(command: &mut Command) -> String {
    let (good, said) = run(command);
    assert!(good, "{command:?}: {said}");
    said
}

/// By libraries without functions, which stand for links to that of MPICH's programs.
#[test]
#[cfg_attr(not(has_venv), ignore = "no python3 with venv and ensurepip was found")]
#[cfg_attr(all(has_venv, not(has_cc)), ignore = "no C compiler (cc) was found")]
fn a_wheel_is_installed_and_used() {
    programs::build();
    let scratch = Scratch::new("wheel");
    let environment = scratch.path().join("environment");
    let _ = said(Command::new("python3").args(["-m", "venv"]).arg(&environment));
    let build = Path::new(env!("CARGO_MANIFEST_DIR")).join("../packaging/wheel/build.py");
    let build = || {
        let mut build = Command::new(&build);
        build.args(["--level", "1", "--from"]).arg(programs::folder()).arg("--out").arg(scratch.path());
        build
    };
    let (good, text) = run(build().args(["--glibc", "2.5"]));
    assert!(!good && text.contains("newer than glibc 2.5: bin/amrun needs GLIBC_2."), "{text}");
    let text = said(&mut build());
    let wheel = text.lines().last().expect("the path of the wheel");
    assert!(wheel.contains("mpi_over_am-") && wheel.contains("-py3-none-manylinux_2_"), "{text}");
    let bin = environment.join("bin");
    let _ = said(Command::new(bin.join("pip")).args(["install", "--no-index", wheel]));
    // By the path, as mpi4py looks for a library in its environment.
    let in_environment = environment.join("lib/libmpi.so.12").display().to_string();
    for library in ["libmpi.so.12", "libmpifort.so.12", &in_environment] {
        let mut start = Command::new(bin.join("mpirun"));
        start.args(["-n", "2"]).arg(bin.join("python")).args(["-c", PROGRAM, library]);
        let text = said(start.env_remove("LD_LIBRARY_PATH"));
        for task in 0..2 {
            assert!(text.contains(&format!("task {task} of 2: sum 3")), "{library}: {text}");
        }
    }
    let text = said(Command::new(bin.join("python")).args(["-c", PROGRAM, &in_environment]));
    assert!(text.contains("task 0 of 1: sum 1"), "without mpiexec: {text}");
    // A script stands for the link of an installation.
    let shown = said(Command::new(bin.join("mpicc")).arg("-show"));
    assert!(
        shown.starts_with("cc ") && shown.contains(&environment.join("lib").display().to_string()),
        "{shown}"
    );
    let program = scratch.path().join("hello");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("c/c_hello.c");
    let _ = said(Command::new(bin.join("mpicc")).arg(source).arg("-o").arg(&program));
    let text = said(Command::new(bin.join("mpiexec")).args(["-n", "2"]).arg(&program));
    assert!(text.contains("all good"), "{text}");
}

/// What a wheel for an older glibc is linked with.
#[test]
#[cfg_attr(not(has_cc), ignore = "no C compiler (cc) was found")]
fn functions_of_newer_versions_are_hidden_from_the_linker() {
    let scratch = Scratch::new("versions");
    let packaging = Path::new(env!("CARGO_MANIFEST_DIR")).join("../packaging/wheel");
    let python = |program: &str| {
        let mut python = Command::new("python3");
        python.env("PYTHONPATH", &packaging).args(["-B", "-c", program]);
        python
    };
    let names = ["libc.so.6", "libm.so.6"];
    let original =
        names.map(|name| said(Command::new("cc").arg(format!("-print-file-name={name}"))).trim().to_owned());
    let _ = said(python(HIDE).arg(scratch.path()).args(&original));
    let library = scratch.path().join("library.so");
    let link = |mark: &str, with: &[String]| {
        let source = scratch.path().join("functions.c");
        std::fs::write(&source, FUNCTIONS.replace("MARK", mark)).expect("a file in the scratch folder");
        let mut link = Command::new("cc");
        link.args(["-shared", "-fPIC", "-fno-builtin", "-nodefaultlibs", "-Wl,-z,defs", "-o"]).arg(&library);
        run(link.arg(&source).args(with))
    };
    let tag = || said(python(TAG).arg(&library));
    let minor = |tag: &str| -> u32 {
        let parts: Vec<&str> = tag.trim().split('_').collect();
        parts[2].parse().unwrap_or_else(|_| panic!("{tag}"))
    };
    let (good, text) = link("weak", &original);
    assert!(good, "{text}");
    assert!(minor(&tag()) >= 29, "the version of pow: {}", tag());
    let hidden = names.map(|name| scratch.path().join(name).display().to_string());
    let (good, text) = link("weak", &hidden);
    assert!(good, "{text}");
    assert!(minor(&tag()) <= 28, "{}", tag());
    let (good, text) = link("cold", &hidden);
    assert!(!good && text.contains("gettid"), "a function that must be there: {text}");
}
