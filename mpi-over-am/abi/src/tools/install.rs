//! Installs the library, its headers and its programs under a prefix, where build systems look for them.
//!
//! The installer is a program and not a makefile: it knows the outputs of the build and their folders, needs nothing but cargo, and
//! contains the generated texts (`mpif.h`, the module's source).

use std::ffi::{OsStr, OsString};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::{env, fs, io};

use super::face_names::{FACES, FOLDER, STANDARD_NAMES};
use super::{fortran, pages, standard_output, starter, wrapper};

const HELP: &str = "\
usage: mpi-install --prefix FOLDER

Builds the programs, libraries and headers, and installs them below FOLDER: bin/ (mpicc, mpicxx, mpifort, mpiexec, mpirun, amrun,
oshcc, oshc++, oshrun), lib/ (libmpi_abi.so.1, libmpi_malloc.so, libsma.so and liboshmem.so, faces with libmpi.so.12 and libmpi.so.40, pkgconfig/mpi.pc,
pkgconfig/sma.pc), include/ (mpi.h, mpi-ext.h, mpif.h, shmem.h and the like), share/ (manual pages, completions of bash,
licences, the sources of the Fortran modules). The modules are compiled for AM_FC or gfortran, if it is there. The folder may be moved afterwards. Debug information is left out (strip).
Existing files of these names are replaced, also while running programs use them.";

const HEADER_EXT: &str = include_str!(concat!(env!("OUT_DIR"), "/include/mpi-ext.h"));
/// The headers of OpenSHMEM, by name.
const OF_SHMEM: [(&str, &str); 5] = [
    ("shmem.h", include_str!(concat!(env!("OUT_DIR"), "/include/shmem.h"))),
    ("shmemx.h", include_str!(concat!(env!("OUT_DIR"), "/include/shmemx.h"))),
    ("pshmem.h", include_str!(concat!(env!("OUT_DIR"), "/include/pshmem.h"))),
    ("mpp/shmem.h", include_str!(concat!(env!("OUT_DIR"), "/include/mpp/shmem.h"))),
    ("mpp/shmemx.h", include_str!(concat!(env!("OUT_DIR"), "/include/mpp/shmemx.h"))),
];
const HEADER: &str = include_str!(concat!(env!("OUT_DIR"), "/include/mpi.h"));

/// The file to which all other tools are links: it acts according to the name under which it is called.
const PROGRAM: &str = "mpiexec";

/// The names of the links to [`PROGRAM`], including names that users know from other libraries.
pub(super) const NAMES: [&str; 12] = [
    "mpicc", "mpicxx", "mpic++", "mpifort", "mpif90", "mpif77", "mpirun", "oshcc", "oshc++", "oshcxx",
    "oshCC", "oshrun",
];

const LICENCES: [(&str, &str); 2] = [
    ("LICENSE-MIT", include_str!("../../LICENSE-MIT")),
    ("LICENSE-APACHE", include_str!("../../LICENSE-APACHE")),
];

/// Reads the options, builds, installs.
#[must_use]
pub fn run() -> ExitCode {
    match prefix(env::args_os().skip(1)) {
        Ok(Some(prefix)) => match build().and_then(|folder| install(&folder, &prefix)) {
            Ok(()) => standard_output::say(
                "mpi-install",
                &format!(
                    "installed below {}; its programs are in {}",
                    prefix.display(),
                    prefix.join("bin").display()
                ),
            ),
            Err(error) => {
                mpi_over_am::complain!("mpi-install: {error}");
                ExitCode::FAILURE
            }
        },
        Ok(None) => standard_output::say("mpi-install", HELP),
        Err(what) => {
            mpi_over_am::complain!("mpi-install: {what}");
            ExitCode::from(2)
        }
    }
}

/// The prefix as an absolute path; `None` if the user asks for help.
fn prefix(mut words: impl Iterator<Item = OsString>) -> Result<Option<PathBuf>, String> {
    let wrong = || "no prefix is given: use --prefix FOLDER".to_owned();
    let word = words.next().ok_or_else(wrong)?;
    let text = word.to_string_lossy();
    if ["--help", "-h"].contains(&&*text) {
        return Ok(None);
    }
    let folder = match text.strip_prefix("--prefix=") {
        Some(folder) => folder.into(),
        None if text == "--prefix" => words.next().ok_or_else(wrong)?,
        None => return Err(format!("unknown option {text}; {}", wrong())),
    };
    if let Some(more) = words.next() {
        return Err(format!("unexpected argument {}; {}", more.to_string_lossy(), wrong()));
    }
    if folder.is_empty() {
        return Err(wrong());
    }
    std::path::absolute(folder).map(Some).map_err(|error| error.to_string())
}

