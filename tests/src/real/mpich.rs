//! MPICH's own tests, as in Debian's source package, built by our `mpicc`: the chapters of C.

use std::fs;
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

/// The chapters that run. The others need MPI files (`io`), dynamic processes (`spawn`), another language, or MPICH itself (`impls`).
const CHAPTERS: [&str; 12] =
    ["attr", "comm", "datatype", "errhan", "group", "info", "init", "mpi_t", "part", "pt2pt", "topo", "rma"];
/// This chapter has as many runs as all others together.
const COLLECTIVES: [&str; 1] = ["coll"];

/// The failures that are known, for each chapter: the case, `: ` and the reason.
const EXPECTED: &str = include_str!("mpich-expected-failures");

const BUILD_LIMIT: Duration = Duration::from_secs(1800);

/// Builds and runs the chapters without collectives.
///
/// # Errors
/// A tool is missing, or the tests cannot be fetched, configured or started.
pub fn run(workshop: &Workshop, rows: &mut Vec<Row>) -> Result<(), Problem> {
    chapters(workshop, &CHAPTERS, rows)
}

/// Builds and runs the chapter of collectives.
///
/// # Errors
/// Those of [`run`].
pub fn collectives(workshop: &Workshop, rows: &mut Vec<Row>) -> Result<(), Problem> {
    chapters(workshop, &COLLECTIVES, rows)
}

fn chapters(workshop: &Workshop, names: &[&str], rows: &mut Vec<Row>) -> Result<(), Problem> {
    let archive = SOURCE.fetch(workshop)?;
    let built = workshop.built("mpich-tests")?;
    let tests = built.join(format!("mpich-{VERSION}/test/mpi"));
    let (stamp, mpicc) = (built.join("configured"), workshop.tool("mpicc"));
    let wanted = format!("{VERSION} {}", mpicc.display());
    if !is_done(&stamp, &wanted) {
        unpack(workshop, &archive, &built)?;
        let mut configure = Command::new("./configure");
        configure.current_dir(&tests).args([
            "--disable-fortran",
            "--disable-cxx",
            "--disable-dependency-tracking",
        ]);
        for name in ["CC", "MPICC"] {
            configure.arg(format!("{name}={}", mpicc.display()));
        }
        command::must(&mut configure, BUILD_LIMIT, &workshop.log("mpich-configure")?)?;
        command::must(
            Command::new("make").arg("-C").arg(tests.join("util")),
            BUILD_LIMIT,
            &workshop.log("mpich-util")?,
        )?;
        fs::write(stamp, wanted)?;
    }
    for name in names {
        let chapter = tests.join(name);
        let mut make = Command::new("make");
        // A program that cannot be built is a failure of its own.
        make.args(["-k", "-j2", "-C"]).arg(&chapter);
        command::run(&mut make, BUILD_LIMIT, &workshop.log(&format!("mpich-make-{name}"))?)?;
        let of_chapter = EXPECTED.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix('/'));
        let text: String = of_chapter.flat_map(|line| [line, "\n"]).collect();
        fs::write(chapter.join("expected-failures"), text)?;
        folder::run(workshop, &chapter, &format!("MPICH's tests, {name}"), rows)?;
    }
    Ok(())
}
