//! The law as data. ARCHITECTURE.md holds the same table; a test compares them.
//!
//! A short name (`engine`) is a room of the row's own crate; a name that starts with a crate's folder (`am-via/shm/os`) is a room of that crate,
//! or the whole crate; a name that starts with `std` or a [`RESTRICTED`] crate is somebody else's.

/// A crate under the law.
#[derive(Clone, Copy, Debug)]
pub struct Crate {
    /// Its folder, which is also what the table calls it.
    pub dir: &'static str,
    /// Its name in paths.
    pub ident: &'static str,
}

/// The crates under the law. Examples, benches and tests stand above all of them and may name anything public.
pub const CRATES: &[Crate] = &[
    Crate { dir: "am-core", ident: "am_core" },
    Crate { dir: "am-via", ident: "am_via" },
    Crate { dir: "mpi-over-am", ident: "mpi_over_am" },
    Crate { dir: "mpi-over-am/abi", ident: "mpi_abi" },
];

/// Crates of others that only a row which names them may name: each is a way past the wrappers in `am-via/shm`.
pub(super) const RESTRICTED: &[&str] = &["libc", "memmap2", "loom"];

/// One row: what the places in it may name.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// The crate's folder.
    pub krate: &'static str,
    /// Files or folders directly under its `src`, or below those; `lib` and `bin` are `lib.rs` and `bin/`. They may name each other. A place
    /// inside another row's place is judged by its own row alone.
    pub places: &'static [&'static str],
    /// Rooms that they may name, and restricted crates. Any other room is refused.
    pub may: &'static [&'static str],
    /// Parts of std that are refused; and rooms whose absence from `may` is the point of the row.
    pub must_not: &'static [&'static str],
    /// Why.
    pub why: &'static str,
}

