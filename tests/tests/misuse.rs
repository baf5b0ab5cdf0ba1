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
use std::sync::Mutex;
use std::{env, fs};

use am_tests::programs::{self, Scratch};
use serde_json::Value;

/// The libraries that the programs may use: those of this build, which are there already. They have the features that tests need, so the
/// programs see at least what a user's program sees.
const LIBRARIES: [&str; 12] = [
    "am_core_engine",
    "am_core",
    "am_double",
    "am_via",
    "am_via_job",
    "am_via_nic",
    "am_via_ofi",
    "am_via_os",
    "am_via_shm",
    "am_via_vipl",
    "bytemuck",
    "mpi_over_am",
];

/// The end of a text that has only the first of several errors.
const AND_SO_ON: &str = "...\n";

/// The line of `.ci/run` that names the compiler of the texts.
const COMPILER: &str = "TEXTS_OF=";

#[test]
fn misuse_does_not_compile() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the package lies in the workspace");
    let cases = cases(root);
    assert!(!cases.is_empty(), "no program was found: nothing would be checked");
    let errors = check_all(&cases);
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

/// The programs in `tests/misuse` by their names: the folder's, then the file's.
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

/// The libraries that the programs use, as this build has compiled them. Cargo prints the files of libraries that are up to date, too.
fn libraries() -> BTreeMap<&'static str, PathBuf> {
    let output = programs::build_of_all().arg("--message-format=json").output().expect("cargo runs");
    assert!(output.status.success(), "cargo says: {}", String::from_utf8_lossy(&output.stderr));
    let mut found = BTreeMap::new();
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let Ok(said) = serde_json::from_str::<Value>(line) else { continue };
        let files = said["filenames"].as_array().into_iter().flatten();
        let name = LIBRARIES.into_iter().find(|name| said["target"]["name"] == **name);
        let library = files.filter_map(Value::as_str).find(|file| file.ends_with(".rlib"));
        if let (Some(name), Some(library)) = (name, library) {
            let before = found.insert(name, PathBuf::from(library));
            assert!(before.is_none(), "{name} was compiled twice: {before:?} and {library}");
        }
    }
    let missing: Vec<_> = LIBRARIES.into_iter().filter(|name| !found.contains_key(name)).collect();
    assert!(missing.is_empty(), "cargo names no file of {missing:?}");
    found
}

/// The compiler's message for each program that it refuses.
fn check_all(cases: &BTreeMap<String, PathBuf>) -> BTreeMap<String, String> {
    let libraries = libraries();
    let scratch = Scratch::new("misuse");
    let sound = scratch.path().join("sound.rs");
    let names = LIBRARIES.map(|name| format!("extern crate {name} as _;\n")).concat();
    fs::write(&sound, names + "fn main() {}\n").expect("a test can write here");
    let said = check(&sound, &libraries, scratch.path());
    assert!(said.is_none(), "a program without a mistake must compile: {said:?}");
    let (errors, left) = (Mutex::new(BTreeMap::new()), Mutex::new(cases.iter()));
    let next = || left.lock().expect("no thread panics with the lock").next();
    std::thread::scope(|threads| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            threads.spawn(|| {
                while let Some((name, path)) = next() {
                    if let Some(said) = check(path, &libraries, scratch.path()) {
                        errors.lock().expect("no thread panics with the lock").insert(name.clone(), said);
                    }
                }
            });
        }
    });
    errors.into_inner().expect("all threads have ended")
}

/// The compiler's errors about a program; `None` if it compiles.
fn check(program: &Path, libraries: &BTreeMap<&'static str, PathBuf>, scratch: &Path) -> Option<String> {
    let mut compiler = Command::new(env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
    compiler.args(["--edition=2024", "--emit=metadata", "--error-format=json", "--out-dir"]).arg(scratch);
    for (name, library) in libraries {
        let folder = library.parent().expect("a file lies in a folder");
        compiler.arg("-L").arg(folder.join("deps")).arg("-L").arg(folder);
        compiler.arg("--extern").arg(format!("{name}={}", library.display()));
    }
    let output = compiler.arg(program).output().expect("a compiler built this test");
    if output.status.success() {
        return None;
    }
    let mut text = String::new();
    for line in String::from_utf8_lossy(&output.stderr).lines() {
        let message: Value = serde_json::from_str(line).expect("the compiler prints JSON");
        if message["level"] == "error" && message["spans"].as_array().is_some_and(|spans| !spans.is_empty()) {
            text.push_str(&text_of(&message));
        }
    }
    assert!(!text.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(text)
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
