//! The law as data. ARCHITECTURE.md holds the same table; a test compares them.
//!
//! A short name (`engine`) is a room of the row's own crate; a name that starts with a crate's folder (`am-via/shm/os`) is a room of that crate,
//! or the whole crate; a name that starts with `std` or a [`RESTRICTED`] crate is somebody else's. A row with a name of its own (`nouns`) is
//! named by it.

/// A crate under the law.
#[derive(Clone, Copy, Debug)]
pub struct Crate {
    /// Its folder, which is also what the table calls it.
    pub dir: &'static str,
    /// Its name in paths.
    pub ident: &'static str,
}

/// The crates under the law (not `mpi-over-am/datatype`, which depends on none of them). Examples, benches and tests stand above all of them and may name anything public.
pub const CRATES: &[Crate] = &[
    Crate { dir: "am-core", ident: "am_core" },
    Crate { dir: "am-via", ident: "am_via" },
    Crate { dir: "mpi-over-am", ident: "mpi_over_am" },
    Crate { dir: "mpi-over-am/derive", ident: "mpi_over_am_derive" },
    Crate { dir: "mpi-over-am/abi", ident: "mpi_abi" },
    Crate { dir: "mpi-over-am/abi/malloc", ident: "mpi_malloc" },
];

/// Crates of others that only a row which names them may name: each is a way past the wrappers in `am-via/shm`.
pub(super) const RESTRICTED: &[&str] = &["libc", "memmap2", "loom"];

