//! The standard ABI: the table `c/abi_values.txt` has the value of each constant, size and offset, and the names of the functions. The
//! tests compare the header and the library with the table; a test that is ignored by default compares another library with it.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use am_tests::programs::{self, Scratch, run};

const TABLE: &str = include_str!("../../c/abi_values.txt");
const HEADER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../mpi-over-am/abi/include");

/// Names of MPI-1 that the standard has removed, which old programs still call and libraries still have.
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

/// Compares the values that the compiler finds in a header with the table.
fn compare_header(name: &str, options: &[&str]) {
    let scratch = Scratch::new(name);
    let (source, program) = (scratch.path().join("values.c"), scratch.path().join("values"));
    let mut text =
        String::from("#include <mpi.h>\n#include <stddef.h>\n#include <stdint.h>\n#include <stdio.h>\n");
    text.push_str("int main(void)\n{\n");
    for (expression, _) in values() {
        writeln!(text, "    printf(\"%s %lld\\n\", \"{expression}\", (long long)(intptr_t)({expression}));")
            .expect("writing to a string succeeds");
    }
    text.push_str("    return 0;\n}\n");
    std::fs::write(&source, text).expect("a test can write here");
    let (good, said) = run(Command::new("cc").args(options).arg(&source).arg("-o").arg(&program));
    assert!(good, "{said}");
    let (good, said) = run(&mut Command::new(&program));
    assert!(good, "{said}");
    let expected = values().into_iter().map(|(expression, value)| format!("{expression} {value}"));
    let differences: Vec<_> = said.lines().zip(expected).filter(|(is, should)| is != should).collect();
    assert!(differences.is_empty(), "{name}: (is, should be): {differences:?}");
    assert_eq!(said.lines().count(), values().len());
}

/// The functions `MPI_*` and `PMPI_*` that a library exports.
fn exported(library: &Path) -> BTreeSet<String> {
    let (good, said) = run(Command::new("nm").args(["-D", "--defined-only"]).arg(library));
    assert!(good, "{said}");
    let names = said.lines().filter_map(|line| line.split_whitespace().last());
    // A version may follow the name.
    let names = names.map(|name| name.split('@').next().unwrap_or(name).to_owned());
    names.filter(|name| name.starts_with("MPI_") || name.starts_with("PMPI_")).collect()
}

/// Both names of each function.
fn with_profiling(names: impl IntoIterator<Item = String>) -> BTreeSet<String> {
    names.into_iter().flat_map(|name| [format!("P{name}"), name]).collect()
}

