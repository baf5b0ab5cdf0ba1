//! `.ci/go-on` runs a list of items over several runs: it goes on where it stopped, counts add up, and a failure stays.

use std::fs;
use std::path::Path;
use std::process::Command;

/// Starts one item, whatever the time: `SECONDS` is 0. The items' lines go to a file, so that each shows how often it ran.
fn run(folder: &Path, items: &str) -> (Option<i32>, String) {
    let root =
        Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the package lies in the workspace's root");
    fs::write(folder.join("items"), items).expect("the list can be written");
    let script = "echo \"$@\" >>ran; echo \"counted: $1 rounds\"; echo 'counted: 1 long tests'; exit $2";
    let output = Command::new(root.join(".ci/go-on"))
        .args(["states/part", "0", "60", "try again", "sh", "-c", script, "item"])
        .current_dir(folder)
        .stdin(fs::File::open(folder.join("items")).expect("the list is there"))
        .output()
        .expect("the script starts");
    let said = String::from_utf8_lossy(&output.stdout);
    (output.status.code(), said.lines().last().unwrap_or_default().to_owned())
}

#[test]
fn a_part_goes_on_where_it_stopped_and_a_failure_stays() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("long-parts-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let items = "20 0\n300 4\n1 0\n";
    let (code, last) = run(&folder, items);
    assert_eq!(code, Some(75), "{last}");
    assert!(last.starts_with("=== 1 of 3 items passed, in 1 runs and "), "{last}");
    assert!(last.ends_with(": 20 rounds, 1 long tests; 2 left; to go on: try again"), "{last}");

    let (code, last) = run(&folder, items);
    assert_eq!(code, Some(75), "{last}");
    assert!(
        last.starts_with("=== 1 of 3 items passed, 1 failed (output: states/part.log), in 2 runs"),
        "{last}"
    );

    // The last item passes, and the part fails. A further run has nothing to run.
    for runs in ["in 3 runs", "in 4 runs"] {
        let (code, last) = run(&folder, items);
        assert_eq!(code, Some(1), "{last}");
        assert!(last.starts_with("=== 2 of 3 items passed, 1 failed") && last.contains(runs), "{last}");
        assert!(last.ends_with(": 321 rounds, 3 long tests"), "{last}");
    }
    assert_eq!(fs::read_to_string(folder.join("ran")).unwrap(), items, "each item ran once");

    // Without the failed item, the part has passed; the state still has its line.
    assert_eq!(run(&folder, "20 0\n1 0\n").0, Some(0));
    assert_eq!(run(&folder, "").0, Some(1), "a part without items fails");
    fs::remove_dir_all(folder).unwrap();
}