/// The law. A change comes with its reason.
pub const TABLE: &[Row] = &[
    Row {
        krate: "am-core",
        places: &["lib"],
        may: &["am-core"],
        must_not: &[],
        why: "says what the crate offers",
    },
    Row {
        krate: "am-core",
        places: &["buffer", "config", "counter", "error", "handler", "in_handler", "task", "transfer"],
        may: &[],
        must_not: &["engine", "fabric", "verbs", "context", "std::env", "std::thread"],
        why: "the nouns that all others speak in",
    },
    Row {
        krate: "am-core",
        places: &["engine"],
        may: &["buffer", "config", "counter", "error", "handler", "in_handler", "task", "transfer"],
        must_not: &["fabric", "std::env", "std::fs", "std::io", "std::net", "std::thread", "std::time"],
        why: "sans-IO: a test drives it in one thread, without a clock",
    },
    Row {
        krate: "am-core",
        places: &["fabric"],
        may: &["buffer", "error", "task", "transfer"],
        must_not: &["engine", "verbs", "context", "progress"],
        why: "the few things that am-core needs of the world below; an implementer reads nothing else",
    },
    Row {
        krate: "am-core",
        places: &["verbs"],
        may: &[
            "engine",
            "context",
            "fabric",
            "buffer",
            "config",
            "counter",
            "error",
            "handler",
            "in_handler",
            "task",
            "transfer",
        ],
        must_not: &["progress", "std::env", "std::io", "std::thread"],
        why: "a public operation is a method of `Context<F: Fabric>`, so it names both; what it does is the engine's",
    },
    Row {
        krate: "am-core",
        places: &["context", "progress"],
        may: &[
            "engine",
            "fabric",
            "verbs",
            "buffer",
            "config",
            "counter",
            "error",
            "handler",
            "in_handler",
            "task",
            "transfer",
        ],
        must_not: &["std::env"],
        why: "the one place where engine and fabric meet: generic and inlined",
    },
    Row {
        krate: "am-core",
        places: &["testing"],
        may: &["am-core"],
        must_not: &["std::env"],
        why: "the loopback fabric and the conformance suite, for tests",
    },
    Row {
        krate: "am-via",
        places: &["lib"],
        may: &["am-via"],
        must_not: &[],
        why: "says what the crate offers",
    },
    Row {
        krate: "am-via",
        places: &["bin"],
        may: &["am-via/launch"],
        must_not: &["am-core"],
        why: "`amrun` is a thin user of the launcher library",
    },
    Row {
        krate: "am-via",
        places: &["fabric"],
        may: &["am-core", "vipl", "job", "error"],
        must_not: &["device", "provider", "shm"],
        why: "the one room that names am-core; it speaks VIA and does not know what carries it",
    },
    Row {
        krate: "am-via",
        places: &["fabric/memory"],
        may: &["am-core/buffer", "vipl", "shm/copy"],
        must_not: &["device", "provider"],
        why: "turns am-core's buffer into a checked range, and back",
    },
    Row {
        krate: "am-via",
        places: &["vipl"],
        may: &["device", "provider", "shm/copy", "shm/layout", "job", "error"],
        must_not: &["am-core", "fabric"],
        why: "VIA's words: device on the message path, provider on the set-up path, checked ranges handed through",
    },
    Row {
        krate: "am-via",
        places: &["provider"],
        may: &["device", "shm", "job", "error"],
        must_not: &["am-core", "fabric", "vipl"],
        why: "the set-up path",
    },
    Row {
        krate: "am-via",
        places: &["device"],
        may: &["shm", "job", "error"],
        must_not: &["am-core", "fabric", "vipl", "provider"],
        why: "descriptor, checked range, copy, completion: for each device alike",
    },
    Row {
        krate: "am-via",
        places: &["launch"],
        may: &["job", "shm/os", "error", "libc"],
        must_not: &["am-core", "fabric", "vipl", "provider", "device"],
        why: "makes the job's files, starts and watches tasks; carries no message",
    },
    Row {
        krate: "am-via",
        places: &["job"],
        may: &["shm", "error"],
        must_not: &["am-core"],
        why: "what a task was handed at its start: its place in the job and the job's files",
    },
    Row {
        krate: "am-via",
        places: &["error"],
        may: &[],
        must_not: &["am-core"],
        why: "faults that more than one room reports",
    },
    Row {
        krate: "am-via",
        places: &["shm"],
        may: &["libc", "memmap2", "loom"],
        must_not: &["am-core", "job", "std::sync::atomic"],
        why: "shared memory and the system calls under it; atomics come from its own switch, so that loom can replace them",
    },
    Row {
        krate: "am-via",
        places: &["shm/atomics"],
        may: &["loom"],
        must_not: &[],
        why: "the one switch between the machine's atomics and loom's",
    },
    Row {
        krate: "mpi-over-am",
        places: &["lib"],
        may: &["mpi-over-am"],
        must_not: &[],
        why: "says what the crate offers",
    },
    Row {
        krate: "mpi-over-am",
        places: &["environment"],
        may: &[
            "am-core",
            "am-via",
            "communicator",
            "handlers",
            "group",
            "rank",
            "tag",
            "status",
            "op",
            "error",
            "info",
            "envelope",
            "buffer",
            "datatype",
            "matching",
            "protocol",
            "request",
            "collective",
            "window",
        ],
        must_not: &[],
        why: "opens the stack: the one file that names am-via, to choose the fabric",
    },
    Row {
        krate: "mpi-over-am",
        places: &["communicator", "handlers"],
        may: &[
            "am-core",
            "environment",
            "group",
            "rank",
            "tag",
            "status",
            "op",
            "error",
            "info",
            "envelope",
            "buffer",
            "datatype",
            "matching",
            "protocol",
            "request",
            "collective",
            "window",
        ],
        must_not: &["am-via"],
        why: "where matching and protocols meet: from the program's side and from the wire's",
    },
    Row {
        krate: "mpi-over-am",
        places: &["group", "rank", "tag", "status", "op", "error", "info", "envelope"],
        may: &["am-core"],
        must_not: &["am-via", "protocol"],
        why: "MPI's nouns",
    },
    Row {
        krate: "mpi-over-am",
        places: &["matching"],
        may: &[],
        must_not: &["am-core", "am-via"],
        why: "queues of values, tested against an oracle without a message",
    },
    Row {
        krate: "mpi-over-am",
        places: &["buffer", "datatype"],
        may: &["am-core/buffer", "am-core/error", "am-core/handler", "am-core/transfer", "error"],
        must_not: &["am-via"],
        why: "user memory and its layouts, as gatherers and sinks",
    },
    Row {
        krate: "mpi-over-am",
        places: &["protocol", "request", "window"],
        may: &[
            "am-core",
            "matching",
            "datatype",
            "buffer",
            "environment",
            "communicator",
            "handlers",
            "group",
            "rank",
            "tag",
            "status",
            "op",
            "error",
            "info",
            "envelope",
        ],
        must_not: &["am-via", "collective"],
        why: "a protocol a file: eager, rendezvous, synchronous, buffered",
    },
    Row {
        krate: "mpi-over-am",
        places: &["collective"],
        may: &[
            "am-core",
            "protocol",
            "request",
            "datatype",
            "buffer",
            "environment",
            "communicator",
            "group",
            "rank",
            "tag",
            "status",
            "op",
            "error",
            "info",
        ],
        must_not: &["am-via", "matching"],
        why: "algorithms over point-to-point messages, put and counters",
    },
    Row {
        krate: "mpi-over-am",
        places: &["abi"],
        may: &["mpi-over-am", "libc"],
        must_not: &["am-core", "am-via"],
        why: "the C face of the public API and its raw entry points",
    },
    Row {
        krate: "mpi-over-am",
        places: &["abi/bin"],
        may: &["am-via/launch"],
        must_not: &["am-core"],
        why: "`mpiexec` starts tasks as `amrun` does; the compiler wrappers name nothing",
    },
];

