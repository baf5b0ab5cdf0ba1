//! Bad input to the C interface, function by function: the header gives the parameters, the rules (`bad_input/rules`) their bad values and
//! the standard's error classes for them. Each call has one bad argument among good ones. The call must call the error handler of its
//! object once, with a text that names the call, the rank and the value.

#[path = "bad_input/rules.rs"]
mod rules;

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::Command;

use am_tests::programs::{self, Scratch, run};
use rules::{Bad, Function};

const HEADER: &str = include_str!("../../../mpi-over-am/abi/include/mpi.h");

/// The prototypes of the header.
fn functions() -> Vec<Function> {
    let (_, text) = HEADER.split_once("/* prototypes begin */").expect("the header has prototypes");
    let (text, _) = text.split_once("/* prototypes end */").expect("they end");
    let statements = text.split(';').map(str::trim).filter(|statement| !statement.is_empty());
    let functions: Vec<_> = statements.map(Function::parse).collect();
    assert!(functions.len() >= 664, "only {} functions", functions.len());
    functions
}

/// A call for each bad value of each parameter, as the program `c/bad_input.c` takes them, and the number of these calls.
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
                    .expect("writing to a string succeeds");
                families.insert(base.to_owned());
                number += 1;
            }
        }
    }
    assert!(families.len() > 300 && number > 4000, "{number} calls of {} functions only", families.len());
    (text, number)
}

/// A call of each function while MPI is not running, with whether it is allowed then, and the number of these calls.
fn calls_outside() -> (String, usize) {
    let (mut text, mut number) = (String::new(), 0);
    for function in functions().iter().filter(|function| rules::is_tried_outside(&function.name)) {
        let arguments: Vec<_> =
            function.parameters.iter().map(|parameter| rules::good_value(function, parameter)).collect();
        let call = format!("{}({})", function.name, arguments.join(", "));
        let (base, works) = (rules::said_name(&function.name, false), rules::works_always(&function.name));
        writeln!(text, "OUTSIDE(\"{base}\", {}, {call})", u8::from(works))
            .expect("writing to a string succeeds");
        number += 1;
    }
    assert!(number > 400, "{number} calls only");
    (text, number)
}

/// Compiles `c/bad_input.c` with calls for it.
fn compile(scratch: &Scratch, calls: &str, outside: &str) -> PathBuf {
    programs::build();
    let program = scratch.path().join("program");
    std::fs::write(scratch.path().join("bad_input_calls.h"), calls).expect("a test can write here");
    std::fs::write(scratch.path().join("outside_calls.h"), outside).expect("a test can write here");
    let mut compile = Command::new(programs::folder().join("mpicc"));
    compile
        .args(["-Wall", "-Wextra", "-Werror", "-Wno-nonnull", "-Wno-deprecated-declarations"])
        // Each of the two generated headers contains only some of the calls.
        .args(["-Wno-unused-variable", "-Wno-unused-function", "-o"])
        .arg(&program);
    compile.arg("-I").arg(scratch.path()).arg(concat!(env!("CARGO_MANIFEST_DIR"), "/c/bad_input.c"));
    let (good, said) = run(&mut compile);
    assert!(good, "it does not compile: {said}");
    program
}

#[test]
#[cfg_attr(not(has_cc), ignore = "no C compiler (cc) was found")]
fn calls_while_mpi_is_not_running_say_so() {
    let scratch = Scratch::new("calls-outside");
    let (text, number) = calls_outside();
    let program = compile(&scratch, "", &text);
    let mpiexec = || Command::new(programs::folder().join("mpiexec"));
    let errors = ["-initial-errhandler", "mpi_errors_return", "-n", "2"];
    let (good, said) = run(mpiexec().args(errors).arg(&program).arg("outside"));
    let wrong: Vec<_> = said.lines().filter(|line| line.starts_with("wrong")).collect();
    assert!(wrong.is_empty(), "{} of {number} calls:\n{}", wrong.len(), wrong.join("\n"));
    assert!(good && said.matches("tried all").count() == 4, "{said}");
    // Without the launcher's setting the error is fatal, with the same text.
    for (when, what) in [("before", "before MPI_Init"), ("after", "after MPI_Finalize")] {
        let (good, said) = run(mpiexec().args(["-n", "1"]).arg(&program).arg(when));
        assert!(!good && said.contains("MPI_Barrier") && said.contains(what), "{said}");
        assert!(said.contains("rank 0") && !said.contains("not reached"), "{said}");
    }
    let (good, said) = run(mpiexec().args(["-initial-errhandler", "nothing", "true"]));
    assert!(!good && said.contains("nothing"), "{said}");
}

#[test]
#[cfg_attr(not(has_cc), ignore = "no C compiler (cc) was found")]
fn each_bad_argument_is_found_and_named() {
    let scratch = Scratch::new("bad-input");
    let (text, number) = calls();
    let program = compile(&scratch, &text, "");
    // A call that ends the program is skipped, so that the calls after it are tested, too.
    let (mut wrong, mut next) = (String::new(), 0);
    while next < number {
        let mut start = Command::new(programs::folder().join("mpiexec"));
        let (good, said) = run(start.args(["-n", "1"]).arg(&program).arg(next.to_string()));
        for line in said.lines().filter(|line| line.starts_with("wrong")) {
            writeln!(wrong, "{line}").expect("writing to a string succeeds");
        }
        if good {
            break;
        }
        let at = said
            .lines()
            .rev()
            .find_map(|line| line.strip_prefix("at "))
            .expect("the program prints its position");
        let (at, call) = at.split_once(' ').expect("a number and a call");
        let last = said.lines().rev().find(|line| !line.starts_with("at ")).unwrap_or_default();
        writeln!(wrong, "wrong: {call} ended the program: {last}").expect("writing to a string succeeds");
        next = at.parse::<usize>().expect("a number") + 1;
    }
    assert!(wrong.is_empty(), "{} of {number} calls:\n{wrong}", wrong.lines().count());
}
