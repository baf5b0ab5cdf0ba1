//! `real-programs differential` compares the programs `c/o_*` on this library and another one. This test checks that together they call
//! every function of the standard, except those for which `c/not_compared.txt` gives a reason.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use am_tests::programs::{self, Scratch, run};

const TABLE: &str = include_str!("../../c/abi_values.txt");
const NOT_COMPARED: &str = include_str!("../../c/not_compared.txt");

/// The MPI functions that a program calls: the undefined names of its object file.
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
#[cfg_attr(all(has_cc, not(has_nm)), ignore = "no nm was found")]
fn every_function_is_compared_or_has_its_reason() {
    programs::build();
    let scratch = Scratch::new("compared");
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("c");
    let mut compared = BTreeSet::new();
    for entry in std::fs::read_dir(&folder).expect("the programs are there") {
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
    assert!(missing.is_empty(), "functions that are not compared, without a reason: {missing:?}");
    let both: Vec<_> = compared.iter().filter(|name| reason(name)).collect();
    assert!(both.is_empty(), "functions that are compared, although a reason against it is given: {both:?}");
    // The program that a reason names must call the function: nothing else tests it.
    for (pattern, reason) in &reasons {
        let (_, caller) =
            reason.rsplit_once("; ").expect("a reason ends with the program that calls the function");
        let program = folder.join(caller.split(' ').next().expect("a name")).with_extension("c");
        if program.ends_with("c_compared.c") {
            continue; // The test below.
        }
        let calls = called(&program, &scratch);
        for name in all.iter().filter(|name| matches(pattern, name)) {
            assert!(calls.contains(*name), "{} does not call {name}", program.display());
        }
    }
    let unused: Vec<_> =
        reasons.iter().filter(|(pattern, _)| !all.iter().any(|name| matches(pattern, name))).collect();
    assert!(unused.is_empty(), "reasons for names that are not functions: {unused:?}");
    eprintln!("{} of {} functions are compared", compared.len(), all.len());
}
