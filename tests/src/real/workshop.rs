//! Where real programs are built and run: this library's tools, and a folder that is kept between runs.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use std::{env, fs, io};

use super::{Problem, command};

/// The longest that building this library may take.
const BUILD_LIMIT: Duration = Duration::from_secs(1800);

/// This library's tools, built in release, and the folder for what is fetched and built.
#[derive(Debug)]
pub struct Workshop {
    tools: PathBuf,
    kept: PathBuf,
}

impl Workshop {
    /// Builds the library, its wrappers and its launcher in release, beside this program.
    ///
    /// # Errors
    /// They do not build.
    pub fn open() -> Result<Self, Problem> {
        let own = env::current_exe()?;
        let target = own.ancestors().nth(2).ok_or_else(|| {
            Problem::Broken(format!("{} does not lie where cargo puts programs", own.display()))
        })?;
        let (tools, kept) = (target.join("release"), target.join("real-programs"));
        fs::create_dir_all(&kept)?;
        let mut build = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        build
            .args(["build", "--release", "-p", "mpi-over-am-abi", "-p", "am-via"])
            .current_dir(env!("CARGO_MANIFEST_DIR"));
        command::must(&mut build, BUILD_LIMIT, &kept.join("library.log"))?;
        Ok(Self { tools, kept })
    }

    /// A folder of that name that is kept between runs, made if it is not there.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn folder(&self, name: &str) -> io::Result<PathBuf> {
        let folder = self.kept.join(name);
        fs::create_dir_all(&folder)?;
        Ok(folder)
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

    /// A launch of so many tasks; the program and its arguments are still to be named.
    #[must_use]
    pub fn launch(&self, tasks: u32) -> Command {
        let mut command = Command::new(self.tool("mpiexec"));
        command.args(["-n", &tasks.to_string()]);
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
