//! The tests of the launcher, in one binary: a test that waits runs beside the others, and the library is linked once.

#![allow(clippy::unwrap_used, reason = "a failed test panics")]
#![allow(clippy::exit, reason = "a task that ends early is what is tested")]

mod amrun;
#[expect(unsafe_code, reason = "opens the files of a job")]
mod attach;
mod cleanup;
mod hosts;
#[expect(unsafe_code, reason = "opens the files of a job")]
mod library;
mod support;

/// The actions of this binary when it runs as a task.
#[test]
fn task() {
    let Some(role) = support::role() else { return };
    match role.as_str() {
        "flood" | "join" | "have a child" | "tell variables" => amrun::task(&role),
        "launch" => cleanup::task(),
        "exit before leaving"
        | "reach everything"
        | "start another"
        | "start a helper"
        | "be the other"
        | "attach and abort"
        | "be alone"
        | "be refused" => attach::task(&role),
        _ => library::task(&role),
    }
}
