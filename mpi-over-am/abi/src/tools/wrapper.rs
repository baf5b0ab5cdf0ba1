//! What the compiler wrappers share: a compiler, with the options that it needs for programs of MPI.

use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// A wrapper around the compiler that `variable` names, or else `compiler`.
#[derive(Clone, Copy, Debug)]
pub struct Wrapper {
    /// The name of the wrapper.
    pub name: &'static str,
    /// A variable that names another compiler.
    pub variable: &'static str,
    /// The compiler, where the variable is not set.
    pub compiler: &'static str,
    /// Libraries before that of MPI.
    pub libraries: &'static [&'static str],
}

impl Wrapper {
    /// Runs the compiler with the program's arguments and those of MPI; `-show` prints the command instead.
    #[must_use]
    pub fn run(&self) -> ExitCode {
        let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
        let is_show = |argument: &OsString| {
            ["-show", "--showme", "-showme"].iter().any(|show| argument.as_os_str() == *show)
        };
        let Some(places) = Places::find() else {
            eprintln!(
                "{}: libmpi_abi.so is neither beside this program nor in ../lib; build or install it first",
                self.name
            );
            return ExitCode::FAILURE;
        };
        let compiler = std::env::var_os(self.variable).unwrap_or_else(|| self.compiler.into());
        let mut command = Command::new(&compiler);
        command.args(arguments.iter().filter(|argument| !is_show(argument)));
        command.arg(joined("-I", &places.include));
        // Nothing is linked where nothing is: some compilers complain about libraries in a run that only compiles.
        let links = !arguments
            .iter()
            .any(|argument| ["-c", "-E", "-S", "-M", "-MM"].iter().any(|only| argument == only));
        if links || arguments.iter().any(is_show) {
            command.arg(joined("-L", &places.library)).arg(joined("-Wl,-rpath,", &places.library));
            command.args(self.libraries).arg("-lmpi_abi");
        }
        if arguments.iter().any(is_show) {
            let words = std::iter::once(command.get_program()).chain(command.get_args());
            println!(
                "{}",
                words.map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
            );
            return ExitCode::SUCCESS;
        }
        let error = command.exec();
        eprintln!(
            "{}: cannot run the compiler {}: {error}; install it, or name another one in {}",
            self.name,
            compiler.to_string_lossy(),
            self.variable
        );
        ExitCode::FAILURE
    }
}

fn joined(option: &str, path: &Path) -> OsString {
    let mut word = OsString::from(option);
    word.push(path);
    word
}

/// Where header and library lie: in the build's folders, or in those of an installation.
struct Places {
    include: PathBuf,
    library: PathBuf,
}

impl Places {
    fn find() -> Option<Self> {
        let own = std::env::current_exe().ok()?;
        let folder = own.parent()?;
        let installed = folder.join("../include/mpi.h");
        let include = if installed.exists() {
            folder.join("../include").canonicalize().ok()?
        } else {
            PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/include"))
        };
        let library = [folder.to_path_buf(), folder.join("../lib")]
            .into_iter()
            .find(|folder| folder.join("libmpi_abi.so").exists())?
            .canonicalize()
            .ok()?;
        Some(Self { include, library })
    }
}
