//! Rules of this workspace that the compiler does not check: no circular imports, limits on the length of files and the width of comments,
//! complete manifests, names of files in documents, only one file of mpi-over-am that chooses the fabric, and a list of the waits that keep
//! their turn. Each test fails if it finds nothing to check.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use am_tests::imports::Imports;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the package lies in the workspace's root")
}

fn read(path: impl AsRef<Path>) -> String {
    let path = root().join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The Rust sources below a folder, without what cargo has built.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let paths = entries.map(|entry| entry.expect("an entry").path()).filter(|path| !path.ends_with("target"));
    let (folders, files): (Vec<_>, Vec<_>) = paths.partition(|path| path.is_dir());
    let files = files.into_iter().filter(|path| path.extension().is_some_and(|extension| extension == "rs"));
    files.chain(folders.iter().flat_map(|folder| sources(folder))).collect()
}

/// The folders of the workspace's members.
fn members() -> Vec<String> {
    let manifest = read("Cargo.toml");
    let lines = manifest.lines().skip_while(|line| !line.starts_with("members")).skip(1);
    lines.map_while(|line| line.split('"').nth(1)).map(str::to_owned).collect()
}

/// The roots of the workspace's libraries, and of its programs of several files.
fn roots() -> Vec<PathBuf> {
    // The package of the criterion benches has no crate.
    let crates =
        members().into_iter().map(|member| root().join(member).join("src")).filter(|src| src.exists());
    crates
        .flat_map(|src| {
            let programs = fs::read_dir(src.join("bin"))
                .into_iter()
                .flatten()
                .filter_map(|entry| Some(entry.ok()?.path()));
            programs.filter(|path| path.is_dir()).chain([src.clone()]).collect::<Vec<_>>()
        })
        .collect()
}

#[test]
fn modules_import_each_other_in_no_circle() {
    let mut pairs = 0;
    let mut found = Vec::new();
    for src in roots() {
        let imports = Imports::of_crate(&src).unwrap_or_else(|error| panic!("{error}"));
        pairs += imports.count();
        for circle in imports.circles() {
            let folder = src.strip_prefix(root()).expect("in the workspace").display();
            let text = format!("{folder}: {}: {}", circle.parent, circle.modules.join(" "));
            found.push((text, circle.imports));
        }
    }
    assert!(found.is_empty(), "these import each other in a circle: {found:#?}");
    assert!(pairs > 1000, "only {pairs} imports: the sources were not parsed");
}

#[test]
fn files_are_short() {
    for path in sources(root()) {
        let lines = read(&path).lines().count();
        assert!(lines <= 800, "{} has {lines} lines: split it by subject", path.display());
    }
}

#[test]
fn comments_are_at_most_140_columns_wide() {
    let (mut comments, mut wide) = (0, Vec::new());
    for path in sources(root()) {
        let text = read(&path);
        // A row of a table cannot be wrapped.
        let lines = text.lines().zip(1..).filter(|(line, _)| line.trim_start().starts_with("//"));
        for (line, number) in lines.filter(|(line, _)| !line.contains("//! |")) {
            comments += 1;
            if line.chars().count() > 140 {
                wide.push(format!("{}:{number}", path.display()));
            }
        }
    }
    assert!(comments > 1000, "only {comments} comments: the sources were not parsed");
    assert!(wide.is_empty(), "wrap these comments: {wide:#?}");
}

/// The files below a folder, apart from what cargo has built and what version control keeps.
fn all_files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let is_source = |path: &PathBuf| !path.ends_with("target") && !path.ends_with(".git");
    let (folders, files): (Vec<_>, Vec<_>) = paths.filter(is_source).partition(|path| path.is_dir());
    files.into_iter().chain(folders.iter().flat_map(|folder| all_files(folder))).collect()
}

/// The paths that a path with alternatives in braces stands for.
fn alternatives(path: &str) -> Vec<String> {
    let Some((before, rest)) = path.split_once('{') else { return vec![path.to_owned()] };
    let Some((inside, after)) = rest.split_once('}') else { return vec![path.to_owned()] };
    inside.split(',').flat_map(|part| alternatives(&format!("{before}{part}{after}"))).collect()
}

