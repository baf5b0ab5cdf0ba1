//! The common part of the compiler wrappers: they call a compiler with the options for MPI programs.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use super::{fortran, standard_output};

/// The text of the manual pages.
pub(super) const HELP: &str = "\
usage: mpicc [OPTIONS OF THE COMPILER] FILES      mpicxx ...      mpifort ...      oshcc ...      oshc++ ...

Runs the compiler with the include folder and the library of MPI, or of OpenSHMEM (oshcc, oshc++), added. AM_CC, AM_CXX and AM_FC name other compilers than cc, c++
and gfortran, perhaps with arguments (AM_CC='ccache gcc'). All options are passed to the compiler, except those that print the command instead:

  -show, -showme           the whole command
  -compile-info            the command for compiling only
  -link-info               the command for linking only
  -showme:compile          the options for compiling
  -showme:link             the options for linking

mpifort has the modules `mpi` and `mpi_f08` compiled for the compiler: at installation for AM_FC or gfortran, for others at their first use,
into ~/.cache or XDG_CACHE_HOME. `mpi_f08` needs a compiler of Fortran 2018, a C compiler (AM_CC or cc) and ar.";

/// A wrapper around the compiler that `variable` names, or else `compiler`.
#[derive(Clone, Copy, Debug)]
pub struct Wrapper {
    /// The name of the wrapper.
    pub name: &'static str,
    /// A variable that names another compiler.
    pub variable: &'static str,
    /// The compiler if the variable is not set.
    pub compiler: &'static str,
    /// Whether the wrapper compiles Fortran, which needs more than a header.
    pub is_fortran: bool,
}

/// The wrapper of C compilers.
pub const C: Wrapper = Wrapper { name: "mpicc", variable: "AM_CC", compiler: "cc", is_fortran: false };
/// The wrapper of C++ compilers.
pub const CXX: Wrapper = Wrapper { name: "mpicxx", variable: "AM_CXX", compiler: "c++", ..C };
/// The wrapper of Fortran compilers.
pub const FORTRAN: Wrapper =
    Wrapper { name: "mpifort", variable: "AM_FC", compiler: "gfortran", is_fortran: true };

/// The request to a wrapper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Request {
    /// Run the compiler.
    Run,
    /// Print the command.
    Show,
    /// Print the compiler and the options for compiling.
    CompileCommand,
    /// Print the compiler and the options for linking.
    LinkCommand,
    /// Print the options for compiling.
    CompileOptions,
    /// Print the options for linking.
    LinkOptions,
}

impl Request {
    /// The request of an option, including the spellings of other wrappers; `None` for an option of the compiler.
    fn of(option: &OsString) -> Option<Self> {
        Some(match option.to_str()? {
            "-show" | "-showme" | "--showme" => Self::Show,
            "-compile-info" | "-compile_info" => Self::CompileCommand,
            "-link-info" | "-link_info" => Self::LinkCommand,
            "-showme:compile" | "--showme:compile" => Self::CompileOptions,
            "-showme:link" | "--showme:link" => Self::LinkOptions,
            _ => return None,
        })
    }
}

