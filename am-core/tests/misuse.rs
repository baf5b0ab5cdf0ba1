//! What must not compile: handlers that communicate, and borrowed memory that is used while it is under way.
//!
//! The messages of the compiler are part of the expectation, so that a case can't fail for another reason than the one it is
//! about. They differ between compilers: with another one than they were recorded with, the crate's documentation tests, which
//! hold the most important cases, have to do.

use std::process::Command;

/// To record again: `TRYBUILD=overwrite cargo test -p am-core --test misuse`.
const RECORDED_WITH: &str = "rustc 1.95.";

#[test]
fn misuse_does_not_compile() {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let version = Command::new(rustc).arg("--version").output().expect("a compiler built this test");
    let version = String::from_utf8_lossy(&version.stdout);
    if !version.starts_with(RECORDED_WITH) {
        println!("not compared: the messages are those of {RECORDED_WITH}, and this is {version}");
        return;
    }
    let cases = trybuild::TestCases::new();
    cases.compile_fail("tests/misuse/*.rs");
}
