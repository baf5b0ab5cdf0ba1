//! The environment in which real programs are built and run: this library's tools, and two folders that are kept between runs.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use std::{env, fs, io};

use super::{Problem, command};

/// Time limit of building this library.
const BUILD_LIMIT: Duration = Duration::from_secs(1800);

/// This library's tools, built in release mode, and the folders for fetched sources and for builds.
#[derive(Debug)]
pub struct Workshop {
    tools: PathBuf,
    fetched: PathBuf,
    built: PathBuf,
}

impl Workshop {
    /// Builds the library, its wrappers and its launcher in release mode, in the target folder in which this program was built.
    ///
    /// # Errors
    /// The build fails, a folder cannot be made, or this program is not in a target folder of cargo.
    pub fn open() -> Result<Self, Problem> {
        let own = env::current_exe()?;
        let target = own.ancestors().nth(2).ok_or_else(|| {
            Problem::Broken(format!("{} is not in a folder in which cargo builds programs", own.display()))
        })?;
        let (tools, built) = (target.join("release"), target.join("real-programs"));
        fs::create_dir_all(&built)?;
        let cache = env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
        let cache = cache.or_else(|| Some(PathBuf::from(env::var_os("HOME")?).join(".cache")));
        let fetched = cache.map_or_else(|| built.clone(), |cache| cache.join("mpi-over-am/real-programs"));
        let mut build = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        build
            .args(["build", "--release", "-p", "mpi-over-am-abi", "-p", "am-via-launch"])
            .current_dir(env!("CARGO_MANIFEST_DIR"));
        command::must(&mut build, BUILD_LIMIT, &built.join("library.log"))?;
        Ok(Self { tools, fetched, built })
    }

    /// A folder of that name for fetched files, in the user's cache, so that they are fetched once. If neither `XDG_CACHE_HOME` nor `HOME`
    /// is set, the folder is beside the builds.
    ///
    /// # Errors
    /// The folder cannot be made.
    pub fn fetched(&self, name: &str) -> io::Result<PathBuf> {
        made(self.fetched.join(name))
    }

    /// A folder of that name for builds with this library, next to the library.
    ///
    /// # Errors
    /// The folder cannot be made.
    pub fn built(&self, name: &str) -> io::Result<PathBuf> {
        made(self.built.join(name))
    }

    /// The file for the output of a command of that name.
    ///
    /// # Errors
    /// The log's folder cannot be made.
    pub fn log(&self, name: &str) -> io::Result<PathBuf> {
        Ok(self.built("logs")?.join(format!("{name}.log")))
    }

    /// The folder with the library, the wrappers and the launcher.
    #[must_use]
    pub fn tools(&self) -> &Path {
        &self.tools
    }

    /// A tool of this library, such as `mpicc`.
    #[must_use]
    pub fn tool(&self, name: &str) -> PathBuf {
        self.tools.join(name)
    }

    /// A command that launches this number of tasks, on the hosts that `REAL_PROGRAMS_HOSTS` names, or else on this host. The caller adds
    /// the program and its arguments.
    #[must_use]
    pub fn launch(&self, tasks: u32) -> Command {
        let mut command = Command::new(self.tool("mpiexec"));
        command.args(["-n", &tasks.to_string()]);
        if let Some(hosts) = env::var_os("REAL_PROGRAMS_HOSTS") {
            command.arg("--hosts").arg(hosts);
        }
        if let Some(agent) = env::var_os("REAL_PROGRAMS_LAUNCH_AGENT") {
            command.arg("--launch-agent").arg(agent);
        }
        command
    }

    /// `PATH` with this library's tools first.
    #[must_use]
    pub fn path(&self) -> OsString {
        let rest = env::var_os("PATH").unwrap_or_default();
        let folders = std::iter::once(self.tools.clone()).chain(env::split_paths(&rest));
        env::join_paths(folders).unwrap_or(rest)
    }
}

fn made(folder: PathBuf) -> io::Result<PathBuf> {
    fs::create_dir_all(&folder)?;
    Ok(folder)
}
