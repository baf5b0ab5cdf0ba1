//! Programs with the binary interfaces of other MPI libraries run with this library. The programs are those of the C interface, compiled
//! with headers that have the numbers, handles and statuses of the other interface.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use am_tests::abi_headers::{INTERFACES, header};
use am_tests::programs::{self, Scratch, run};

use super::hangs::said_before_the_limit;

/// The folder with the libraries, by the names that programs ask for.
fn faces() -> PathBuf {
    programs::folder().join("faces")
}

fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("c/{name}.c"))
}

/// Compiles a program for an interface, with these further options; returns its path.
fn compiled(scratch: &Scratch, name: &str, interface: (&str, &str), options: &[&str]) -> PathBuf {
    programs::build();
    let (interface, library) = interface;
    let include = scratch.path().join(interface);
    fs::create_dir_all(&include).expect("a test can write here");
    fs::write(include.join("mpi.h"), header(interface)).expect("a test can write here");
    let program = scratch.path().join(format!("{name}-{interface}"));
    let mut compile = Command::new("cc");
    compile.args(["-O1", "-pthread", "-I"]).arg(&include).arg(source(name)).arg("-o").arg(&program);
    // A program at fixed addresses has copies of the library's symbols.
    compile
        .args((interface == "openmpi").then_some("-no-pie"))
        .args(options)
        .args(programs::compiler_options());
    compile.arg("-L").arg(faces()).arg(format!("-l:{library}"));
    let (good, said) = run(&mut compile);
    assert!(good, "{name} for {interface}: {said}");
    program
}

fn test(name: &str) {
    for interface in INTERFACES {
        let scratch = Scratch::new(&format!("abi_{name}"));
        let program = compiled(&scratch, name, interface, &[]);
        let mut start = Command::new(programs::folder().join("mpiexec"));
        let (good, said) = run(start.args(["-n", "2"]).arg(program));
        assert!(good && said.contains("all good"), "{name} for {interface:?}: {said}");
    }
}

macro_rules! programs {
    ($($test:ident $name:literal)*) => { $(
        #[test]
        #[cfg_attr(not(has_cc), ignore = "no C compiler (cc) was found")]
        fn $test() {
            test($name);
        }
    )* };
}

programs! {
    classes "c_classes"
    communicators "c_communicators"
    representations "c_datareps"
    error_handlers "c_errhandlers"
    files "c_files"
    freed_requests "c_freed_requests"
    objects "c_objects"
    sessions "c_sessions"
    callbacks_in_threads "c_threads_callbacks"
    callbacks_that_fail "d_callbacks_that_fail"
    collectives_by_kind "d_collectives"
    cut_messages "d_cut_messages"
    datatypes "d_datatypes"
    requests "d_requests"
    all_collectives "o_collectives"
    all_of_communicators "o_communicators"
    all_of_the_environment "o_environment"
    all_of_files "o_files"
    all_messages "o_messages"
    all_objects "o_objects"
    all_tools "o_tools"
    all_types "o_types"
    all_windows "o_windows"
    one_sided "w_one_sided"
    ports "c_ports"
    processes "c_processes"
    all_processes "o_processes"
    version_of_the_interface "x_interface_version"
    special_statuses "x_special_statuses"
}

/// One job: the first task was built for MPICH, the second for Open MPI, the third for the standard's interface. The launcher says so.
#[test]
#[cfg_attr(not(has_cc), ignore = "no C compiler (cc) was found")]
fn one_job_has_three_interfaces() {
    for name in ["d_collectives", "d_point_to_point", "w_one_sided"] {
        let scratch = Scratch::new("abi_mixed");
        let [first, second] = INTERFACES.map(|interface| compiled(&scratch, name, interface, &[]));
        let third = scratch.path().join(name);
        let mut compile = Command::new(programs::folder().join("mpicc"));
        let (good, said) = run(compile.arg("-pthread").arg(source(name)).arg("-o").arg(&third));
        assert!(good, "{said}");
        let mut start = Command::new(programs::folder().join("mpiexec"));
        start.args(["--verbose", "-n", "1"]).arg(first).args([":", "-n", "1"]).arg(second);
        let (good, said) = run(start.args([":", "-n", "1"]).arg(third));
        assert!(good && said.contains("all good"), "{said}");
        assert!(
            !said.contains("there is no setting"),
            "what the launcher tells the tasks is no setting: {said}"
        );
        for (task, interface) in ["MPICH and Intel MPI", "Open MPI", "the standard"].iter().enumerate() {
            let is_said = |line: &str| line.contains(&format!("task {task}: ")) && line.contains(interface);
            assert!(said.lines().any(is_said), "task {task}: {said}");
        }
    }
}

