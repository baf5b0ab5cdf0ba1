//! Builds an example or program of a cargo workspace and finds its executable.

use std::env;
use std::ffi::OsStr;
use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::Value;

use super::LaunchError;
use am_via_job::settings::nearest;

/// Shows cargo's progress bar, which `--quiet` would hide. Cargo does not ask the terminal for its width if the bar is forced, so the width
/// is set.
const PROGRESS: [&str; 4] = ["--config", "term.progress.when='always'", "--config", "term.progress.width=80"];

/// A target that cargo builds, in the workspace of the current directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CargoTarget {
    /// An example or a program.
    pub kind: TargetKind,
    /// The target's name.
    pub name: String,
    /// The target's package. `None`: the package that has a target of this kind and name.
    pub package: Option<String>,
    /// Features of the package, which the build enables, in the form of cargo's `--features`.
    pub features: Vec<String>,
}

/// The kinds of cargo targets that can run as tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TargetKind {
    /// `examples/NAME.rs`.
    Example,
    /// `src/main.rs`, `src/bin/NAME.rs`.
    Bin,
}

impl TargetKind {
    /// The kind's name in cargo's metadata and options.
    fn word(self) -> &'static str {
        match self {
            Self::Example => "example",
            Self::Bin => "bin",
        }
    }

    fn is_of(self, target: &Value) -> bool {
        target["kind"].as_array().is_some_and(|kinds| kinds.iter().any(|kind| kind == self.word()))
    }
}

/// Builds `target` in release mode and returns the path of its executable. Cargo's messages go to standard error.
///
/// # Errors
/// [`LaunchError::NoSuchTarget`]; [`LaunchError::WhichPackage`]: several packages have such a target; [`LaunchError::Build`];
/// [`LaunchError::NoWorkspace`]; [`LaunchError::System`]: cargo cannot be started.
pub fn build(target: &CargoTarget) -> Result<PathBuf, LaunchError> {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let package = package_of(target, &metadata(&cargo)?)?;
    let kind = target.kind;
    let output = Command::new(&cargo)
        .args([
            "build",
            "--quiet",
            "--release",
            "--package",
            &package,
            &format!("--{}", kind.word()),
            &target.name,
            "--features",
            &target.features.join(","),
        ])
        .arg("--message-format=json-render-diagnostics")
        .args(if io::stderr().is_terminal() { &PROGRESS[..] } else { &[] })
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .map_err(LaunchError::system("starting cargo"))?;
    let built =
        output.status.success().then(|| executable_in(&String::from_utf8_lossy(&output.stdout), target));
    built.flatten().ok_or_else(|| LaunchError::Build { kind: kind.word(), name: target.name.clone() })
}

/// Cargo's metadata about the packages of this workspace.
fn metadata(cargo: &OsStr) -> Result<Value, LaunchError> {
    let output = Command::new(cargo)
        .args(["metadata", "--no-deps", "--format-version", "1"])
        .stdin(Stdio::null())
        .output()
        .map_err(LaunchError::system("starting cargo"))?;
    let why = |text: &str| LaunchError::NoWorkspace { why: text.trim().to_owned() };
    if !output.status.success() {
        return Err(why(&String::from_utf8_lossy(&output.stderr)));
    }
    serde_json::from_slice(&output.stdout).map_err(|error| why(&format!("cargo metadata: {error}")))
}

/// The package that has the target.
fn package_of(target: &CargoTarget, metadata: &Value) -> Result<String, LaunchError> {
    let CargoTarget { kind, name, package, .. } = target;
    let listed = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let packages = listed(&metadata["packages"]);
    let targets = packages.iter().flat_map(|package| {
        let of_kind = listed(&package["targets"]).into_iter().filter(|target| kind.is_of(target));
        of_kind.filter_map(|target| Some((package["name"].as_str()?, target["name"].as_str()?.to_owned())))
    });
    let wanted = |of: &str| package.as_ref().is_none_or(|package| package == of);
    let mut known: Vec<(&str, String)> = targets.filter(|(of, _)| wanted(of)).collect();
    known.sort();
    let owners: Vec<&str> = known.iter().filter(|(_, known)| known == name).map(|(of, _)| *of).collect();
    match owners[..] {
        [only] => Ok(only.to_owned()),
        [] => {
            let names: Vec<&str> = known.iter().map(|(_, name)| &**name).collect();
            let near = nearest(name, &names).map(|near| (*near).to_owned());
            let known = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
            Err(LaunchError::NoSuchTarget { kind: kind.word(), name: name.clone(), known, near })
        }
        _ => {
            let packages = owners.join(", ");
            Err(LaunchError::WhichPackage { kind: kind.word(), name: name.clone(), packages })
        }
    }
}

/// The executable that cargo's messages name for the target.
fn executable_in(messages: &str, target: &CargoTarget) -> Option<PathBuf> {
    messages
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .filter(|message| message["reason"] == "compiler-artifact")
        .filter(|message| target.kind.is_of(&message["target"]) && message["target"]["name"] == *target.name)
        .find_map(|message| Some(PathBuf::from(message["executable"].as_str()?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(kind: TargetKind, name: &str) -> CargoTarget {
        CargoTarget { kind, name: name.to_owned(), package: None, features: Vec::new() }
    }

    #[test]
    fn the_executable_is_read_from_cargos_messages() {
        let messages = r#"
{"reason":"compiler-artifact","target":{"kind":["lib"],"name":"ring"},"executable":null}
{"reason":"compiler-artifact","target":{"kind":["example"],"name":"ring"},"executable":"/t/release/examples/ring"}
{"reason":"compiler-artifact","target":{"kind":["bin"],"name":"ring"},"executable":"/t/release/ring"}
no json
{"reason":"build-finished","success":true}
"#;
        let found = |kind, name| executable_in(messages, &target(kind, name));
        assert_eq!(found(TargetKind::Example, "ring"), Some(PathBuf::from("/t/release/examples/ring")));
        assert_eq!(found(TargetKind::Bin, "ring"), Some(PathBuf::from("/t/release/ring")));
        assert_eq!(found(TargetKind::Example, "other"), None);
    }

    #[test]
    fn the_package_is_found_by_the_target_and_asked_for_if_several_have_it() {
        let metadata = serde_json::json!({ "packages": [
            { "name": "one", "targets": [{ "kind": ["example"], "name": "ring" }, { "kind": ["bin"], "name": "tool" }] },
            { "name": "two", "targets": [{ "kind": ["example"], "name": "star" }, { "kind": ["bin"], "name": "tool" }] },
        ] });
        let example = target(TargetKind::Example, "star");
        assert_eq!(package_of(&example, &metadata).unwrap(), "two");
        let said = package_of(&target(TargetKind::Example, "tool"), &metadata).unwrap_err().to_string();
        assert!(said.contains("ring, star") && !said.contains("perhaps"), "{said}");
        let said = package_of(&target(TargetKind::Example, "rign"), &metadata).unwrap_err().to_string();
        assert!(said.contains("perhaps \"ring\" is meant"), "{said}");
        let mut tool = target(TargetKind::Bin, "tool");
        let said = package_of(&tool, &metadata).unwrap_err().to_string();
        assert!(said.contains("one, two"), "{said}");
        tool.package = Some("two".to_owned());
        assert_eq!(package_of(&tool, &metadata).unwrap(), "two");
    }
}
