//! The project's marks, as ratios to the best peer: *reach* is required, *aim* is the goal.

use crate::below::UCX;
use crate::hosts::{BARE, BARE_ROW};
use crate::libraries::{OURS, PEERS};

/// The meaning of a measurement's ratio.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A time or an amount of memory: ours over the best peer's; less is better.
    Less,
    /// Printed as a time, judged as a rate: the best peer's time over ours; more is better.
    Rate,
}

/// The mark of a row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Mark {
    pub(crate) reach: f64,
    pub(crate) aim: f64,
}

/// The columns of [`beside`].
const AMSEND: &str = "amsend";
const BY_HAND: &str = "by_hand";
const LIMIT: &str = "limit";
const BARE_FILE: &str = "bare";
/// Measurements of ours that also appear in a second row, where one is judged against another: measurement, column, second row.
const SECOND: [(&str, &str, &str); 11] = [
    ("amsend", AMSEND, "mpi_beside_amsend"),
    ("pack_vector", OURS, "pack_beside_loop"),
    ("pack_by_hand", BY_HAND, "pack_beside_loop"),
    ("unpack_vector", OURS, "unpack_beside_loop"),
    ("unpack_by_hand", BY_HAND, "unpack_beside_loop"),
    ("files_write_bare", BARE_FILE, "files_write_alone"),
    ("files_read_bare", BARE_FILE, "files_read_alone"),
    ("files_write_bare", BARE_FILE, "files_write_all"),
    ("files_read_bare", BARE_FILE, "files_read_all"),
    ("files_write_pieces", OURS, "files_pieces_beside_bare"),
    ("files_write_bare", BARE_FILE, "files_pieces_beside_bare"),
];
/// The mark of the first exchange among 128 tasks is a time, in ns.
const FIRST_ALLTOALL_MAX: f64 = 0.3e9;

/// What our value of the measurement `name` puts into other rows or columns: the row, the column and the value there.
pub(crate) fn beside(name: &str, ns: f64) -> impl Iterator<Item = (&'static str, &'static str, f64)> {
    let limit = (name == "first_alltoall").then_some(("first_alltoall", LIMIT, FIRST_ALLTOALL_MAX));
    let second = SECOND.into_iter().filter(move |(measurement, ..)| *measurement == name);
    limit.into_iter().chain(second.map(move |(_, column, row)| (row, column, ns)))
}

/// The names of `--only`, with the measurements that stand in one of these rows.
pub(crate) fn with_measurements(only: &[String]) -> Vec<String> {
    let second = SECOND.into_iter().filter(|(.., row)| only.iter().any(|name| name == row));
    only.iter().cloned().chain(second.map(|(measurement, ..)| measurement.to_owned())).collect()
}

/// Streams and accesses to files are judged as rates, and all other measurements as times or amounts.
pub(crate) fn kind(name: &str) -> Kind {
    if name.starts_with("stream") || name.starts_with("files_") { Kind::Rate } else { Kind::Less }
}

/// The peers with which a row's mark is judged.
pub(crate) fn peers(name: &str) -> &'static [&'static str] {
    match name {
        "put" | "amsend" => &[UCX],
        BARE_ROW => &[BARE],
        "mpi_beside_amsend" => &[AMSEND],
        "first_alltoall" => &[LIMIT],
        "files_write_alone"
        | "files_read_alone"
        | "files_write_all"
        | "files_read_all"
        | "files_pieces_beside_bare" => &[BARE_FILE],
        "busy_exchange" => &["mpich"],
        "pack_beside_loop" | "unpack_beside_loop" => &[BY_HAND],
        // Not Open MPI: its wheel has no libfabric, so its rows show its own TCP.
        "hosts_latency" | "stream_hosts" => &["mpich", "impi"],
        _ => &PEERS,
    }
}

/// Whether a library, or a column of [`beside`], can be the best peer of a row. A library that the caller has added can.
pub(crate) fn is_judge(name: &str, library: &str) -> bool {
    peers(name).contains(&library) || !PEERS.contains(&library)
}

