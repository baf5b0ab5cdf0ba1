//! The programs `c/o_*` are compared on this library and another one by `real-programs differential`. Here: together they call every
//! function of the standard, but for those of which `c/not_compared.txt` says why not.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use am_tests::programs::{self, Scratch, run};

const TABLE: &str = include_str!("../c/abi_values.txt");
const NOT_COMPARED: &str = include_str!("../c/not_compared.txt");

/// The functions of MPI that a program calls: those that it leaves to the library.
fn called(source: &Path, scratch: &Scratch) -> BTreeSet<String> {
    let object = scratch.path().join("object.o");
    let mut compile = Command::new(programs::folder().join("mpicc"));
    let (good, said) = run(compile.arg("-c").arg(source).arg("-o").arg(&object));
    assert!(good, "{said}");
    let (good, said) = run(Command::new("nm").arg("-u").arg(&object));
    assert!(good, "{said}");
    let names = said.lines().filter_map(|line| line.split_whitespace().last());
    names.filter(|name| name.starts_with("MPI_")).map(str::to_owned).collect()
}

fn matches(pattern: &str, name: &str) -> bool {
    pattern.strip_suffix('*').map_or(pattern == name, |start| name.starts_with(start))
}

#[test]
#[cfg_attr(not(has_cc), ignore = "no C compiler (cc) was found")]
#[cfg_attr(not(has_nm), ignore = "no nm was found")]
fn every_function_is_compared_or_has_its_reason() {
    programs::build();
    let scratch = Scratch::new("compared");
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("c");
    let mut compared = BTreeSet::new();
    for entry in std::fs::read_dir(folder).expect("the programs are there") {
        let path = entry.expect("a folder can be read").path();
        let name = path.file_name().expect("a file has a name").to_string_lossy();
        if name.starts_with("o_") && name.ends_with(".c") {
            compared.extend(called(&path, &scratch));
        }
    }
    let all: BTreeSet<_> = TABLE.lines().filter_map(|line| line.strip_prefix("function ")).collect();
    assert_eq!(all.len(), 664);
    let reasons: Vec<_> = NOT_COMPARED
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| line.split_once(' ').expect("a function and a reason"))
        .collect();
    let reason = |name: &str| reasons.iter().any(|(pattern, _)| matches(pattern, name));
    let missing: Vec<_> = all.iter().filter(|name| !compared.contains(**name) && !reason(name)).collect();
    assert!(missing.is_empty(), "neither compared nor a reason: {missing:?}");
    let both: Vec<_> = compared.iter().filter(|name| reason(name)).collect();
    assert!(both.is_empty(), "compared, and a reason why not: {both:?}");
    let unused: Vec<_> =
        reasons.iter().filter(|(pattern, _)| !all.iter().any(|name| matches(pattern, name))).collect();
    assert!(unused.is_empty(), "reasons for what is no function: {unused:?}");
    eprintln!("{} of {} functions are compared", compared.len(), all.len());
}
