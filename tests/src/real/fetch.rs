//! The sources of programs: the Python package index, by pip; Debian and the crate registry, by curl, with a checksum for each file.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::Problem;
use super::command::must;
use super::workshop::Workshop;

/// Time limit of fetching.
const LIMIT: Duration = Duration::from_secs(900);

/// A Python environment for real programs, in which packages can be installed.
#[derive(Debug)]
pub struct Python {
    folder: PathBuf,
}

impl Python {
    /// Makes the environment of that name, if it does not exist.
    ///
    /// # Errors
    /// There is no python3, it lacks the module venv, or a folder cannot be made.
    pub fn open(workshop: &Workshop, name: &str) -> Result<Self, Problem> {
        let folder = workshop.fetched(name)?;
        let python = Self { folder };
        if !python.program().exists() {
            let mut make = Command::new("python3");
            make.args(["-m", "venv"]).arg(&python.folder);
            must(&mut make, LIMIT, &workshop.log("venv")?).map_err(|problem| match problem {
                Problem::Broken(why) => Problem::Missing(format!("python3 with its module venv: {why}")),
                missing => missing,
            })?;
        }
        Ok(python)
    }

    /// The environment's interpreter.
    #[must_use]
    pub fn program(&self) -> PathBuf {
        self.folder.join("bin/python3")
    }

    /// A program that a package has installed.
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

    /// Installs packages that are not installed yet.
    ///
    /// # Errors
    /// The index cannot be reached, or has no such package; the log's folder cannot be made.
    pub fn install(&self, workshop: &Workshop, packages: &[&str]) -> Result<(), Problem> {
        let log = workshop.log("pip")?;
        must(self.pip().arg("install").args(packages), LIMIT, &log)
            .map(drop)
            .map_err(|problem| unreachable("the Python package index", problem))
    }

    /// Fetches a package's source, and returns the path of its archive.
    ///
    /// # Errors
    /// The index cannot be reached, or has no such source; a folder cannot be made.
    pub fn source(&self, workshop: &Workshop, name: &str, version: &str) -> Result<PathBuf, Problem> {
        let sources = workshop.fetched("sources")?;
        let archive = sources.join(format!("{name}-{version}.tar.gz"));
        if !archive.exists() {
            let mut fetch = self.pip();
            // The build tools are already installed; an isolated build would fetch them again.
            fetch
                .args(["download", "--no-deps", "--no-build-isolation", "--no-binary", name, "--dest"])
                .arg(&sources)
                .arg(format!("{name}=={version}"));
            must(&mut fetch, LIMIT, &workshop.log("fetch")?)
                .map_err(|problem| unreachable("the Python package index", problem))?;
        }
        Ok(archive)
    }
}

/// The library `mpich`, for its compiler wrapper with the standard ABI. It has its own environment, because extensions that are built in an
/// environment use the headers of this environment first.
///
/// # Errors
/// Those of [`Python::open`] and [`Python::install`].
pub fn mpich(workshop: &Workshop) -> Result<Python, Problem> {
    let mpich = Python::open(workshop, "mpich")?;
    mpich.install(workshop, &["mpich==5.0.2"])?;
    Ok(mpich)
}

/// The address and the SHA-256 of a file.
#[derive(Clone, Copy, Debug)]
pub struct Published {
    /// Where the file is published.
    pub address: &'static str,
    /// The SHA-256 of the file, in lower case.
    pub sum: &'static str,
}

impl Published {
    /// Downloads the file if it is not there yet, and returns its path.
    ///
    /// # Errors
    /// curl or sha256sum is missing, the address cannot be reached, the file there has changed, or a folder or file cannot be made.
    pub fn fetch(&self, workshop: &Workshop) -> Result<PathBuf, Problem> {
        let name = self.address.rsplit('/').next().unwrap_or(self.address);
        let sources = workshop.fetched("sources")?;
        let file = sources.join(name);
        if !file.exists() {
            let mut fetch = Command::new("curl");
            let partly = sources.join(format!("{name}.part"));
            fetch.args(["-sSfL", "--retry", "2", "-o"]).arg(&partly).arg(self.address);
            must(&mut fetch, LIMIT, &workshop.log("curl")?)
                .map_err(|problem| unreachable(self.address, problem))?;
            let found = must(Command::new("sha256sum").arg(&partly), LIMIT, &workshop.log("sum")?)?;
            if !found.starts_with(self.sum) {
                return Err(Problem::Missing(format!("{} has another file now: {found}", self.address)));
            }
            fs::rename(partly, &file)?;
        }
        Ok(file)
    }
}

/// Unpacks an archive in a folder.
///
/// # Errors
/// There is no tar, the file is not an archive, or the log's folder cannot be made.
pub fn unpack(workshop: &Workshop, archive: &Path, folder: &Path) -> Result<(), Problem> {
    let mut unpack = Command::new("tar");
    unpack.arg("-xf").arg(archive).arg("-C").arg(folder);
    must(&mut unpack, LIMIT, &workshop.log("tar")?).map(drop)
}

/// Whether a step was done for exactly this text; a changed text makes the step run again.
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