/// One row: what the places in it may name.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// The crate's folder.
    pub krate: &'static str,
    /// What other rows of the crate call these places together; empty: nothing.
    pub called: &'static str,
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
        called: "",
        places: &["lib", "prelude"],
        may: &["am-core"],
        must_not: &[],
        why: "says what the crate offers",
    },
    Row {
        krate: "am-core",
        called: "nouns",
        places: &[
            "buffer",
            "config",
            "counter",
            "error",
            "handler",
            "in_handler",
            "task",
            "transfer",
            "vector",
        ],
        may: &[],
        must_not: &["engine", "fabric", "verbs", "context", "std::env", "std::thread"],
        why: "what all others speak in",
    },
    Row {
        krate: "am-core",
        called: "",
        places: &["engine"],
        may: &["fabric", "nouns"],
        must_not: &[
            "verbs",
            "context",
            "progress",
            "std::env",
            "std::fs",
            "std::io",
            "std::net",
            "std::thread",
            "std::time",
        ],
        why: "generic over the fabric, and sans-IO beside it: a test drives it in one thread, without a clock",
    },
    Row {
        krate: "am-core",
        called: "",
        places: &["fabric"],
        may: &["buffer", "error", "task", "transfer"],
        must_not: &["engine", "verbs", "context", "progress"],
        why: "the few things that am-core needs of the world below; an implementer reads nothing else",
    },
    Row {
        krate: "am-core",
        called: "",
        places: &["context", "progress", "handler_thread", "shared"],
        may: &["engine", "fabric", "verbs", "nouns", "turns"],
        must_not: &["std::env"],
        why: "where a program's calls meet engine and fabric: generic and inlined",
    },
    Row {
        krate: "am-core",
        called: "",
        places: &["turns"],
        may: &["loom"],
        must_not: &["engine", "fabric", "verbs", "context", "progress", "std::env"],
        why: "the lock that threads take turns with, here and in MPI; its parts come from std, or from loom where a model runs it",
    },
    Row {
        krate: "am-core",
        called: "",
        places: &["verbs"],
        may: &["engine", "context", "progress", "fabric", "nouns"],
        must_not: &["std::env", "std::io", "std::thread"],
        why: "a public operation is a method of `Context<F: Fabric>`, so it names both; what it does is the engine's",
    },
    Row {
        krate: "am-core",
        called: "",
        places: &["call", "pgas"],
        may: &["context", "verbs", "fabric", "nouns"],
        must_not: &["engine", "progress", "std::env", "std::io", "std::thread"],
        why: "typed global memory and futures for programs: nothing that a program could not build of the verbs",
    },
    Row {
        krate: "am-core",
        called: "",
        places: &["testing"],
        may: &["am-core"],
        must_not: &["std::env"],
        why: "the loopback fabric and the conformance suite, for tests",
    },
    Row {
        krate: "am-via",
        called: "",
        places: &["lib"],
        may: &["am-via"],
        must_not: &[],
        why: "says what the crate offers",
    },
    Row {
        krate: "am-via",
        called: "",
        places: &["bin"],
        may: &["am-via/launch", "am-via/conform"],
        must_not: &["am-core"],
        why: "`amrun` is a thin user of the launcher library, `am-conform` of the suite",
    },
    Row {
        krate: "am-via",
        called: "",
        places: &["conform"],
        may: &["vipl", "device", "provider", "start", "launch"],
        must_not: &["am-core", "fabric", "shm"],
        why: "the suite of the provider: stands above it as a program does, and starts itself as the tasks of a job",
    },
    Row {
        krate: "am-via",
        called: "",
        places: &["start"],
        may: &["am-core", "fabric", "vipl", "device", "job", "limit", "settings", "shm/regions", "shm/wait"],
        must_not: &["provider", "launch"],
        why: "the front door: puts device, NIC, fabric and context together as the settings say",
    },
    Row {
        krate: "am-via",
        called: "",
        places: &["fabric"],
        may: &["am-core", "vipl", "job", "settings"],
        must_not: &["device", "provider", "shm"],
        why: "speaks VIA and does not know what carries it; with the front door the only one that names am-core",
    },
    Row {
        krate: "am-via",
        called: "",
        places: &["fabric/memory"],
        may: &["am-core/buffer", "fabric", "vipl", "shm/copy"],
        must_not: &["device", "provider"],
        why: "turns am-core's buffer into a checked range, and back; promises for the fabric",
    },
    Row {
        krate: "am-via",
        called: "",
        places: &["vipl"],
        may: &["device", "provider", "shm/copy", "shm/layout", "job", "settings"],
        must_not: &["am-core", "fabric"],
        why: "VIA's words: device on the message path, provider on the set-up path; checked ranges are handed through",
    },
    Row {
        krate: "am-via",
        called: "",
        places: &["provider"],
        may: &["device", "shm", "job", "settings"],
        must_not: &["am-core", "fabric", "vipl"],
        why: "the set-up path",
    },
    Row {
        krate: "am-via",
        called: "",
        places: &["device"],
        may: &["shm", "job", "settings"],
        must_not: &["am-core", "fabric", "vipl", "provider"],
        why: "descriptor, checked range, copy, completion: for each device alike",
    },
    Row {
        krate: "am-via",
        called: "",
        places: &["launch"],
        may: &["job", "settings", "shm/os", "libc"],
        must_not: &["am-core", "fabric", "vipl", "provider", "device"],
        why: "starts and watches tasks; carries no message",
    },
    Row {
        krate: "am-via",
        called: "",
        places: &["job"],
        may: &["settings", "shm"],
        must_not: &["am-core", "device"],
        why: "the job's files: made by the launcher, joined by the tasks",
    },
    Row {
        krate: "am-via",
        called: "",
        places: &["settings"],
        may: &["shm/os"],
        must_not: &["am-core", "job"],
        why: "one table: each setting with its default and its meaning",
    },
    Row {
        krate: "am-via",
        called: "",
        places: &["limit"],
        may: &["job", "shm"],
        must_not: &["am-core", "device", "vipl"],
        why: "the machine's limit to measure against: a bare ring, nothing of the stack",
    },
    Row {
        krate: "am-via",
        called: "",
        places: &["test_aids"],
        may: &[],
        must_not: &["am-core"],
        why: "for unit tests: what ends one that hangs, and random numbers that can be drawn again",
    },
    Row {
        krate: "am-via",
        called: "",
        places: &["shm"],
        may: &["libc", "memmap2", "loom"],
        must_not: &["am-core", "job", "settings", "std::sync::atomic"],
        why: "shared memory and the system calls under it; atomics come from its own switch, so that loom can replace them",
    },
    Row {
        krate: "am-via",
        called: "",
        places: &["shm/atomics"],
        may: &["loom"],
        must_not: &[],
        why: "the one switch between the machine's atomics and loom's",
    },
    Row {
        krate: "mpi-over-am",
        called: "",
        places: &["lib"],
        may: &["mpi-over-am", "mpi-over-am/derive"],
        must_not: &[],
        why: "says what the crate offers",
    },
    Row {
        krate: "mpi-over-am",
        called: "",
        places: &["environment"],
        may: &[
            "am-core",
            "am-via",
            "calls",
            "nouns",
            "buffer",
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
        called: "calls",
        places: &[
            "communicator",
            "handlers",
            "state",
            "completion",
            "send",
            "receive",
            "sendrecv",
            "layouts",
            "packing",
            "queues",
            "probe",
            "notes",
            "session",
            "topology",
            "turn",
            "progress_thread",
        ],
        may: &[
            "am-core",
            "environment",
            "nouns",
            "buffer",
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
        called: "nouns",
        places: &[
            "group",
            "rank",
            "tag",
            "status",
            "op",
            "error",
            "error_handler",
            "info",
            "attribute",
            "context_id",
            "thread_level",
            "policy",
            "envelope",
            "settings",
            "budget",
            "early_message",
            "remote",
        ],
        may: &["am-core", "matching", "buffer"],
        must_not: &["am-via", "protocol", "request"],
        why: "MPI's nouns, and what a message leaves while it waits",
    },
    Row {
        krate: "mpi-over-am",
        called: "",
        places: &["matching"],
        may: &[],
        must_not: &["am-core", "am-via"],
        why: "queues of values, tested against an oracle without a message",
    },
    Row {
        krate: "mpi-over-am",
        called: "",
        places: &["buffer"],
        may: &["am-core", "error", "request", "policy"],
        must_not: &["am-via", "matching", "protocol"],
        why: "user memory held beyond a call: am-core's raw forms are called here, since each such call is unsafe",
    },
    Row {
        krate: "mpi-over-am",
        called: "",
        places: &["protocol", "request", "window"],
        may: &["am-core", "calls", "environment", "nouns", "matching", "buffer"],
        must_not: &["am-via", "collective"],
        why: "a protocol a file: eager, rendezvous, synchronous, buffered",
    },
    Row {
        krate: "mpi-over-am",
        called: "",
        places: &["collective"],
        may: &["am-core", "calls", "environment", "nouns", "protocol", "request", "buffer"],
        must_not: &["am-via", "matching"],
        why: "algorithms over point-to-point messages, put and counters",
    },
    Row {
        krate: "mpi-over-am/derive",
        called: "",
        places: &["lib"],
        may: &["mpi-over-am"],
        must_not: &["am-core", "am-via"],
        why: "runs in the compiler: it reads a struct, and writes safe code that names mpi-over-am's trait",
    },
    Row {
        krate: "mpi-over-am",
        called: "",
        places: &["abi"],
        may: &["mpi-over-am", "libc"],
        must_not: &["am-core", "am-via"],
        why: "the C face of the public API and its raw entry points",
    },
    Row {
        krate: "mpi-over-am",
        called: "",
        places: &["abi/bin"],
        may: &["abi"],
        must_not: &["am-core", "am-via"],
        why: "thin: compiler wrappers, and `mpiexec`, which becomes `amrun`",
    },
    Row {
        krate: "mpi-over-am/abi/malloc",
        called: "",
        places: &["lib"],
        may: &["libc"],
        must_not: &["mpi-over-am", "am-core", "am-via"],
        why: "preloaded into any program: the C interface hands it job memory by two functions",
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
    UnsafePlace {
        path: "am-core/src/testing",
        raw_only: false,
        why: "its fabrics promise what every fabric promises",
    },
    UnsafePlace {
        path: "mpi-over-am/src/buffer",
        raw_only: false,
        why: "the user's buffers of MPI calls, and their parts that threads fill",
    },
    UnsafePlace { path: "mpi-over-am/abi", raw_only: false, why: "called from C" },
];

/// Places of [`TABLE`] and paths of [`UNSAFE_PLACES`] that the design has and the tree has not yet. Whoever brings one takes it off here.
pub const EXPECTED: &[&str] = &[
    "am-core/config",
    "am-core/testing",
    "am-via/bin",
    "am-via/provider",
    "am-via/launch",
    "mpi-over-am/op",
    "mpi-over-am/info",
    "mpi-over-am/window",
    "mpi-over-am/collective",
    "am-core/src/verbs",
];
