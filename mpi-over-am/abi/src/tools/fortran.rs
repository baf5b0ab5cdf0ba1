//! Files for a Fortran compiler besides the library: `mpif.h`, and the module `mpi` in the compiler's own format, which only that compiler
//! can make. The module is compiled at first use and kept in a cache folder.

use std::ffi::OsStr;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{self, Path, PathBuf};
use std::process::{Command, Stdio};
use std::{env, fs, io};

/// `mpif.h`: the constants, for both source forms.
pub const MPIF: &str = include_str!(concat!(env!("OUT_DIR"), "/mpif.h"));

/// The source of the module `mpi`, which includes `mpif.h`.
pub const MODULE: &str = include_str!(concat!(env!("OUT_DIR"), "/mpi.f90"));

/// A Fortran compiler and its version.
#[derive(Clone, Debug)]
pub struct Compiler {
    program: PathBuf,
    version: String,
}

impl Compiler {
    /// Asks the compiler for its version.
    ///
    /// # Errors
    /// The compiler cannot be run.
    pub fn ask(program: impl Into<PathBuf>) -> io::Result<Self> {
        let program = program.into();
        let output = command(program.as_os_str()).arg("--version").stdin(Stdio::null()).output()?;
        Ok(Self { program, version: String::from_utf8_lossy(&output.stdout).into_owned() })
    }

    /// Options for this compiler: from version 10 on gfortran reports an error if one routine is called with buffers of two types, which is
    /// usual with `mpif.h`.
    #[must_use]
    pub fn options(&self) -> &'static [&'static str] {
        if self.gfortran_version().is_some_and(|version| version >= 10) {
            &["-fallow-argument-mismatch"]
        } else {
            &[]
        }
    }

    fn gfortran_version(&self) -> Option<u32> {
        let line = self.version.lines().next().filter(|line| line.starts_with("GNU Fortran"))?;
        line.split_whitespace()
            .filter_map(|word| word.split_once('.'))
            .find_map(|(major, _)| major.parse().ok())
    }

    /// The folder with `mpif.h` and the module for this compiler. Makes the folder if it does not exist.
    ///
    /// # Errors
    /// The folder cannot be made, or other users can write to it. The compiler cannot compile the module: the error contains the compiler's
    /// output.
    pub fn folder(&self) -> io::Result<PathBuf> {
        let mut hasher = DefaultHasher::new();
        (&self.program, &self.version, MPIF, MODULE).hash(&mut hasher);
        let folder = caches()?.join(format!("{:016x}", hasher.finish()));
        if !folder.join("mpi.mod").exists() {
            self.make(&folder)?;
        }
        Ok(folder)
    }

    /// Makes the folder under another name and renames it: several processes may make it at the same time, and the folder of the first
    /// process stays.
    fn make(&self, folder: &Path) -> io::Result<()> {
        let own = folder.with_extension(std::process::id().to_string());
        fs::create_dir_all(&own)?;
        let made = self.compile(&own).and_then(|()| match fs::rename(&own, folder) {
            Err(error) if !folder.join("mpi.mod").exists() => Err(error),
            _ => Ok(()),
        });
        // If the folder was renamed, there is nothing to remove.
        let _ = fs::remove_dir_all(&own);
        made
    }

    fn compile(&self, folder: &Path) -> io::Result<()> {
        fs::write(folder.join("mpif.h"), MPIF)?;
        fs::write(folder.join("mpi.f90"), MODULE)?;
        let output = command(self.program.as_os_str())
            .args(["-c", "mpi.f90", "-o", "mpi.o"])
            .current_dir(folder)
            .stdin(Stdio::null())
            .output()?;
        let said = [output.stdout, output.stderr].concat();
        if output.status.success() && folder.join("mpi.mod").exists() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&said).lines().take(20).collect::<Vec<_>>().join("\n");
        Err(io::Error::other(format!("{} cannot compile the module mpi: {said}", self.program.display())))
    }
}

/// The command that a variable names as compiler: a program, or one with arguments, as `ccache gcc`. A relative path is meant from here,
/// wherever the command runs.
pub(super) fn command(compiler: &OsStr) -> Command {
    let mut words = vec![compiler];
    if !Path::new(compiler).is_file() {
        let split = compiler.as_bytes().split(u8::is_ascii_whitespace);
        words = split.filter(|word| !word.is_empty()).map(OsStr::from_bytes).collect();
    }
    let mut words = words.into_iter();
    let program = Path::new(words.next().unwrap_or_default());
    let absolute = path::absolute(program).ok().filter(|_| program.as_os_str().as_bytes().contains(&b'/'));
    let mut command = Command::new(absolute.as_deref().unwrap_or(program));
    command.args(words);
    command
}

/// The folder for caches: in XDG_CACHE_HOME, or in `.cache` of HOME; if neither variable is set, a private folder among the temporary
/// files.
///
/// # Errors
/// The private folder cannot be made, or other users can access it: their files would be compiled into programs.
fn caches() -> io::Result<PathBuf> {
    let named = |name: &str| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let cache = named("XDG_CACHE_HOME").or_else(|| named("HOME").map(|home| home.join(".cache")));
    match cache {
        Some(cache) => Ok(cache.join("mpi-over-am")),
        None => private_folder(),
    }
}

/// A folder that only this user can write to, at a path that every user can predict.
fn private_folder() -> io::Result<PathBuf> {
    // SAFETY: `geteuid` has no arguments and cannot fail.
    let user = unsafe { libc::geteuid() };
    let folder = env::temp_dir().join(format!("mpi-over-am-{user}"));
    match fs::DirBuilder::new().mode(0o700).create(&folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    // Inspects the name itself, not the target of a link. Other users can't replace the folder afterwards, since they can't rename this
    // user's folder there.
    let found = fs::symlink_metadata(&folder)?;
    if found.is_dir() && found.uid() == user && found.mode() & 0o077 == 0 {
        return Ok(folder);
    }
    Err(io::Error::other(format!(
        "{} must be a folder of this user that no other user can access (mode 700): remove it, or set XDG_CACHE_HOME to another folder \
         for the compiled module mpi",
        folder.display()
    )))
}
