//! Each of MPI's error classes is raised by a C program of the tests, or this file gives a reason why no call raises it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Classes that no call raises, each with its reason.
const NEVER: &[(&str, &str)] = &[
    (
        "INTERN",
        "an error inside the library, or bytes that only a task with stray writes can send: no argument causes it",
    ),
    ("UNKNOWN", "every error of the library has a class of its own; an unknown code is refused, not renamed"),
    (
        "PENDING",
        "MPI_Waitall and MPI_Waitsome wait for the other requests even if one has failed: none is left pending",
    ),
    (
        "RMA_CONFLICT",
        "the standard leaves the result of conflicting accesses to a window undefined; to detect them, each put would be \
                      compared with all others, and several accumulates to one place do not conflict",
    ),
    (
        "VALUE_TOO_LARGE",
        "a size or count that an int cannot hold is returned as MPI_UNDEFINED, and the contents of a type with large counts \
                         are MPI_ERR_TYPE for the calls without them: nothing is left that would not fit",
    ),
    (
        "PROC_ABORTED",
        "the class stands for failures that a program survives by the standard's rules; here the death of a task is \
                      MPI_ERR_OTHER with the rank, the cause and the last words in the text",
    ),
];

/// The only class of the list above that the library names nevertheless.
const OWN_MISTAKES: &str = "INTERN";

/// Programs with generated calls, each of which accepts several classes.
const NOT_EXACT: &[&str] = &["bad_input.c"];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the package lies in the workspace's root")
}

/// The names after each `MPI_ERR_` of a text.
fn names(text: &str) -> impl Iterator<Item = &str> {
    text.split("MPI_ERR_").skip(1).map(|rest| {
        let end = rest.find(|c: char| !c.is_ascii_uppercase() && c != '_').unwrap_or(rest.len());
        &rest[..end]
    })
}

/// The classes of the header, without `MPI_ERR_LASTCODE`.
fn classes() -> BTreeSet<String> {
    let header = fs::read_to_string(root().join("mpi-over-am/abi/include/mpi.h")).expect("the header");
    let found: BTreeSet<_> =
        names(&header).filter(|name| !name.is_empty() && *name != "LASTCODE").map(str::to_owned).collect();
    assert!(found.len() >= 62, "{} classes only: {found:?}", found.len());
    found
}

/// The classes that the programs expect of a call's error.
fn raised() -> BTreeSet<String> {
    let folder = root().join("tests/c");
    let mut found = BTreeSet::new();
    for entry in fs::read_dir(folder).expect("the folder of C programs") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        if !name.ends_with(".c") || NOT_EXACT.contains(&name.as_str()) {
            continue;
        }
        let text = fs::read_to_string(&path).expect("a text");
        // The class is the last argument on the line. Codes that a callback of the program has returned do not count.
        let checks = text
            .lines()
            .map(str::trim)
            .filter(|line| line.starts_with("FAILS(") || line.starts_with("REFUSED("));
        found.extend(checks.filter_map(|line| names(line).last()).map(str::to_owned));
    }
    assert!(!found.is_empty(), "no program raises a class: nothing was checked");
    found
}

fn files_below(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder of sources") {
        let path = entry.expect("an entry").path();
        if path.is_dir() { files_below(&path, files) } else { files.push(path) }
    }
}

/// The classes' names in Rust, by their names in the standard.
fn variants() -> BTreeMap<String, String> {
    let text = fs::read_to_string(root().join("mpi-over-am/src/error.rs")).expect("the file of the errors");
    let (_, text) = text.split_once("\nerror_classes! {").expect("the classes");
    let (text, _) = text.split_once("\n}").expect("their end");
    let lines: Vec<_> = text.lines().map(str::trim).collect();
    let pairs = lines.windows(2).filter_map(|pair| {
        let name = pair[0].strip_prefix("/// `MPI_ERR_")?.strip_suffix('`')?;
        Some((name.to_owned(), pair[1].trim_end_matches(',').to_owned()))
    });
    pairs.collect()
}

#[test]
fn each_class_is_raised_or_has_a_reason() {
    let (classes, raised) = (classes(), raised());
    let reasons: BTreeMap<_, _> = NEVER.iter().copied().collect();
    assert_eq!(reasons.len(), NEVER.len(), "a class has two reasons");
    assert!(!reasons.is_empty(), "the list of reasons is empty: nothing was checked");
    for (class, reason) in &reasons {
        assert!(classes.contains(*class), "MPI_ERR_{class} is no class of the header");
        assert!(reason.split_whitespace().count() >= 4, "MPI_ERR_{class} has no reason");
    }
    for class in &classes {
        let (is_raised, has_reason) = (raised.contains(class), reasons.contains_key(class.as_str()));
        assert!(is_raised || has_reason, "no test raises MPI_ERR_{class}, and no reason is given");
        assert!(!(is_raised && has_reason), "MPI_ERR_{class} is raised by a test: its reason is wrong");
    }
}

#[test]
fn the_library_names_the_classes_that_are_raised_and_no_others() {
    let variants = variants();
    assert_eq!(variants.len(), classes().len(), "each class has a name in Rust");
    let mut files = Vec::new();
    for folder in ["mpi-over-am/src", "mpi-over-am/abi/src"] {
        files_below(&root().join(folder), &mut files);
    }
    // This file only maps classes to their numbers.
    files.retain(|path| !path.ends_with("abi/src/failure.rs"));
    let sources: Vec<_> = files.iter().map(|path| fs::read_to_string(path).expect("a text")).collect();
    assert!(sources.len() > 100, "{} sources only", sources.len());
    for (class, variant) in &variants {
        let name = format!("ErrorClass::{variant}");
        let is_named = sources.iter().any(|text| {
            text.match_indices(&name)
                .any(|(at, _)| !text[at + name.len()..].starts_with(|c: char| c.is_ascii_alphanumeric()))
        });
        let never = NEVER.iter().any(|(never, _)| never == class);
        assert!(
            is_named != never || class == OWN_MISTAKES,
            "MPI_ERR_{class}: named {is_named}, never raised {never}"
        );
    }
}