/// The report about a hang names the program's call, not a function of this library.
#[test]
#[cfg_attr(not(has_cc), ignore = "no C compiler (cc) was found")]
fn a_hang_is_reported_with_the_call_of_the_program() {
    for interface in INTERFACES {
        let scratch = Scratch::new("abi_hang");
        let program = compiled(&scratch, "k_hangs", interface, &["-g"]);
        let job = |limit: &str| {
            let mut start = Command::new(programs::folder().join("mpiexec"));
            start.args(["--timeout", limit, "-n", "2"]).arg(&program).args(["call", "MPI_Mprobe"]);
            start
        };
        said_before_the_limit(job, &["task 0: waits in MPI_Mprobe, called by call at k_hangs.c:"]);
    }
}

/// A path to another library is written in the program, which therefore does not find this one. `--abi` lets it load this one.
#[test]
#[cfg_attr(not(has_cc), ignore = "no C compiler (cc) was found")]
fn a_path_to_another_library_is_overruled() {
    for interface in INTERFACES {
        let scratch = Scratch::new("abi_path");
        let other = scratch.path().join("other");
        fs::create_dir_all(&other).expect("a test can write here");
        let text = scratch.path().join("other.c");
        fs::write(&text, "int MPI_Init(int *argc, void *argv) { (void)argc, (void)argv; return 1; }")
            .expect("a test can write here");
        let library = other.join(interface.1);
        let mut compile = Command::new("cc");
        compile.args(["-shared", "-fPIC", "-w"]).arg(format!("-Wl,-soname,{}", interface.1)).arg(text);
        let (good, said) = run(compile.arg("-o").arg(&library));
        assert!(good, "{said}");
        // The older entry of a program, which goes before LD_LIBRARY_PATH.
        let path = format!("-Wl,--disable-new-dtags,-rpath,{}", other.display());
        let program = compiled(&scratch, "c_hello", interface, &[&path]);
        let start = |options: &[&str]| {
            let mut start = Command::new(programs::folder().join("mpiexec"));
            run(start.args(options).args(["-n", "2"]).arg(&program))
        };
        let (good, said) = start(&[]);
        assert!(!good, "{said}");
        let (good, said) = start(&["--abi", interface.0]);
        assert!(good && said.contains("all good"), "{said}");
    }
}

/// Two MPI libraries in one process, whose functions have the same names, are an error that names both files.
#[test]
#[cfg_attr(not(has_cc), ignore = "no C compiler (cc) was found")]
fn two_libraries_in_a_process_are_refused() {
    let scratch = Scratch::new("abi_two");
    let program = compiled(&scratch, "c_hello", INTERFACES[0], &[]);
    let mut start = Command::new(programs::folder().join("mpiexec"));
    let (good, said) = run(start.args(["--abi", "openmpi", "-n", "1"]).arg(program));
    assert!(!good && said.contains("two MPI libraries"), "{said}");
    assert!(INTERFACES.iter().all(|(_, library)| said.contains(library)), "{said}");
}

/// A tool that was built for the program's interface, and is loaded before all libraries, sees each call once.
#[test]
#[cfg_attr(not(has_cc), ignore = "no C compiler (cc) was found")]
fn a_tool_sees_the_calls_of_c() {
    for interface in INTERFACES {
        let scratch = Scratch::new("abi_tool");
        let tool = compiled(&scratch, "t_profiler", interface, &["-shared", "-fPIC"]);
        let program = compiled(&scratch, "t_profiled", interface, &[]);
        let mut start = Command::new(programs::folder().join("mpiexec"));
        start.args(["-n", "2", "-x"]).arg(format!("LD_PRELOAD={}", tool.display())).arg(&program);
        let (good, said) = run(&mut start);
        assert!(good, "{interface:?}: {said}");
        for task in 0..2 {
            let line = format!("task {task}: init 1 sends 3 receives 3");
            assert!(said.lines().any(|said| said == line), "{interface:?}: {line} is missing in: {said}");
        }
    }
}

/// A Fortran program with another library's numbers and common blocks.
#[test]
#[cfg_attr(not(has_gfortran), ignore = "no Fortran compiler (gfortran) was found")]
fn fortran() {
    programs::build();
    for (interface, library) in INTERFACES {
        let scratch = Scratch::new("abi_fortran");
        let program = scratch.path().join("program");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("fortran/other_abi.F90");
        let mut compile = Command::new("gfortran");
        compile
            .args(["-w", "-fallow-argument-mismatch"])
            .args((interface == "openmpi").then_some("-DOPEN_MPI"));
        let (good, said) = run(compile
            .arg(source)
            .arg("-o")
            .arg(&program)
            .arg("-L")
            .arg(faces())
            .arg(format!("-l:{library}")));
        assert!(good, "{said}");
        let mut start = Command::new(programs::folder().join("mpiexec"));
        let (good, said) = run(start.args(["-n", "3"]).arg(program));
        assert!(good && said.contains("all good"), "{interface}: {said}");
    }
}
