//! MPICH's own tests, as in Debian's source package, built by our `mpicc` and `mpifort`.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use super::command;
use super::fetch::{Published, is_done, unpack};
use super::table::Row;
use super::workshop::Workshop;
use super::{Problem, folder};

const VERSION: &str = "4.0.2";
const SOURCE: Published = Published {
    address: "http://deb.debian.org/debian/pool/main/m/mpich/mpich_4.0.2.orig.tar.xz",
    sum: "b27039f964afeb6b8a3e009c56b441cbe368c26d6d6476ad3bb7190996875860",
};

/// The chapters that run; a hyphen stands for the slash between a chapter and its part. The others need the module `mpi_f08`, the C++
/// functions that MPI 3 removed, or MPICH itself (`impls`); or their programs are wrong, and a library need not notice it (`errors`
/// without `errors/spawn`).
pub const CHAPTERS: [&str; 19] = [
    "attr",
    "comm",
    "datatype",
    "errhan",
    "group",
    "info",
    "init",
    "mpi_t",
    "part",
    "pt2pt",
    "topo",
    "rma",
    "coll",
    "threads",
    "io",
    "f77",
    "f90",
    "spawn",
    "errors-spawn",
];

/// Programs that find less room in `MPI_UNIVERSE_SIZE` than they need say `No Errors`, and start no tasks.
const OPTIONS: [&str; 2] = ["--universe", "16"];

/// The failures that are known: the path of the program, the other words of the case, `: ` and the reason.
const EXPECTED: &str = include_str!("mpich-expected-failures");

const BUILD_LIMIT: Duration = Duration::from_secs(1800);

/// Builds and runs a chapter.
///
/// # Errors
/// A tool is missing, or the tests cannot be fetched, configured or started.
pub fn run(workshop: &Workshop, name: &str, rows: &mut Vec<Row>) -> Result<(), Problem> {
    let archive = SOURCE.fetch(workshop)?;
    let built = workshop.built("mpich-tests")?;
    let tests = built.join(format!("mpich-{VERSION}/test/mpi"));
    let stamp = built.join("configured");
    let header = include_str!("../../../mpi-over-am/abi/include/mpi.h");
    let wanted = format!(
        "{VERSION} with Fortran, threads, files and processes, for {}\n{header}",
        workshop.tools().display()
    );
    if !is_done(&stamp, &wanted) {
        // Objects of another build may have been compiled with another header.
        if built.exists() {
            fs::remove_dir_all(&built)?;
        }
        fs::create_dir_all(&built)?;
        unpack(workshop, &archive, &built)?;
        let mut configure = Command::new("./configure");
        configure.current_dir(&tests).args([
            "--disable-dependency-tracking",
            "--enable-spawn",
            "--disable-cxx",
            "--enable-threads=multiple",
            "--enable-fortran=f77,f90",
        ]);
        for (names, tool) in
            [(["CC", "MPICC"].as_slice(), "mpicc"), (&["F77", "MPIF77", "FC", "MPIFC", "MPIFORT"], "mpifort")]
        {
            for name in names {
                configure.arg(format!("{name}={}", workshop.tool(tool).display()));
            }
        }
        command::must(&mut configure, BUILD_LIMIT, &workshop.log("mpich-configure")?)?;
        command::must(
            Command::new("make").arg("-C").arg(tests.join("util")),
            BUILD_LIMIT,
            &workshop.log("mpich-util")?,
        )?;
        fs::write(stamp, wanted)?;
    }
    let name = &name.replace('-', "/");
    let chapter = tests.join(name);
    let mut make = Command::new("make");
    // A program that cannot be built is a failure of its own.
    make.args(["-k", "-j2", "-C"]).arg(&chapter);
    command::run(&mut make, BUILD_LIMIT, &workshop.log(&format!("mpich-make-{}", name.replace('/', "-")))?)?;
    write_expected(&chapter, name)?;
    for entry in fs::read_dir(&chapter)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            write_expected(&entry.path(), &format!("{name}/{}", entry.file_name().to_string_lossy()))?;
        }
    }
    folder::run(workshop, &chapter, &format!("MPICH's tests, {name}"), &OPTIONS, rows)
}

/// Writes the known failures of a folder's programs where [`folder`] looks for them.
fn write_expected(folder: &Path, name: &str) -> std::io::Result<()> {
    let of_folder = |line: &&str| {
        line.split(' ').next().and_then(|path| path.rsplit_once('/')).is_some_and(|(of, _)| of == name)
    };
    let lines = EXPECTED.lines().filter(of_folder).flat_map(|line| [&line[name.len() + 1..], "\n"]);
    fs::write(folder.join("expected-failures"), lines.collect::<String>())
}