impl Wrapper {
    /// Runs the compiler with the caller's arguments and those of MPI, or prints the command: `-show`, `-compile-info`, `-link-info`,
    /// `-showme:compile`, `-showme:link`. All other arguments are passed to the compiler.
    #[must_use]
    pub fn run(&self) -> ExitCode {
        let (mut request, mut arguments) = (Request::Run, Vec::new());
        for argument in std::env::args_os().skip(1) {
            match Request::of(&argument) {
                Some(other) => request = other,
                None => arguments.push(argument),
            }
        }
        let Some(paths) = Paths::find() else {
            mpi_over_am::complain!(
                "{}: libmpi_abi.so is neither beside this program nor in ../lib. `cargo install` leaves libraries out: run `cargo mpi-install --prefix FOLDER` in the folder of the source, and use the programs of FOLDER/bin",
                self.name
            );
            return ExitCode::FAILURE;
        };
        let compiler = std::env::var_os(self.variable).unwrap_or_else(|| self.compiler.into());
        let is_only =
            |argument: &OsString| ["-c", "-E", "-S", "-M", "-MM"].iter().any(|only| argument == only);
        let is_source = |argument: &OsString| {
            let bytes = argument.as_encoded_bytes();
            bytes == b"-" || !bytes.starts_with(b"-")
        };
        let has_source = arguments.iter().any(is_source);
        let links = !arguments.iter().any(is_only);
        let has_sources = request != Request::Run || has_source;
        let special = (self.is_fortran && has_sources).then(|| self.special(&compiler, &paths));
        let special = special.unwrap_or_default();
        let compile = || special.compile.iter().cloned().chain([joined("-I", &paths.include)]);
        let own = [joined("-L", &paths.library), joined("-Wl,-rpath,", &paths.library)];
        let own = own.into_iter().chain(["-lmpi_abi".into()]);
        let link = special.link.iter().cloned().chain(own);
        let mut words = match request {
            Request::CompileOptions | Request::LinkOptions => Vec::new(),
            _ => vec![compiler.clone()],
        };
        // A run without a source, such as `--version`, gets no options of MPI. With `-c` and the like no libraries are added, because some
        // compilers warn about libraries that they do not use.
        match request {
            Request::CompileCommand | Request::CompileOptions => words.extend(compile()),
            Request::LinkCommand | Request::LinkOptions => words.extend(link),
            Request::Run if !has_source => words.extend(arguments),
            Request::Run | Request::Show => {
                words.extend(arguments);
                words.extend(compile());
                if links {
                    words.extend(link);
                }
            }
        }
        if request != Request::Run {
            // The compiler's name comes first. It may be several words.
            let has_compiler = !matches!(request, Request::CompileOptions | Request::LinkOptions);
            let word = |(at, word): (usize, &OsString)| match word.to_string_lossy() {
                compiler if at == 0 && has_compiler => compiler.into_owned(),
                word => for_a_shell(&word),
            };
            let words: Vec<_> = words.iter().enumerate().map(word).collect();
            return standard_output::say(self.name, &words.join(" "));
        }
        let error = mpi_over_am::become_program(fortran::command(&compiler).args(&words[1..]));
        mpi_over_am::complain!(
            "{}: cannot run the compiler {}: {error}; install it, or name another one in {}",
            self.name,
            compiler.to_string_lossy(),
            self.variable
        );
        ExitCode::FAILURE
    }

    /// The options for this Fortran compiler.
    fn special(&self, compiler: &OsString, paths: &Paths) -> Special {
        let known = fortran::Compiler::ask(compiler);
        match known.and_then(|known| Ok((known.options(), known.folder(&paths.modules())?))) {
            Ok((options, folder)) => {
                let compile = options.iter().map(OsString::from).chain([joined("-I", &folder)]).collect();
                Special { compile, link: fortran::link_options(&folder) }
            }
            Err(error) => {
                mpi_over_am::complain!(
                    "{}: mpif.h and the modules of MPI may not be found: {error}",
                    self.name
                );
                Special::default()
            }
        }
    }
}

/// Options for one Fortran compiler.
#[derive(Debug, Default)]
struct Special {
    compile: Vec<OsString>,
    link: Vec<OsString>,
}

/// A word as a shell reads it, in quotes if it needs them.
fn for_a_shell(word: &str) -> String {
    let is_safe = |letter: char| letter.is_ascii_alphanumeric() || "/._-+=:,@%".contains(letter);
    if !word.is_empty() && word.chars().all(is_safe) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

fn joined(option: &str, path: &Path) -> OsString {
    let mut word = OsString::from(option);
    word.push(path);
    word
}

/// The folders of header and library: those of the build, or those of an installation.
struct Paths {
    include: PathBuf,
    library: PathBuf,
}

impl Paths {
    /// The folder of the modules that were compiled at installation.
    fn modules(&self) -> PathBuf {
        self.library.join(fortran::MODULES)
    }

    fn find() -> Option<Self> {
        let own = std::env::current_exe().ok()?;
        let folder = own.parent()?;
        let installed = folder.join("../include/mpi.h");
        let include = if installed.exists() {
            folder.join("../include").canonicalize().ok()?
        } else {
            PathBuf::from(concat!(env!("OUT_DIR"), "/include"))
        };
        let library = [folder.to_path_buf(), folder.join("../lib")]
            .into_iter()
            .find(|folder| folder.join("libmpi_abi.so").exists())?
            .canonicalize()
            .ok()?;
        Some(Self { include, library })
    }
}