/// Returns the folder of this program, which also has the other programs. If cargo runs this program, cargo has not built the other
/// programs, so this function builds them first.
fn build() -> io::Result<PathBuf> {
    let own = env::current_exe()?;
    let folder =
        own.parent().ok_or_else(|| io::Error::other("the folder of this program is unknown"))?.to_owned();
    if let Some(cargo) = env::var_os("CARGO") {
        let mut command = build_command(&cargo, &folder)
            .ok_or_else(|| io::Error::other("this program is not in the folder of a profile"))?;
        let status = command.status()?;
        if !status.success() {
            return Err(io::Error::other(format!("the build has failed: {status}")));
        }
    }
    match folder.join("libmpi_abi.so").exists() {
        true => Ok(folder),
        false => Err(io::Error::other(
            "libmpi_abi.so is not beside this program, because `cargo install` leaves libraries out: run `cargo mpi-install --prefix FOLDER` in the folder of the source",
        )),
    }
}

/// The command that builds the other programs into `folder`, which is `target/PROFILE`; `None` if it is not. A relative target folder of
/// the caller would be another folder for this command.
fn build_command(cargo: &OsStr, folder: &Path) -> Option<Command> {
    let profile = match folder.file_name()?.to_str()? {
        "debug" => "dev",
        other => other,
    };
    let mut command = Command::new(cargo);
    command
        .args(["build", "-p", "mpi-over-am-abi", "-p", "mpi-over-am-mpich", "-p", "mpi-over-am-openmpi"])
        .args(["-p", "mpi-over-am-malloc", "-p", "am-via-launch"])
        .args(["--profile", profile])
        .arg("--target-dir")
        .arg(folder.parent()?)
        .current_dir(env!("CARGO_MANIFEST_DIR"));
    Some(command)
}

fn install(from: &Path, prefix: &Path) -> io::Result<()> {
    let [bin, lib, include, fortran_source, manuals, completions, licences] = [
        "bin",
        "lib",
        "include",
        "share/mpi-over-am/fortran",
        "share/man/man1",
        "share/bash-completion/completions",
        "share/doc/mpi-over-am",
    ]
    .map(|folder| prefix.join(folder));
    let packages = lib.join("pkgconfig");
    for folder in [&bin, &lib, &include, &fortran_source, &manuals, &completions, &licences, &packages] {
        fs::create_dir_all(folder).map_err(|error| at(folder, &error))?;
    }
    for program in [PROGRAM, "amrun"] {
        copy(&from.join(program), &bin.join(program))?;
    }
    for name in NAMES {
        replace(&bin.join(name), |place| symlink(PROGRAM, place))?;
    }
    copy(&from.join("libmpi_abi.so"), &lib.join(STANDARD_NAMES[0]))?;
    copy(&from.join("libmpi_malloc.so"), &lib.join("libmpi_malloc.so"))?;
    let of_others = lib.join(FOLDER);
    fs::create_dir_all(&of_others).map_err(|error| at(&of_others, &error))?;
    for (_, file, names) in FACES {
        copy(&from.join(file), &lib.join(file))?;
        for name in names {
            replace(&of_others.join(name), |place| symlink(Path::new("..").join(file), place))?;
        }
    }
    let [own, of_shmem @ ..] = STANDARD_NAMES;
    for name in ["libmpi_abi.so"].iter().chain(&of_shmem) {
        replace(&lib.join(name), |place| symlink(own, place))?;
    }
    let launcher = bin.join("amrun");
    let starter = |name| pages::manual(name, "starts the tasks of an MPI program", starter::HELP);
    let compiler = |name| pages::manual(name, "compiles and links MPI programs", wrapper::HELP);
    let starters = [PROGRAM, "mpirun", "oshrun"];
    for (place, text) in [
        (include.join("mpi.h"), HEADER.to_owned()),
        (include.join("mpi-ext.h"), HEADER_EXT.to_owned()),
        (include.join("mpif.h"), fortran::MPIF.to_owned()),
        (fortran_source.join("mpi.f90"), fortran::MODULE.to_owned()),
        (fortran_source.join("mpi_f08.f90"), fortran::MODULE_F08.to_owned()),
        (fortran_source.join("mpi_f08.c"), fortran::DESCRIPTORS.to_owned()),
        (fortran_source.join("mpi_ext.f90"), fortran::MODULE_EXT.to_owned()),
        (
            packages.join("mpi.pc"),
            package("mpi", "MPI over active messages, in the standard binary interface", "mpi_abi"),
        ),
        (packages.join("sma.pc"), package("sma", "OpenSHMEM over active messages", "mpi_abi")),
        (manuals.join("mpiexec.1"), starter("mpiexec")),
        (manuals.join("mpirun.1"), starter("mpirun")),
        (manuals.join("mpicc.1"), compiler("mpicc")),
        (manuals.join("mpicxx.1"), compiler("mpicxx")),
        (manuals.join("oshcc.1"), compiler("oshcc")),
        (manuals.join("oshc++.1"), compiler("oshc++")),
        (manuals.join("oshrun.1"), starter("oshrun")),
        (manuals.join("mpifort.1"), compiler("mpifort")),
        (completions.join("mpiexec"), pages::bash_completion(&starters, starter::HELP)),
        (completions.join("oshrun"), pages::bash_completion(&starters, starter::HELP)),
        (completions.join("mpirun"), pages::bash_completion(&starters, starter::HELP)),
        (manuals.join("amrun.1"), written_by(&launcher, "man")?),
        (completions.join("amrun"), written_by(&launcher, "bash")?),
    ] {
        replace(&place, |place| fs::write(place, text))?;
    }
    let of_old = include.join("mpp");
    fs::create_dir_all(&of_old).map_err(|error| at(&of_old, &error))?;
    for (name, text) in OF_SHMEM {
        replace(&include.join(name), |place| fs::write(place, text))?;
    }
    for (name, text) in LICENCES {
        replace(&licences.join(name), |place| fs::write(place, text))?;
    }
    install_modules(&lib.join(fortran::MODULES));
    Ok(())
}