/// A path may begin at any folder of the workspace, and a Rust file may be named without its ending.
#[test]
fn files_that_documents_and_comments_name_exist() {
    let files = all_files(root());
    let mut known = BTreeSet::new();
    for file in &files {
        let inside = file.strip_prefix(root()).expect("in the workspace").to_string_lossy().into_owned();
        for name in [&*inside, inside.trim_end_matches(".rs")] {
            let parts: Vec<_> = name.split('/').collect();
            let begins = (0..parts.len()).flat_map(|from| (from + 1..=parts.len()).map(move |to| from..to));
            known.extend(begins.map(|range| parts[range].join("/")));
        }
    }
    let (mut named, mut missing) = (0, Vec::new());
    for file in &files {
        let is_document = file.extension().is_some_and(|extension| extension == "md");
        if !is_document && file.extension().is_none_or(|extension| extension != "rs") {
            continue;
        }
        let mut is_block = false;
        for (line, number) in read(file).lines().zip(1..) {
            is_block ^= line.trim_start().starts_with("```");
            if is_block || !is_document && !line.trim_start().starts_with("//") {
                continue;
            }
            let is_path = |text: &&str| {
                let is_part = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "_.{},/-".contains(c);
                let is_long = is_document && text.contains('/') && !text.starts_with(['/', '-']);
                (is_long || text.ends_with(".rs") && *text != ".rs") && text.chars().all(is_part)
            };
            let spans = line.split('`').skip(1).step_by(2).filter(is_path);
            for path in spans.filter(|path| !path.starts_with("target/")).flat_map(alternatives) {
                named += 1;
                if !known.contains(path.trim_end_matches('/')) {
                    missing.push(format!("{}:{number}: {path}", file.display()));
                }
            }
        }
    }
    assert!(named > 200, "only {named} names: the documents were not parsed");
    assert!(missing.is_empty(), "these name no file: {missing:#?}");
}

#[test]
fn manifests_give_reasons() {
    let manifest = read("Cargo.toml");
    let (_, dependencies) = manifest.split_once("[workspace.dependencies]\n").expect("dependencies");
    let lines: Vec<_> = dependencies.lines().take_while(|line| !line.is_empty()).collect();
    assert!(lines.len() > 1, "no dependency was found");
    for pair in lines.windows(2).filter(|pair| !pair[1].starts_with('#') && !pair[1].contains("path =")) {
        assert!(pair[0].starts_with("# "), "no reason on the line above: {}", pair[1]);
    }
    for member in members() {
        let (mut is_dependency, mut is_of_tests) = (false, false);
        for line in read(format!("{member}/Cargo.toml")).lines() {
            // A dependency of tests on the crate itself or on a crate above it has a path without a version: cargo leaves this dependency
            // out of the package.
            let is_circle = line.contains("{ path =") && is_of_tests;
            let is_from_root = line.contains("workspace = true") || !line.contains('=') || is_circle;
            assert!(!is_dependency || is_from_root, "{member}: take it from the root manifest: {line}");
            is_of_tests = line == "[dev-dependencies]" || (is_of_tests && !line.starts_with('['));
            is_dependency = line.ends_with("dependencies]") || (is_dependency && !line.starts_with('['));
        }
    }
}

#[test]
fn packages_have_what_a_registry_shows() {
    let licences = ["LICENSE-MIT", "LICENSE-APACHE"];
    let mut published = 0;
    for member in members() {
        let manifest = read(format!("{member}/Cargo.toml"));
        if manifest.contains("publish = false") {
            continue;
        }
        published += 1;
        let value = |key: &str| {
            let line = manifest.lines().find_map(|line| line.strip_prefix(key)?.trim().strip_prefix('='));
            line.unwrap_or_else(|| panic!("{member}: Cargo.toml has no {key}")).trim()
        };
        assert!(value("description").len() > 20, "{member}: the description says too little");
        assert!(
            read(format!("{member}/{}", value("readme").trim_matches('"'))).starts_with("# "),
            "{member}"
        );
        // A registry takes at most five of each, and keywords of at most 20 characters.
        for key in ["keywords", "categories"] {
            let words: Vec<_> = value(key).split('"').skip(1).step_by(2).collect();
            assert!((1..=5).contains(&words.len()), "{member}: {key} has {} entries", words.len());
            assert!(key == "categories" || words.iter().all(|word| word.len() <= 20), "{member}: {words:?}");
        }
        for licence in licences {
            assert_eq!(read(format!("{member}/{licence}")), read(licence), "{member}");
        }
    }
    assert!(published > 10, "only {published} packages: the manifests were not parsed");
}

/// Cargo does not look for examples in the documentation of the packages that switch that off.
#[test]
fn packages_without_documentation_tests_have_no_examples() {
    let mut without = 0;
    for member in members() {
        if !read(format!("{member}/Cargo.toml")).contains("\ndoctest = false") {
            continue;
        }
        without += 1;
        let own = root().join(&member).join("src");
        // The sources of a package without them are another package's.
        for path in own.is_dir().then(|| sources(&own)).into_iter().flatten() {
            let text = read(&path);
            let mut fences = text.lines().filter_map(|line| {
                let line = line.trim_start();
                line.strip_prefix("/// ```").or_else(|| line.strip_prefix("//! ```"))
            });
            // Each second fence ends a block.
            while let Some(language) = fences.next() {
                assert_eq!(language, "text", "{}: cargo test would not run this example", path.display());
                fences.next();
            }
        }
    }
    assert!(without > 5, "only {without} packages: the manifests were not parsed");
}