/// The mark of a row, if it has one.
pub(crate) fn mark(name: &str, bytes: u64) -> Option<Mark> {
    const KIB: u64 = 1024;
    const MIB: u64 = 1 << 20;
    let (reach, aim) = match (name, bytes) {
        ("latency_new" | "latency_same", 8) => (0.8, 0.65),
        ("latency_new" | "latency_same", ..=4096) => (0.85, 0.6),
        ("latency_new" | "latency_same", ..=65536) => (0.85, 0.75),
        ("latency_new" | "latency_same", ..=262_144) => (0.95, 0.8),
        ("latency_new" | "latency_same", MIB) => (0.75, 0.65),
        ("latency_new" | "latency_same", _) => (0.65, 0.5),
        ("latency_job_new" | "latency_job_same", _) => (0.6, 0.6),
        ("stream_new" | "stream_same", 8 | 64) => (1.5, 2.5),
        ("stream_new" | "stream_same", 16384) => (1.4, 2.0),
        ("stream_new" | "stream_same", KIB..) => (1.2, 2.0),
        ("hosts_latency" | "stream_hosts", _) => (1.0, 1.0),
        (BARE_ROW, 8) => (1.15, 1.0),
        ("put", _) => (1.0, 0.8),
        ("amsend", _) => (0.5, 0.4),
        ("mpi_beside_amsend", _) => (1.05, 1.0),
        ("first_alltoall", 128) => (1.0, 1.0),
        ("busy_exchange", _) => (0.3, 0.3),
        ("files_write_alone" | "files_read_alone", _) => (0.97, 1.0),
        ("files_write_all" | "files_read_all", _) => (0.9, 0.97),
        ("files_write_pieces", 65536) => (10.0, 10.0),
        ("files_write_pieces", _) => (4.0, 4.0),
        ("files_pieces_beside_bare", _) => (0.0, 0.5),
        ("one_core", _) => (0.8, 0.6),
        ("threads_one_pair" | "threads_two_pairs", _) => (0.8, 0.5),
        // These marks are the values that were measured when the marks were set.
        ("memory", 2) => (0.24, 0.24),
        ("memory", 16 | 128) => (0.2, 0.2),
        ("start", 2) => (0.19, 0.19),
        ("start", 16) => (0.16, 0.16),
        (name, 2) if name.starts_with("kernel_") => (1.03, 0.9),
        (name, _) if name.starts_with("kernel_") => (0.95, 0.9),
        ("crowd_barrier" | "crowd_allreduce" | "crowd_alltoall", _) => (0.4, 0.15),
        ("put_flush" | "get_flush" | "fetch_and_op" | "compare_and_swap" | "accumulate", _) => (0.9, 0.5),
        ("put_private" | "get_private" | "accumulate_private", _) => (1.5, 1.0),
        (
            "get_accumulate" | "put_strided" | "get_strided" | "pack_vector" | "unpack_vector"
            | "pack_blocks" | "unpack_blocks" | "pack_beside_loop" | "unpack_beside_loop",
            _,
        ) => (1.0, 1.0),
        (name, bytes) if is_collective(name) => match bytes {
            ..=8 => (0.8, 0.6),
            9..=65536 => (0.85, 0.5),
            _ => (0.75, 0.55),
        },
        _ => return None,
    };
    Some(Mark { reach, aim })
}

fn is_collective(name: &str) -> bool {
    let name = name.strip_suffix("_rotating").unwrap_or(name);
    matches!(name, "barrier" | "bcast" | "allreduce" | "alltoall" | "allgather" | "reduce" | "gather")
}

impl Mark {
    /// The verdict on a ratio by this mark.
    pub(crate) fn verdict(self, kind: Kind, ratio: f64) -> &'static str {
        let is_within = |mark: f64| match kind {
            Kind::Less => ratio <= mark,
            Kind::Rate => ratio >= mark,
        };
        match (is_within(self.aim), is_within(self.reach)) {
            (true, _) => "aim",
            (false, true) => "reached",
            (false, false) => "short",
        }
    }
}
