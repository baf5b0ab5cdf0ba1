//! The conformance suite as a program: its lists are complete, and the provider passes all checks.

#![expect(clippy::unwrap_used, reason = "a failed test panics")]

use std::collections::BTreeSet;
use std::process::{Command, Output};
use std::time::Duration;

use am_via_conform::Plan;

fn am_conform(arguments: &[&str]) -> (Output, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_am-conform")).args(arguments).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    (output, text)
}

#[test]
fn every_check_is_right_in_two_processes() {
    let (output, text) = am_conform(&["--seed", "7", "--device", "shm"]);
    assert!(text.starts_with("seed 7\n"), "{text}");
    is_perfect(&output, &text);
}

#[test]
fn every_check_is_right_on_the_wire() {
    let (output, text) = am_conform(&["--seed", "7", "--device", "wire"]);
    is_perfect(&output, &text);
}

#[test]
#[ignore = "long, and needs libfabric"]
fn every_check_is_right_over_the_network() {
    let (output, text) = am_conform(&["--seed", "7", "--device", "ofi"]);
    is_perfect(&output, &text);
}

/// The chosen checks are of all levels.
#[test]
#[ignore = "needs libfabric"]
fn sends_are_right_over_the_network() {
    let (output, text) = am_conform(&["--seed", "7", "--device", "ofi", "--only", "send"]);
    is_perfect(&output, &text);
}

fn is_perfect(output: &Output, text: &str) {
    assert!(output.status.success(), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
    let score = text.lines().last().unwrap();
    for level in ["Early Adopter ", "Functional ", "Full "] {
        let (right, all) =
            score.split(level).nth(1).unwrap().split(' ').next().unwrap().split_once('/').unwrap();
        assert!(right == all && right != "0", "{score}");
    }
}

#[test]
fn there_are_many_checks_each_with_a_name_of_its_own_and_a_clause() {
    let (output, text) = am_conform(&["--list"]);
    assert!(output.status.success());
    let names: BTreeSet<_> = am_via_conform::list().iter().map(|check| check.name).collect();
    assert_eq!(names.len(), am_via_conform::list().len(), "two checks of one name");
    assert!(names.len() >= 120, "only {} checks", names.len());
    assert!(am_via_conform::list().iter().all(|check| !check.clause.is_empty() && text.contains(check.name)));
}

/// Runs the suite in a process of its own, whose VIs send in any state. Release builds have no such VIs.
#[cfg(debug_assertions)]
#[test]
fn a_missing_check_of_the_state_is_noticed() {
    const BROKEN: &str = "PROVIDER_IS_BROKEN";
    const CHECK: &str = "vi_idle_flushes_sends";
    if std::env::var_os(BROKEN).is_some() {
        am_via_nic::testing::break_state_check();
        let plan = Plan {
            only: Some(CHECK.to_owned()),
            over_shm: false,
            patience: Duration::from_secs(1),
            ..Plan::default()
        };
        let score = am_via_conform::run(&plan, |_| ()).unwrap();
        println!("{score}");
        return;
    }
    let broken = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "a_missing_check_of_the_state_is_noticed", "--nocapture"])
        .env(BROKEN, "1")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&broken.stdout);
    assert!(broken.status.success() && said.contains(&format!("FAILED {CHECK}")), "{said}");
}

/// As `am-conform --list | head` closes it.
#[test]
fn an_output_whose_reader_has_gone_ends_quietly() {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let output =
        Command::new(env!("CARGO_BIN_EXE_am-conform")).arg("--list").stdout(writer).output().unwrap();
    assert_eq!(
        (output.status.code(), String::from_utf8_lossy(&output.stderr).as_ref()),
        (Some(128 + 13), "")
    );
}

#[test]
fn a_run_of_nothing_is_no_success() {
    let (output, text) = am_conform(&["--only", "no_check_has_this_name"]);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.ends_with("Early Adopter 0/0  Functional 0/0  Full 0/0\n"), "{text}");
}
