//! Bad input to the C interface, function by function: the header says which parameters there are, the rules (`bad_input/rules`)
//! what is bad for each of them, and which error class the standard gives for it. Each call has one bad argument among good ones,
//! must say so through the error handler of its object, once, and name itself, the rank and the value.

#[path = "bad_input/rules.rs"]
mod rules;

use std::fmt::Write as _;
use std::process::Command;

use am_tests::programs::{self, Scratch, run};
use rules::{Bad, Function};

const HEADER: &str = include_str!("../../mpi-over-am/abi/include/mpi.h");

/// The prototypes of the header.
fn functions() -> Vec<Function> {
    let (_, text) = HEADER.split_once("/* prototypes begin */").expect("the header has prototypes");
    let (text, _) = text.split_once("/* prototypes end */").expect("they end");
    let statements = text.split(';').map(str::trim).filter(|statement| !statement.is_empty());
    let functions: Vec<_> = statements.map(Function::parse).collect();
    assert!(functions.len() >= 664, "{} functions only", functions.len());
    functions
}

/// A call for each bad value of each parameter, as the program `c/bad_input.c` takes them.
fn calls() -> (String, usize) {
    let (mut text, mut number, mut families) = (String::new(), 0, std::collections::BTreeSet::new());
    for function in functions().iter().filter(|function| rules::is_tested(&function.name)) {
        for (place, parameter) in function.parameters.iter().enumerate() {
            for Bad { value, classes, says } in rules::bad_values(function, parameter) {
                let arguments: Vec<_> = function
                    .parameters
                    .iter()
                    .enumerate()
                    .map(
                        |(other, good)| {
                            if other == place { value.clone() } else { rules::good_value(function, good) }
                        },
                    )
                    .collect();
                let classes = classes.iter().map(|class| format!("MPI_ERR_{class}")).collect::<Vec<_>>();
                let call = format!("{}({})", function.name, arguments.join(", "));
                let base = rules::said_name(&function.name, value == "NULL");
                writeln!(text, "TRY({number}, \"{base}\", \"{says}\", {call}, {})", classes.join(", "))
                    .expect("a string takes all");
                families.insert(base.to_owned());
                number += 1;
            }
        }
    }
    assert!(families.len() > 300 && number > 4000, "{number} calls of {} functions only", families.len());
    (text, number)
}

#[test]
fn each_bad_argument_is_found_and_named() {
    if !programs::has("cc") {
        return;
    }
    programs::build();
    let scratch = Scratch::new("bad-input");
    let program = scratch.path().join("program");
    let (text, number) = calls();
    std::fs::write(scratch.path().join("bad_input_calls.h"), text).expect("a file of ours");
    let mut compile = Command::new(programs::folder().join("mpicc"));
    compile
        .args(["-Wall", "-Wextra", "-Werror", "-Wno-nonnull", "-Wno-deprecated-declarations", "-o"])
        .arg(&program);
    compile.arg("-I").arg(scratch.path()).arg(concat!(env!("CARGO_MANIFEST_DIR"), "/c/bad_input.c"));
    let (good, said) = run(&mut compile);
    assert!(good, "it does not compile: {said}");
    // A call that ends the program is skipped, so that the others are tried too.
    let (mut wrong, mut next) = (String::new(), 0);
    while next < number {
        let mut start = Command::new(programs::folder().join("mpiexec"));
        let (good, said) = run(start.args(["-n", "1"]).arg(&program).arg(next.to_string()));
        for line in said.lines().filter(|line| line.starts_with("wrong")) {
            writeln!(wrong, "{line}").expect("a string takes all");
        }
        if good {
            break;
        }
        let at = said.lines().rev().find_map(|line| line.strip_prefix("at ")).expect("it says where it is");
        let (at, call) = at.split_once(' ').expect("a number and a call");
        let last = said.lines().rev().find(|line| !line.starts_with("at ")).unwrap_or_default();
        writeln!(wrong, "wrong: {call} ended the program: {last}").expect("a string takes all");
        next = at.parse::<usize>().expect("a number") + 1;
    }
    assert!(wrong.is_empty(), "{} of {number} calls:\n{wrong}", wrong.lines().count());
}
