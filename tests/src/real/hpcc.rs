//! HPCC: linear algebra, transposition, random access, Fourier transforms and the network, each with its own check of the result.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::Problem;
use super::command::{self, End};
use super::fetch::{Published, is_done, unpack};
use super::table::Row;
use super::workshop::Workshop;

const VERSION: &str = "1.5.0";
const SOURCE: Published = Published {
    address: "http://deb.debian.org/debian/pool/main/h/hpcc/hpcc_1.5.0.orig.tar.gz",
    sum: "0a6fef7ab9f3347e549fed65ebb98234feea9ee18aea0c8f59baefbe3cf7ffb8",
};
/// Netlib's BLAS, which needs a Fortran compiler's library at run time.
const BLAS: Published = Published {
    address: "http://deb.debian.org/debian/pool/main/l/lapack/libblas3_3.11.0-2_amd64.deb",
    sum: "9aae8058b8d02b800bdafc5b340614df1442a2d2abbc2d351947c0fdd67aa08a",
};

/// The settings of HPCC's build, under the name that its makefile expects.
const MAKE: &str = include_str!("Make.hpcc");

/// The order of the matrix; the other sizes follow from it.
const ORDER: u32 = 600;

const BUILD_LIMIT: Duration = Duration::from_secs(900);
const RUN_LIMIT: Duration = Duration::from_secs(600);

/// Builds and runs HPCC.
///
/// # Errors
/// A tool is missing, or the program cannot be fetched, built or started.
pub fn run(workshop: &Workshop, rows: &mut Vec<Row>) -> Result<(), Problem> {
    let archive = SOURCE.fetch(workshop)?;
    let folder = workshop.built("hpcc")?;
    let blas = blas(workshop, &folder)?;
    let source = folder.join(format!("hpcc-{VERSION}"));
    let (stamp, mpicc) = (folder.join("built"), workshop.tool("mpicc"));
    let wanted = format!("{VERSION} {}", mpicc.display());
    if !is_done(&stamp, &wanted) {
        unpack(workshop, &archive, &folder)?;
        fs::write(source.join("hpl/Make.here"), MAKE)?;
        let mut make = Command::new("make");
        make.arg("-C").arg(&source).args(["arch=here", &format!("WRAPPER={}", mpicc.display())]);
        make.arg(format!("BLAS={}", blas.display()));
        command::must(&mut make, BUILD_LIMIT, &workshop.log("hpcc-build")?)?;
        fs::write(stamp, wanted)?;
    }
    for tasks in [2, 4] {
        let mut row = Row::new("HPCC", format!("{VERSION} with netlib's BLAS, {tasks} tasks, order {ORDER}"));
        test(workshop, &source.join("hpcc"), &blas, tasks, &mut row)?;
        rows.push(row);
    }
    Ok(())
}

fn test(workshop: &Workshop, program: &Path, blas: &Path, tasks: u32, row: &mut Row) -> Result<(), Problem> {
    let place = workshop.built(&format!("hpcc/{tasks}"))?;
    let report = place.join("hpccoutf.txt");
    // The program appends to an existing report.
    if report.exists() {
        fs::remove_file(&report)?;
    }
    fs::write(place.join("hpccinf.txt"), input(tasks))?;
    let mut job = workshop.launch(tasks);
    job.args(["--timeout", &RUN_LIMIT.as_secs().to_string()]).arg(program).current_dir(place);
    job.env("LD_LIBRARY_PATH", blas.parent().unwrap_or(blas));
    let log = workshop.log(&format!("hpcc-{tasks}"))?;
    let ran = command::run(&mut job, RUN_LIMIT + Duration::from_secs(30), &log)?;
    let verdicts = verdicts(&fs::read_to_string(report).unwrap_or_default());
    for section in CHECKED {
        match verdicts
            .iter()
            .filter(|(found, ..)| found == section)
            .map(|(_, good, line)| (*good, line))
            .min()
        {
            Some((true, _)) => row.passed(1),
            Some((false, line)) => row.failed(section, line),
            None => row.failed(section, &format!("not reached: {}", ran.why())),
        }
    }
    if ran.end != End::Well {
        row.failed("the end of the job", &ran.why());
    }
    Ok(())
}

/// The sections that check their result and always print the outcome. (A section that runs in a single task prints the outcome only if that
/// task is the first.)
const CHECKED: [&str; 7] = [
    "PTRANS",
    "HPL",
    "MPIRandomAccess",
    "StarRandomAccess",
    "MPIRandomAccess_LCG",
    "StarRandomAccess_LCG",
    "Summary",
];

/// Section, whether the result was right, and the line with the outcome.
fn verdicts(report: &str) -> Vec<(String, bool, String)> {
    let mut section = String::new();
    let mut verdicts = Vec::new();
    for line in report.lines().map(str::trim) {
        if let Some(name) = line.strip_prefix("Begin of ").and_then(|rest| rest.strip_suffix(" section.")) {
            name.clone_into(&mut section);
        }
        let good = line.contains("PASSED") || line.contains("(passed)") || line == "Success=1";
        let bad = line.contains("FAILED") || line.contains("(failed)") || line == "Success=0";
        if good || bad {
            verdicts.push((section.clone(), !bad, line.to_owned()));
        }
    }
    verdicts
}

/// BLAS as a library that programs are linked with, unpacked from Debian's package.
fn blas(workshop: &Workshop, folder: &Path) -> Result<PathBuf, Problem> {
    let place = folder.join("blas");
    let library = place.join("usr/lib/x86_64-linux-gnu/blas/libblas.so.3");
    if !library.exists() {
        let package = BLAS.fetch(workshop)?;
        let mut open = Command::new("dpkg-deb");
        open.arg("-x").arg(package).arg(&place);
        command::must(&mut open, BUILD_LIMIT, &workshop.log("hpcc-blas")?)?;
    }
    Ok(library)
}

/// HPL's input: one matrix, on a grid of tasks as square as possible.
fn input(tasks: u32) -> String {
    let rows = if tasks == 4 { 2 } else { 1 };
    let columns = tasks / rows;
    format!(
        "input\nof real-programs\nHPL.out\n8\n1\n{ORDER}\n1\n40\n0\n1\n{rows}\n{columns}\n16.0\n1\n2\n1\n4\n1\n2\n1\n1\n1\n0\n\
         1\n0\n2\n64\n0\n0\n1\n8\n-\n0\n1200\n0\n40\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verdicts_stand_by_their_section() {
        let report = "Begin of PTRANS section.\nWALL 300 PASSED 0.1\nBegin of MPIRandomAccess section.\n\
                      Found 9 errors in 64 locations (failed).\nBegin of Summary section.\nSuccess=1\n";
        let found: Vec<_> = verdicts(report).into_iter().map(|(section, good, _)| (section, good)).collect();
        let wanted = [("PTRANS", true), ("MPIRandomAccess", false), ("Summary", true)];
        assert_eq!(found, wanted.map(|(section, good)| (section.to_owned(), good)));
    }
}
