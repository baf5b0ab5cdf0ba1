//! Which file a program's name means, and how an example becomes a program.

use std::env;
use std::ffi::OsStr;
use std::io::{self, IsTerminal};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use super::LaunchError;

/// The package that the examples belong to.
const EXAMPLES_PACKAGE: &str = "am-examples";

/// Cargo's progress bar while there is something to build, and nothing else. Cargo asks for a width, since it no longer looks.
const PROGRESS: [&str; 4] = ["--config", "term.progress.when='always'", "--config", "term.progress.width=80"];

/// The file that `name` means: with a slash it is a path from here; without one it is looked up in PATH, then here.
///
/// # Errors
/// There is none, or it cannot be executed.
pub fn find(name: &OsStr) -> Result<PathBuf, LaunchError> {
    let path = env::var_os("PATH").unwrap_or_default();
    find_in(name, &path)
}

fn find_in(name: &OsStr, path: &OsStr) -> Result<PathBuf, LaunchError> {
    let here = Path::new(name);
    let has_slash = name.as_encoded_bytes().contains(&b'/');
    let listed = env::split_paths(path).map(|folder| folder.join(here));
    if !has_slash && let Some(found) = listed.into_iter().find(|file| why_not_executable(file).is_none()) {
        return absolute(&found);
    }
    if name.is_empty() || !here.exists() {
        return Err(LaunchError::ProgramNotFound { program: here.to_owned() });
    }
    match why_not_executable(here) {
        None => absolute(here),
        Some(why) => Err(LaunchError::NotExecutable { program: here.to_owned(), why }),
    }
}

/// Tasks may start in another directory, where a path from here would mean another file.
fn absolute(file: &Path) -> Result<PathBuf, LaunchError> {
    std::path::absolute(file).map_err(LaunchError::system("looking up the current directory"))
}

fn why_not_executable(file: &Path) -> Option<&'static str> {
    match file.metadata() {
        Err(_) => Some("it cannot be looked at"),
        Ok(data) if data.is_dir() => Some("it is a directory"),
        Ok(data) if data.permissions().mode() & 0o111 == 0 => Some("no execute permission"),
        Ok(_) => None,
    }
}

/// Builds an example in release and returns its file. Cargo's messages go to the standard error.
///
/// # Errors
/// There is no such example, it does not build, or cargo finds no examples from the current directory.
pub fn build_example(name: &str) -> Result<PathBuf, LaunchError> {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let known = known_examples(&cargo)?;
    if !known.iter().any(|example| example == name) {
        let known = if known.is_empty() { "none yet".to_owned() } else { known.join(", ") };
        return Err(LaunchError::NoSuchExample { name: name.to_owned(), known });
    }
    let output = Command::new(&cargo)
        .args(["build", "--quiet", "--release", "--package", EXAMPLES_PACKAGE, "--example", name])
        .arg("--message-format=json-render-diagnostics")
        .args(if io::stderr().is_terminal() { &PROGRESS[..] } else { &[] })
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .map_err(LaunchError::system("starting cargo"))?;
    let built =
        output.status.success().then(|| executable_in(&String::from_utf8_lossy(&output.stdout), name));
    built.flatten().ok_or_else(|| LaunchError::Build { name: name.to_owned() })
}

fn known_examples(cargo: &OsStr) -> Result<Vec<String>, LaunchError> {
    let output = Command::new(cargo)
        .args(["metadata", "--no-deps", "--format-version", "1"])
        .stdin(Stdio::null())
        .output()
        .map_err(LaunchError::system("starting cargo"))?;
    let why = |text: &str| LaunchError::NoWorkspace { why: text.trim().to_owned() };
    if !output.status.success() {
        return Err(why(&String::from_utf8_lossy(&output.stderr)));
    }
    let metadata: Value =
        serde_json::from_slice(&output.stdout).map_err(|error| why(&format!("cargo metadata: {error}")))?;
    let packages = metadata["packages"].as_array().map_or(&[][..], Vec::as_slice);
    let examples = packages
        .iter()
        .find(|package| package["name"] == EXAMPLES_PACKAGE)
        .ok_or_else(|| why(&format!("this workspace has no package {EXAMPLES_PACKAGE}")))?;
    let targets = examples["targets"].as_array().map_or(&[][..], Vec::as_slice);
    let mut names: Vec<String> = targets
        .iter()
        .filter(|target| is_example(target))
        .filter_map(|target| Some(target["name"].as_str()?.to_owned()))
        .collect();
    names.sort();
    Ok(names)
}

/// The file that cargo's messages name for the example.
fn executable_in(messages: &str, name: &str) -> Option<PathBuf> {
    messages
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .filter(|message| message["reason"] == "compiler-artifact")
        .filter(|message| is_example(&message["target"]) && message["target"]["name"] == name)
        .find_map(|message| Some(PathBuf::from(message["executable"].as_str()?)))
}

fn is_example(target: &Value) -> bool {
    target["kind"].as_array().is_some_and(|kinds| kinds.iter().any(|kind| kind == "example"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_without_a_slash_is_looked_up_in_path_and_one_with_a_slash_is_not() {
        let found = find_in(OsStr::new("sh"), OsStr::new("/no/such/folder:/bin:/usr/bin")).unwrap();
        assert!(found.is_absolute() && found.ends_with("sh"));
        assert!(matches!(
            find_in(OsStr::new("./sh"), OsStr::new("/bin")),
            Err(LaunchError::ProgramNotFound { .. })
        ));
    }

    #[test]
    fn what_is_not_there_and_what_is_no_program_are_told_apart() {
        let path = OsStr::new("/bin");
        for missing in ["no-such-program", "./no-such-program", ""] {
            let error = find_in(OsStr::new(missing), path).unwrap_err();
            assert_eq!(error.exit_code(), 127, "{error}");
        }
        for refused in ["Cargo.toml", "./src"] {
            let error = find_in(OsStr::new(refused), path).unwrap_err();
            assert_eq!(error.exit_code(), 126, "{error}");
        }
    }

    #[test]
    fn the_executable_is_read_from_cargos_messages() {
        let messages = r#"
{"reason":"compiler-artifact","target":{"kind":["lib"],"name":"ring"},"executable":null}
{"reason":"compiler-artifact","target":{"kind":["example"],"name":"ring"},"executable":"/t/release/examples/ring"}
no json
{"reason":"build-finished","success":true}
"#;
        assert_eq!(executable_in(messages, "ring"), Some(PathBuf::from("/t/release/examples/ring")));
        assert_eq!(executable_in(messages, "other"), None);
    }
}