#[test]
fn one_file_of_mpi_over_am_chooses_the_fabric() {
    let files = sources(&root().join("mpi-over-am/src"));
    let naming: Vec<_> = files.iter().filter(|path| read(path).contains("am_via::")).collect();
    assert_eq!(naming.len(), 1, "{naming:?}");
}

/// The rooms of mpi-over-am: each may name the rooms before it, and the files beside them, which name no room.
const ROOMS: [&str; 8] =
    ["data", "message", "communicator", "request", "collective", "window", "file", "environment"];

#[test]
fn rooms_of_mpi_over_am_name_only_rooms_below_them() {
    let src = root().join("mpi-over-am/src");
    let place = |name: &str| ROOMS.iter().position(|room| *room == name).map_or(0, |at| at + 1);
    let (mut named, mut upward) = (0, Vec::new());
    for path in sources(&src) {
        let file = path.strip_prefix(&src).expect("below the folder").to_string_lossy().into_owned();
        // They offer what the rooms hold.
        if ["lib.rs", "compiled_once.rs"].contains(&&*file) {
            continue;
        }
        let own = place(file.trim_end_matches(".rs").split('/').next().unwrap_or(""));
        let text = read(&path);
        let code = text.split("\n#[cfg(test)]\nmod tests {").next().unwrap_or("");
        for line in code.lines().filter(|line| !line.trim_start().starts_with("//")) {
            for path in line.split("crate::").skip(1) {
                let is_part = |c: char| c.is_ascii_lowercase() || c == '_';
                let name: String = path.chars().take_while(|c| is_part(*c)).collect();
                named += usize::from(place(&name) > 0);
                if place(&name) > own {
                    upward.push(format!("{file}: {name}"));
                }
            }
        }
    }
    assert!(named > 500, "only {named} names of rooms: the files were not parsed");
    assert!(upward.is_empty(), "these name a room above theirs: {upward:#?}");
}

/// The calls of am-core that may wait and that mpi-over-am uses.
const CALLS_THAT_WAIT: [&str; 9] =
    ["wait_until", "wait_until_ended", "rest", "amsend", "put", "get", "rmw", "fence_data", "gfence"];

/// Calls in which mpi-over-am waits without giving up its turn, each with the reason why it delays other threads no longer than a peer's
/// progress takes. An entry without such a call must be removed.
const WAITS_IN_A_TURN: [(&str, &str, &str); 9] = [
    ("communicator/agree.rs", "rmw", "runs only under a policy without turns"),
    ("environment.rs", "fence_data", "all tasks have arrived, or no other thread is in the environment"),
    ("environment.rs", "gfence", "all have come"),
    ("message/progress/mod.rs", "wait_until", "runs only under a policy without turns"),
    (
        "message/progress/mod.rs",
        "wait_until_ended",
        "a transfer in flight: its end needs only progress of the peer",
    ),
    ("message/progress_thread.rs", "rest", "no other thread wants its turn"),
    ("message/protocol/mod.rs", "amsend", "runs only under a policy without turns"),
    ("message/state.rs", "amsend", "waits for credits for a note: the progress of the peer returns them"),
    (
        "message/turn.rs",
        "wait_until",
        "the one wait of all calls: it ends when another thread wants its turn",
    ),
];

#[test]
fn what_waits_in_a_turn_is_listed() {
    let src = root().join("mpi-over-am/src");
    let mut found = BTreeSet::new();
    for path in sources(&src) {
        let file = path.strip_prefix(&src).expect("below the folder").to_string_lossy().into_owned();
        let text = read(&path);
        let code = text.split("\n#[cfg(test)]\nmod tests {").next().unwrap_or("");
        for line in code.lines().filter(|line| !line.trim_start().starts_with("//")) {
            let calls = CALLS_THAT_WAIT.iter().filter(|call| line.contains(&format!("context.{call}(")));
            found.extend(calls.map(|call| (file.clone(), (*call).to_owned())));
        }
    }
    let listed: BTreeSet<_> =
        WAITS_IN_A_TURN.iter().map(|&(file, call, _)| (file.to_owned(), call.to_owned())).collect();
    let (new, gone): (Vec<_>, Vec<_>) =
        (found.difference(&listed).collect(), listed.difference(&found).collect());
    assert!(new.is_empty(), "these wait in their turn: use Turn::wait_for, or give a reason here: {new:?}");
    assert!(gone.is_empty(), "these do not wait: remove them from the list: {gone:?}");
}

/// `ARCHITECTURE.md` is short because everyone who changes the project reads it. Each topic has its own page under `docs/design`.
#[test]
fn the_architecture_fits_into_16_kib() {
    let bytes = read(root().join("ARCHITECTURE.md")).len();
    assert!(
        (4 << 10..=16 << 10).contains(&bytes),
        "ARCHITECTURE.md has {bytes} bytes: move a topic to docs/design"
    );
}
