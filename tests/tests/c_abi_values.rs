//! The binary interface itself: the table `c/abi_values.txt` says what each constant, size and offset is, and which functions there
//! are. The header and the library are compared with it, and, where it is installed (`pip install mpich`), another library too.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use am_tests::programs::{self, Scratch, run};

const TABLE: &str = include_str!("../c/abi_values.txt");
const HEADER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../mpi-over-am/abi/include");

/// Names of MPI-1 that the standard has removed, which other libraries still have.
const REMOVED: [&str; 10] = [
    "MPI_Address",
    "MPI_Errhandler_create",
    "MPI_Errhandler_get",
    "MPI_Errhandler_set",
    "MPI_Type_extent",
    "MPI_Type_hindexed",
    "MPI_Type_hvector",
    "MPI_Type_lb",
    "MPI_Type_struct",
    "MPI_Type_ub",
];

/// Added to the standard after version 5.0.
const ADDED_LATER: [&str; 2] = ["MPI_Psend_init_c", "MPI_Precv_init_c"];

/// The table's expressions with their values.
fn values() -> Vec<(&'static str, &'static str)> {
    let lines = TABLE.lines().filter(|line| !line.starts_with('#') && !line.starts_with("function "));
    let values: Vec<_> =
        lines.map(|line| line.rsplit_once(' ').expect("an expression and a value")).collect();
    assert!(values.len() > 380, "{} values only", values.len());
    values
}

/// The table's functions.
fn functions() -> BTreeSet<String> {
    let names = TABLE.lines().filter_map(|line| line.strip_prefix("function ")).map(str::to_owned);
    let names: BTreeSet<_> = names.collect();
    assert_eq!(names.len(), 664);
    names
}

/// Compares what the compiler makes of a header with the table.
fn compare_header(name: &str, options: &[&str]) {
    let scratch = Scratch::new(name);
    let (source, program) = (scratch.path().join("values.c"), scratch.path().join("values"));
    let mut text =
        String::from("#include <mpi.h>\n#include <stddef.h>\n#include <stdint.h>\n#include <stdio.h>\n");
    text.push_str("int main(void)\n{\n");
    for (expression, _) in values() {
        writeln!(text, "    printf(\"%s %lld\\n\", \"{expression}\", (long long)(intptr_t)({expression}));")
            .expect("a string takes all");
    }
    text.push_str("    return 0;\n}\n");
    std::fs::write(&source, text).expect("a file of ours");
    let (good, said) = run(Command::new("cc").args(options).arg(&source).arg("-o").arg(&program));
    assert!(good, "{said}");
    let (good, said) = run(&mut Command::new(&program));
    assert!(good, "{said}");
    let expected = values().into_iter().map(|(expression, value)| format!("{expression} {value}"));
    let differences: Vec<_> = said.lines().zip(expected).filter(|(is, should)| is != should).collect();
    assert!(differences.is_empty(), "{name}: (is, should be): {differences:?}");
    assert_eq!(said.lines().count(), values().len());
}

/// The functions of MPI that a library exports.
fn exported(library: &Path) -> BTreeSet<String> {
    let (good, said) = run(Command::new("nm").args(["-D", "--defined-only"]).arg(library));
    assert!(good, "{said}");
    let names = said.lines().filter_map(|line| line.split_whitespace().last());
    // A version may stand behind the name.
    let names = names.map(|name| name.split('@').next().unwrap_or(name).to_owned());
    names.filter(|name| name.starts_with("MPI_") || name.starts_with("PMPI_")).collect()
}

/// Both names of each function.
fn with_profiling(names: impl IntoIterator<Item = String>) -> BTreeSet<String> {
    names.into_iter().flat_map(|name| [format!("P{name}"), name]).collect()
}

#[test]
fn header_has_the_values_of_the_table() {
    if programs::has("cc") {
        compare_header("abi-values-own", &["-Wall", "-Werror", "-I", HEADER]);
    }
}

#[test]
fn header_has_no_constant_that_the_table_lacks() {
    let header = std::fs::read_to_string(Path::new(HEADER).join("mpi.h")).expect("the header is there");
    let is_constant = |name: &str| {
        name.starts_with("MPI_")
            && name != "MPI_H_INCLUDED"
            && name.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_')
    };
    let mut names = BTreeSet::new();
    for line in header.lines().map(str::trim) {
        let name = match line.strip_prefix("#define ") {
            Some(rest) => rest.split_whitespace().next(),
            None => line.split_once(" = ").map(|(name, _)| name),
        };
        names.extend(name.filter(|name| is_constant(name)));
    }
    let table: BTreeSet<_> =
        values().iter().map(|&(name, _)| name).filter(|name| is_constant(name)).collect();
    assert_eq!(names, table);
}

#[test]
fn library_exports_each_function_twice() {
    programs::build();
    if programs::has("nm") {
        assert_eq!(exported(&programs::folder().join("libmpi_abi.so")), with_profiling(functions()));
    }
}

#[test]
fn library_names_itself_as_programs_ask_for_it() {
    programs::build();
    if programs::has("readelf") {
        let library = programs::folder().join("libmpi_abi.so");
        let (_, said) = run(Command::new("readelf").arg("-d").arg(&library));
        assert!(said.contains("[libmpi_abi.so.1]"), "{said}");
        let versioned =
            programs::folder().join("libmpi_abi.so.1").canonicalize().expect("the build has left it");
        assert_eq!(versioned, library.canonicalize().expect("it is there"));
    }
}

/// Where another library with this interface is installed: where AM_OTHER_MPI says, or beside Python.
fn other_library() -> Option<PathBuf> {
    let named = std::env::var_os("AM_OTHER_MPI").map(PathBuf::from);
    let prefix = named.or_else(|| {
        let output = Command::new("python3").args(["-c", "import sys; print(sys.prefix)"]).output().ok()?;
        Some(String::from_utf8(output.stdout).ok()?.trim().into())
    });
    let prefix = prefix.filter(|prefix| prefix.join("include/mpi_abi.h").exists());
    if prefix.is_none() {
        eprintln!("skipped: no MPICH with this interface (python3 -m pip install mpich)");
    }
    prefix
}

#[test]
fn another_library_agrees() {
    let Some(prefix) = other_library() else { return };
    if !programs::has("cc") || !programs::has("nm") {
        return;
    }
    let include = prefix.join("include");
    compare_header("abi-values-other", &["-DMPI_ABI", "-I", include.to_str().expect("a plain path")]);
    let theirs = exported(&prefix.join("lib/libmpi_abi.so.1"));
    let known = with_profiling(functions().into_iter().chain(REMOVED.map(str::to_owned)));
    let unknown: Vec<_> = theirs.difference(&known).filter(|name| !name.contains("MPIX_")).collect();
    assert!(unknown.is_empty(), "they have more: {unknown:?}");
    let later = with_profiling(ADDED_LATER.map(str::to_owned));
    let missing: Vec<_> = with_profiling(functions())
        .difference(&theirs)
        .filter(|name| !later.contains(*name))
        .cloned()
        .collect();
    assert!(missing.is_empty(), "they lack: {missing:?}");
}