#[test]
#[cfg_attr(not(has_cc), ignore = "no C compiler (cc) was found")]
fn header_has_the_values_of_the_table() {
    compare_header("abi-values-own", &["-Wall", "-Werror", "-I", HEADER]);
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

/// The library's sources without those of its programs: their paths in `src`, and their lines without comments and strings.
fn sources() -> Vec<(String, Vec<String>)> {
    fn collect(folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(folder).expect("the sources are there") {
            let path = entry.expect("a folder can be read").path();
            match path.is_dir() {
                true if path.ends_with("tools") || path.ends_with("bin") => {}
                true => collect(&path, found),
                false => found.push(path),
            }
        }
    }
    let root = Path::new(HEADER).parent().expect("a folder of the crate").join("src");
    let mut paths = Vec::new();
    collect(&root, &mut paths);
    let code = |line: &str| {
        let line = line.split("//").next().unwrap_or_default();
        line.split('"').step_by(2).collect::<Vec<_>>().join("\"\"")
    };
    let read = |path: PathBuf| {
        let text = std::fs::read_to_string(&path).expect("a source can be read");
        let name = path.strip_prefix(&root).expect("it lies there").display().to_string();
        (name, text.lines().map(code).collect())
    };
    paths.into_iter().map(read).collect()
}

/// The integer literals of a line of Rust, with their values.
fn literals(line: &str) -> impl Iterator<Item = (&str, i64)> {
    let words = line.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words.filter(|word| word.starts_with(|c: char| c.is_ascii_digit())).filter_map(|word| {
        let digits = word.replace('_', "");
        let value = match digits.strip_prefix("0x") {
            Some(digits) => i64::from_str_radix(digits, 16).ok()?,
            None => digits.parse().ok()?,
        };
        Some((word, value))
    })
}

/// Numbers of the library that also occur in the header by chance: a page, the table of predefined datatypes, the first handle of a tool, a
/// flag of the loader.
const OWN: [(&str, i64); 4] =
    [("shared_windows.rs", 4096), ("state.rs", 512), ("mpi_t.rs", 4096), ("fortran/sentinels.rs", 1)];

/// The library must use the header's constants by the names that its build script generates. A number that is written in both may differ,
/// as that of `MPI_MODE_NOSTORE` once did, and no program that uses only the header's constant detects it.
#[test]
fn library_repeats_no_number_of_the_header() {
    let numbers: BTreeSet<i64> =
        values().iter().filter_map(|(_, value)| value.parse::<i64>().ok()).map(i64::abs).collect();
    let sources = sources();
    assert!(sources.len() > 35, "{} sources only", sources.len());
    let mut repeated = Vec::new();
    for (name, lines) in &sources {
        for (line, at) in lines.iter().zip(1..) {
            // Small numbers have too many other meanings, except in constants and handles.
            let is_constant = line.split_once(": c_int = ").is_some_and(|(front, value)| {
                front.contains("const ") && !value.starts_with(|c: char| c.is_ascii_alphabetic())
            });
            let is_handle = line.split("MPI_").skip(1).any(|rest| {
                let value = rest.split_once('(').filter(|(kind, _)| kind.chars().all(char::is_alphabetic));
                value.is_some_and(|(_, value)| value.starts_with(|c: char| c.is_ascii_digit()))
            });
            let from = if is_constant || is_handle { 0 } else { 100 };
            for (literal, value) in literals(line).filter(|&(_, value)| value >= from) {
                let is_own = OWN.iter().any(|&(own, known)| own == name && known == value);
                if numbers.contains(&value) && !is_own {
                    repeated.push(format!("{name}:{at}: {literal}"));
                }
            }
        }
    }
    assert!(repeated.is_empty(), "take them from crate::constants: {repeated:#?}");
}

#[test]
#[cfg_attr(not(has_nm), ignore = "no nm was found")]
fn library_exports_each_function_twice() {
    programs::build();
    let expected = functions().into_iter().chain(REMOVED.map(str::to_owned));
    assert_eq!(exported(&programs::folder().join("libmpi_abi.so")), with_profiling(expected));
}

#[test]
#[cfg_attr(not(has_readelf), ignore = "no readelf was found")]
fn library_names_itself_as_programs_ask_for_it() {
    programs::build();
    let library = programs::folder().join("libmpi_abi.so");
    let (_, said) = run(Command::new("readelf").arg("-d").arg(&library));
    assert!(said.contains("[libmpi_abi.so.1]"), "{said}");
    let versioned = programs::folder().join("libmpi_abi.so.1").canonicalize().expect("the build has left it");
    assert_eq!(versioned, library.canonicalize().expect("the path exists"));
}

#[test]
#[ignore = "needs another library with this interface: python3 -m venv V && V/bin/pip install mpich, then AM_OTHER_MPI=V"]
fn another_library_agrees() {
    let prefix =
        std::env::var_os("AM_OTHER_MPI").expect("AM_OTHER_MPI names the prefix of the other library");
    let prefix = PathBuf::from(prefix);
    let include = prefix.join("include");
    compare_header("abi-values-other", &["-DMPI_ABI", "-I", include.to_str().expect("a plain path")]);
    let theirs = exported(&prefix.join("lib/libmpi_abi.so.1"));
    let known = with_profiling(functions().into_iter().chain(REMOVED.map(str::to_owned)));
    let unknown: Vec<_> = theirs.difference(&known).filter(|name| !name.contains("MPIX_")).collect();
    assert!(unknown.is_empty(), "names that the table lacks: {unknown:?}");
    let later = with_profiling(ADDED_LATER.map(str::to_owned));
    let missing: Vec<_> = with_profiling(functions())
        .difference(&theirs)
        .filter(|name| !later.contains(*name))
        .cloned()
        .collect();
    assert!(missing.is_empty(), "names that only the table has: {missing:?}");
}
