//! NetPIPE: messages of many sizes between two tasks, in each of its modes, with its own check of every byte. With more than two tasks it
//! hangs, also on MPICH, at the same size: tasks in the middle measure no time, treat that as too long, and leave after the first size.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use super::Problem;
use super::command::{self, End, Ran};
use super::fetch::{Published, is_done, unpack};
use super::table::Row;
use super::workshop::Workshop;

const VERSION: &str = "3.7.2";
const SOURCE: Published = Published {
    address: "http://deb.debian.org/debian/pool/main/n/netpipe/netpipe_3.7.2.orig.tar.gz",
    sum: "13dac884ff52951636f651c421f5ff4a853218a95aa28a4a852402ee385a2ab8",
};

const BUILD_LIMIT: Duration = Duration::from_secs(300);
const RUN_LIMIT: Duration = Duration::from_secs(180);

/// The number of tasks that NetPIPE supports.
const TASKS: u32 = 2;

/// The runs: a name, the program, and the options for the mode.
const WAYS: [(&str, &str, &[&str]); 9] = [
    ("there and back, checked", "NPmpi", &["-i"]),
    ("receives posted before, checked", "NPmpi", &["-i", "-a"]),
    ("synchronous sends, checked", "NPmpi", &["-i", "-S"]),
    ("from any source, checked", "NPmpi", &["-i", "-z"]),
    ("one direction, checked", "NPmpi", &["-i", "-s"]),
    ("there and back, measured", "NPmpi", &[]),
    ("both directions at once, receives posted before, measured", "NPmpi", &["-2", "-a"]),
    ("put, checked", "NPmpi2", &["-i"]),
    ("get, measured", "NPmpi2", &["-g"]),
];

/// Builds and runs NetPIPE.
///
/// # Errors
/// A tool is missing, or the program cannot be fetched, built or started.
pub fn run(workshop: &Workshop, rows: &mut Vec<Row>) -> Result<(), Problem> {
    let archive = SOURCE.fetch(workshop)?;
    let folder = workshop.built("netpipe")?;
    let source = folder.join(format!("NetPIPE-{VERSION}"));
    let (stamp, mpicc) = (folder.join("built"), workshop.tool("mpicc"));
    let wanted = format!("{VERSION} {}", mpicc.display());
    if !is_done(&stamp, &wanted) {
        unpack(workshop, &archive, &folder)?;
        for (target, compiler) in [("mpi", "MPICC"), ("mpi2", "MPI2CC")] {
            let mut make = Command::new("make");
            make.arg("-C").arg(&source).arg(target).arg(format!("{compiler}={}", mpicc.display()));
            // Paths for a second library, which the wrapper does not need.
            make.args(["CFLAGS=-O2 -w", "MPI2_INC=."]);
            command::must(&mut make, BUILD_LIMIT, &workshop.log(&format!("netpipe-{target}"))?)?;
        }
        std::fs::write(stamp, wanted)?;
    }
    let mut row = Row::new("NetPIPE", format!("{VERSION}, {TASKS} tasks, messages up to 4 MiB"));
    for (at, (name, program, options)) in WAYS.iter().enumerate() {
        let mut job = workshop.launch(TASKS);
        job.args(["--timeout", &RUN_LIMIT.as_secs().to_string()]).arg(source.join(program)).args(*options);
        job.args(["-u", "4194304", "-n", "20", "-o"]).arg(folder.join("measured")).current_dir(&folder);
        let ran = command::run(
            &mut job,
            RUN_LIMIT + Duration::from_secs(30),
            &workshop.log(&format!("netpipe-{at}"))?,
        )?;
        if is_good(&ran, options.contains(&"-i"), &folder.join("measured")) {
            row.passed(1);
        } else {
            row.failed(name, &ran.why());
        }
    }
    rows.push(row);
    Ok(())
}

/// Whether NetPIPE ran to its end, found no wrong byte, and checked or measured enough sizes.
fn is_good(ran: &Ran, checked: bool, measured: &Path) -> bool {
    /// Minimum number of sizes: NetPIPE measures sizes from 1 byte to 4 MiB, and sizes around each of them.
    const SIZES: usize = 50;
    let lines = std::fs::read_to_string(measured).unwrap_or_default().lines().count();
    let passed = ran.said.matches("Integrity check passed").count();
    ran.end == End::Well
        && !ran.said.contains("Integrity check failed")
        && if checked { passed > SIZES / 3 } else { lines > SIZES }
}
