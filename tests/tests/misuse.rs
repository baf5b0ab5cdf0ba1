//! Programs that must not compile: each program in `misuse/CRATE` tries to break, in safe code, one promise that a type of that crate
//! makes.
//!
//! Every compiler must refuse each program. The expected message of the compiler is in `NAME.txt` beside the program, so that a refusal for
//! another reason is noticed. A text that ends with `...` is the first of several messages. Messages differ between compilers, and are
//! compared only with the compiler that `.ci/run` names. To record them again: `MISUSE=record cargo test -p am-tests --test misuse`.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use serde_json::Value;

/// The programs are compiled against the crates with their default features, except am-core, whose loopback they need.
const DEPENDENCIES: &str = r#"
am-core-engine = { path = "ROOT/am-core/engine" }
am-core = { path = "ROOT/am-core", features = ["testing"] }
am-via = { path = "ROOT/am-via" }
bytemuck = "1"
mpi-over-am = { path = "ROOT/mpi-over-am" }
"#;

/// The end of a text that has only the first of several errors.
const AND_SO_ON: &str = "...\n";

/// The line of `.ci/run` that names the compiler of the texts.
const COMPILER: &str = "TEXTS_OF=";

#[test]
fn misuse_does_not_compile() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the package lies in the workspace");
    let cases = cases(root);
    assert!(!cases.is_empty(), "no program was found: nothing would be checked");
    let errors = check_all(root, &cases);
    let compiled: Vec<_> = cases.keys().filter(|name| !errors.contains_key(*name)).collect();
    assert!(compiled.is_empty(), "these programs compile, and must not: {compiled:#?}");
    let is_recording = env::var_os("MISUSE").is_some_and(|word| word == "record");
    if !is_recording && !is_compiler_of_texts(root) {
        return;
    }
    let mut differing = String::new();
    for (name, said) in &errors {
        let text = cases[name].with_extension("txt");
        let recorded = fs::read_to_string(&text).unwrap_or_default();
        let said = match recorded.ends_with(AND_SO_ON) {
            true => first_of(said),
            false => said.clone(),
        };
        if is_recording {
            fs::write(&text, said).expect("a text can be written");
        } else if recorded != said {
            write!(differing, "\n--- {} differs from the compiler's message:\n{said}", text.display())
                .expect("writing to a string succeeds");
        }
    }
    assert!(differing.is_empty(), "{differing}");
}

/// The programs by their names.
fn cases(root: &Path) -> BTreeMap<String, PathBuf> {
    let list = |folder: &Path| -> Vec<PathBuf> {
        let entries = fs::read_dir(folder).expect("the folder can be read");
        entries.map(|entry| entry.expect("an entry").path()).collect()
    };
    let files = list(&root.join("tests/misuse")).into_iter().flat_map(|of_crate| list(&of_crate));
    let programs = files.filter(|path| path.extension().is_some_and(|extension| extension == "rs"));
    let name = |path: &Path| {
        let words: Vec<_> = path
            .with_extension("")
            .iter()
            .rev()
            .take(2)
            .map(|word| word.to_string_lossy().into_owned())
            .collect();
        format!("{}-{}", words[1], words[0])
    };
    programs.map(|path| (name(&path), path)).collect()
}

/// The compiler's message for each program that it refuses.
fn check_all(root: &Path, cases: &BTreeMap<String, PathBuf>) -> BTreeMap<String, String> {
    let project = Path::new(env!("CARGO_TARGET_TMPDIR")).join("misuse");
    fs::create_dir_all(&project).expect("the target folder can be written to");
    let mut manifest =
        String::from("[package]\nname = \"misuse\"\nedition = \"2024\"\n\n[workspace]\n\n[dependencies]");
    manifest.push_str(&DEPENDENCIES.replace("ROOT", &root.to_string_lossy()));
    for (name, path) in cases {
        write!(manifest, "\n[[bin]]\nname = {name:?}\npath = {path:?}\n")
            .expect("writing to a string succeeds");
    }
    fs::write(project.join("Cargo.toml"), manifest).expect("the manifest can be written");
    // The versions of the workspace's build, which are available without a network.
    fs::copy(root.join("Cargo.lock"), project.join("Cargo.lock")).expect("the workspace has a lock file");
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["check", "--offline", "--keep-going", "--bins", "--message-format=json"])
        .env("CARGO_TARGET_DIR", project.join("target"))
        .current_dir(&project)
        .output()
        .expect("cargo runs");
    let mut errors: BTreeMap<String, String> = BTreeMap::new();
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let Ok(said) = serde_json::from_str::<Value>(line) else { continue };
        let (target, message) = (&said["target"]["name"], &said["message"]);
        if let Some(name) = target.as_str().filter(|name| cases.contains_key(*name))
            && message["level"] == "error"
            && message["spans"].as_array().is_some_and(|spans| !spans.is_empty())
        {
            errors.entry(name.to_owned()).or_default().push_str(&text_of(message));
        }
    }
    assert!(!errors.is_empty(), "cargo says: {}", String::from_utf8_lossy(&output.stderr));
    errors
}

/// An error without paths and advice: the message, and the places in the source that it names.
fn text_of(message: &Value) -> String {
    let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut text = format!("error[{}]: {}\n", word(&message["code"]["code"]), word(&message["message"]));
    let spans = message["spans"].as_array().into_iter().flatten();
    for span in spans.filter(|span| span["is_primary"] == true) {
        let label = word(&span["label"]);
        let line = format!(" at {}:{} {label}", span["line_start"], span["column_start"]);
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// The first error, followed by [`AND_SO_ON`].
fn first_of(said: &str) -> String {
    let end = said[1..].find("error[").map_or(said.len(), |at| at + 1);
    format!("{}{AND_SO_ON}", &said[..end])
}

/// Whether the compiler is the one that the texts were recorded with. If not, prints that, even if the output of tests is captured.
fn is_compiler_of_texts(root: &Path) -> bool {
    let script = fs::read_to_string(root.join(".ci/run")).expect("the checks' script can be read");
    let named = script.lines().find_map(|line| line.strip_prefix(COMPILER)).expect("it names a compiler");
    let named = named.trim_matches('"');
    let rustc = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let version = Command::new(rustc).arg("--version").output().expect("a compiler built this test");
    let version = String::from_utf8_lossy(&version.stdout);
    let is_same = version.starts_with(named);
    if !is_same {
        let line = format!(
            "misuse: all programs were refused; the texts were not compared: they are of {named}*, and this compiler is {version}"
        );
        // Written directly, since the output of `eprintln!` is captured.
        std::io::stderr().write_all(line.as_bytes()).expect("standard error is there");
    }
    is_same
}