/// Compiles the modules of Fortran for the compiler that `mpifort` runs, if there is one. A failure is only told: C programs need none, and
/// `mpifort` tries again.
fn install_modules(folder: &Path) {
    let program = env::var_os("AM_FC").unwrap_or_else(|| "gfortran".into());
    let Ok(compiler) = fortran::Compiler::ask(program) else { return };
    if let Err(error) = compiler.install(folder) {
        mpi_over_am::complain!("mpi-install: the modules of Fortran are not installed: {error}");
    }
}

/// The launcher's own manual page (`man`) or completion (`bash`).
fn written_by(launcher: &Path, what: &str) -> io::Result<String> {
    let output =
        Command::new(launcher).args(["--write", what]).output().map_err(|error| at(launcher, &error))?;
    match (output.status.success(), String::from_utf8(output.stdout)) {
        (true, Ok(text)) => Ok(text),
        _ => Err(io::Error::other(format!("{} --write {what}: {}", launcher.display(), output.status))),
    }
}

/// Copies a program or a library without debug information, which is most of the file.
fn copy(from: &Path, to: &Path) -> io::Result<()> {
    replace(to, |place| {
        fs::copy(from, place).map_err(|error| at(from, &error))?;
        // Without a strip program the file stays as it is.
        let _ = Command::new("strip").arg("--strip-debug").arg(place).status();
        Ok(())
    })
}

/// Makes a file under another name and renames it: processes that use the old file keep it.
fn replace(place: &Path, make: impl FnOnce(&Path) -> io::Result<()>) -> io::Result<()> {
    let mut name = place.as_os_str().to_owned();
    name.push(format!(".{}", std::process::id()));
    let beside = PathBuf::from(name);
    make(&beside).and_then(|()| fs::rename(&beside, place)).map_err(|error| {
        // The file may not exist.
        let _ = fs::remove_file(&beside);
        at(place, &error)
    })
}

fn at(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

/// The file for pkg-config, with paths relative to itself, so that the prefix may be moved.
fn package(name: &str, what: &str, library: &str) -> String {
    format!(
        "prefix=${{pcfiledir}}/../..\n\
         libdir=${{prefix}}/lib\n\
         includedir=${{prefix}}/include\n\
         \n\
         Name: {name}\n\
         Description: {what}\n\
         Version: {}\n\
         Cflags: -I${{includedir}}\n\
         Libs: -L${{libdir}} -Wl,-rpath,${{libdir}} -l{library}\n",
        env!("CARGO_PKG_VERSION"),
    )
}