/// Where `unsafe` may stand.
#[derive(Clone, Copy, Debug)]
pub struct UnsafePlace {
    /// A module (its file, and the folder of its children) or a folder.
    pub path: &'static str,
    /// Only inside functions whose name ends in `_raw`.
    pub raw_only: bool,
    /// Why there.
    pub why: &'static str,
}

/// The only places with `unsafe`.
pub const UNSAFE_PLACES: &[UnsafePlace] = &[
    UnsafePlace {
        path: "am-via/src/shm",
        raw_only: false,
        why: "memory that other tasks write, and the system calls under it",
    },
    UnsafePlace {
        path: "am-via/src/fabric/memory",
        raw_only: false,
        why: "turns am-core's buffer into a checked range, and back",
    },
    UnsafePlace {
        path: "am-core/src/buffer",
        raw_only: false,
        why: "user memory that the engine holds beyond a call",
    },
    UnsafePlace {
        path: "am-core/src/verbs",
        raw_only: true,
        why: "entry points for callers that have pointers: C, and libraries above",
    },
    UnsafePlace { path: "mpi-over-am/src/buffer", raw_only: false, why: "the user's buffers of MPI calls" },
    UnsafePlace { path: "mpi-over-am/abi", raw_only: false, why: "called from C" },
];

/// Places of [`TABLE`] and paths of [`UNSAFE_PLACES`] that the design has and the tree has not yet. Whoever brings one takes it off here.
pub const EXPECTED: &[&str] = &[
    "am-core/config",
    "am-core/testing",
    "am-via/bin",
    "am-via/provider",
    "am-via/launch",
    "am-via/error",
    "mpi-over-am/environment",
    "mpi-over-am/communicator",
    "mpi-over-am/handlers",
    "mpi-over-am/group",
    "mpi-over-am/rank",
    "mpi-over-am/tag",
    "mpi-over-am/status",
    "mpi-over-am/op",
    "mpi-over-am/error",
    "mpi-over-am/info",
    "mpi-over-am/envelope",
    "mpi-over-am/buffer",
    "mpi-over-am/datatype",
    "mpi-over-am/protocol",
    "mpi-over-am/request",
    "mpi-over-am/window",
    "mpi-over-am/collective",
    "mpi-over-am/abi",
    "mpi-over-am/abi/bin",
    "am-core/src/verbs",
    "mpi-over-am/src/buffer",
    "mpi-over-am/abi",
];
