//! Files for a Fortran compiler besides the library: `mpif.h`, and the modules `mpi` and `mpi_f08` in the compiler's own format, which only
//! that compiler can make. They are compiled when the library is installed, or at first use, and then kept in a cache folder.

use std::ffi::{OsStr, OsString};
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

/// The source of the module `mpi_ext`.
pub const MODULE_EXT: &str = include_str!(concat!(env!("OUT_DIR"), "/mpi_ext.f90"));

/// The source of the module `mpi_f08`.
pub const MODULE_F08: &str = include_str!(concat!(env!("OUT_DIR"), "/mpi_f08.f90"));

/// The routines in C that the module `mpi_f08` calls with descriptors of buffers. The form of a descriptor differs between compilers.
pub const DESCRIPTORS: &str = include_str!(concat!(env!("OUT_DIR"), "/mpi_f08.c"));

/// The library with the routines of the module `mpi_f08`: all that a program links for it.
const LIBRARY_F08: &str = "libmpi_f08.a";

/// The folder of the compiled modules in that of the libraries of an installation.
pub const MODULES: &str = "mpi-over-am/fortran";

/// The header with the form of the compiler's descriptors (Fortran 2018 section 18.5.1).
const BINDING: &str = "ISO_Fortran_binding.h";

/// Where compilers have [`BINDING`], from the folder of the program on: LLVM, NVIDIA and others, Intel.
const BINDING_PLACES: [&str; 3] = ["../include/flang", "../include", "../opt/compiler/include"];

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

    /// The folder with `mpif.h` and the modules for this compiler: below `installed`, if they were installed for it; else the cache, where
    /// they are made at first use.
    ///
    /// # Errors
    /// The folder cannot be made, or other users can write to it. The compiler cannot compile the module `mpi`: the error contains the
    /// compiler's output.
    pub fn folder(&self, installed: &Path) -> io::Result<PathBuf> {
        let installed = self.folder_below(installed);
        if installed.join("mpi.mod").exists() {
            return Ok(installed);
        }
        let folder = self.folder_below(&caches()?);
        if !folder.join("mpi.mod").exists() {
            self.make(&folder)?;
        }
        Ok(folder)
    }

    /// Makes the folder below an installation, if it is not there.
    ///
    /// # Errors
    /// Those of [`folder`](Self::folder).
    pub fn install(&self, below: &Path) -> io::Result<()> {
        let folder = self.folder_below(below);
        if folder.join("mpi.mod").exists() { Ok(()) } else { self.make(&folder) }
    }

    fn folder_below(&self, below: &Path) -> PathBuf {
        let mut hasher = DefaultHasher::new();
        (&self.program, &self.version, MPIF, MODULE, MODULE_EXT, MODULE_F08, DESCRIPTORS).hash(&mut hasher);
        below.join(format!("{:016x}", hasher.finish()))
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

    /// Compiles both modules. Without `mpi_f08`, which an older compiler may not know, programs can still use the other forms.
    fn compile(&self, folder: &Path) -> io::Result<()> {
        fs::write(folder.join("mpif.h"), MPIF)?;
        fs::write(folder.join("mpi.f90"), MODULE)?;
        self.run(folder, &["-c", "mpi.f90", "-o", "mpi.o"], "the module mpi")?;
        if !folder.join("mpi.mod").exists() {
            return Err(io::Error::other(format!("{} makes no mpi.mod", self.program.display())));
        }
        fs::write(folder.join("mpi_ext.f90"), MODULE_EXT)?;
        self.run(folder, &["-c", "mpi_ext.f90", "-o", "mpi_ext.o"], "the module mpi_ext")?;
        if let Err(error) = self.compile_f08(folder) {
            for name in ["mpi_f08.mod", LIBRARY_F08] {
                let _ = fs::remove_file(folder.join(name));
            }
            mpi_over_am::complain!("programs of this compiler cannot use the module mpi_f08: {error}");
        }
        Ok(())
    }

    fn compile_f08(&self, folder: &Path) -> io::Result<()> {
        fs::write(folder.join("mpi_f08.f90"), MODULE_F08)?;
        fs::write(folder.join("mpi_f08.c"), DESCRIPTORS)?;
        fs::copy(self.binding()?, folder.join(BINDING))?;
        let what = "the module mpi_f08";
        self.run(folder, &["-O1", "-fPIC", "-c", "mpi_f08.f90", "-o", "mpi_f08.o"], what)?;
        // Hidden: a library and a program that two compilers have made have different descriptors.
        let options =
            ["-O1", "-fPIC", "-fvisibility=hidden", "-I.", "-c", "mpi_f08.c", "-o", "mpi_f08_descriptors.o"];
        let compiler = env::var_os("AM_CC").unwrap_or_else(|| "cc".into());
        output_of(command(&compiler).args(options).current_dir(folder), what)?;
        let objects = ["rcs", LIBRARY_F08, "mpi_f08.o", "mpi_f08_descriptors.o"];
        output_of(Command::new("ar").args(objects).current_dir(folder), what).map(drop)
    }

    fn run(&self, folder: &Path, words: &[&str], what: &str) -> io::Result<()> {
        let mut command = command(self.program.as_os_str());
        output_of(command.args(words).current_dir(folder), what).map(drop)
    }

    /// The compiler's [`BINDING`].
    fn binding(&self) -> io::Result<PathBuf> {
        if self.gfortran_version().is_some() {
            let mut command = command(self.program.as_os_str());
            let said = output_of(command.arg(format!("-print-file-name=include/{BINDING}")), BINDING)?;
            let path = PathBuf::from(said.trim());
            return if path.is_file() { Ok(path) } else { Err(self.no_binding()) };
        }
        let words = command(self.program.as_os_str());
        let is_option = |word: &&OsStr| word.as_bytes().starts_with(b"-");
        let program = words.get_args().filter(|word| !is_option(word)).last().unwrap_or(words.get_program());
        let folders = env::var_os("PATH").unwrap_or_default();
        let program =
            env::split_paths(&folders).map(|folder| folder.join(program)).find(|path| path.is_file());
        let folder = program.and_then(|program| Some(program.canonicalize().ok()?.parent()?.to_owned()));
        let places =
            BINDING_PLACES.iter().filter_map(|place| Some(folder.as_ref()?.join(place).join(BINDING)));
        places.into_iter().find(|path| path.is_file()).ok_or_else(|| self.no_binding())
    }

    fn no_binding(&self) -> io::Error {
        io::Error::other(format!("{} has no {BINDING} (Fortran 2018)", self.program.display()))
    }
}

/// The options that link the routines of the module `mpi_f08` in a folder, if it was made there.
pub(super) fn link_options(folder: &Path) -> Vec<OsString> {
    if !folder.join(LIBRARY_F08).exists() {
        return Vec::new();
    }
    let mut place = OsString::from("-L");
    place.push(folder);
    vec![place, "-lmpi_f08".into()]
}

/// Runs a command, and returns what it prints.
///
/// # Errors
/// The command cannot be run, or fails.
fn output_of(command: &mut Command, what: &str) -> io::Result<String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).output();
    let output =
        output.map_err(|error| io::Error::new(error.kind(), format!("cannot run {name}: {error}")))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said).lines().take(20).collect::<Vec<_>>().join("\n");
    Err(io::Error::other(format!("{name} cannot compile {what}: {said}")))
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
         for the compiled modules",
        folder.display()
    )))
}
