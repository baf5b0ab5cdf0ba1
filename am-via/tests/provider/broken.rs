//! The suite must detect a provider that does not check the state of its VIs: otherwise a pass would prove nothing.

use std::process::Command;

use am_via_nic::testing::break_state_check;

/// Environment variable that marks the process in which the check is missing.
const BROKEN: &str = "PROVIDER_IS_BROKEN";

#[test]
fn messages_of_vis_in_any_state_are_noticed() {
    if std::env::var_os(BROKEN).is_some() {
        break_state_check();
        return super::conformance_wire::two_tasks();
    }
    let broken = Command::new(std::env::current_exe().expect("a test has a path"))
        .args(["--exact", "broken::messages_of_vis_in_any_state_are_noticed", "--nocapture"])
        .env(BROKEN, "1")
        .output()
        .expect("a test can start its own binary");
    let said = String::from_utf8_lossy(&broken.stderr);
    assert!(
        broken.status.code() == Some(101) && said.contains("its connection is closed"),
        "{}: {said}",
        broken.status
    );
}
