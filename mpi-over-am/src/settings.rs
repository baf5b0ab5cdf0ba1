//! The settings of this layer, read once when the environment is made, and their table, which `mpiexec --info` prints with that of am-via.
//! The launcher does not interpret them: it passes the variables of its own environment to the tasks.

use am_via_settings::{ForeignName, Value, choices, table};
pub use am_via_settings::{Setting, SettingError, SettingText, Table, Wanted, nearest};

/// How the receiver learns that an eager message is complete: the three variants of the MPI-LAPI paper's section 5.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CompletionVariant {
    /// A completion handler on the handler thread (section 5.1).
    Thread,
    /// A target counter, one for each sender (section 5.2).
    Counter,
    /// A predefined completion in the polling context (section 5.3).
    #[default]
    InContext,
}

/// The settings of an environment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Maximum bytes of a standard-mode message that is sent eagerly. A longer one is sent in pieces of at most this length, or announced.
    /// Also bounded by the capacity of a packet. All tasks of a job must have the same value. `AM_EAGER_LIMIT_BYTES`.
    pub eager_limit_bytes: usize,
    /// Whether synchronous-mode messages up to the eager limit are sent with their data, and the receiver acknowledges the match. If not,
    /// they are announced, as in the MPI-LAPI paper. Only with [`CompletionVariant::InContext`]. `AM_EAGER_SYNCHRONOUS`.
    pub eager_synchronous: bool,
    /// Maximum memory for messages that arrive before their receive, in bytes, for all senders together. `AM_EARLY_ARRIVAL_BYTES_MAX`.
    pub early_arrival_bytes_max: u64,
    /// How the receiver learns that an eager message is complete. `AM_COMPLETION`.
    pub completion: CompletionVariant,
    /// Maximum number of eager messages that wait for their receives. `AM_EARLY_ARRIVALS_MAX`.
    pub early_arrivals_max: Option<u64>,
    /// Maximum number of posted non-blocking receives. `AM_POSTED_RECEIVES_MAX`.
    pub posted_receives_max: Option<u64>,
    /// Maximum number of non-blocking sends under way when a send beyond the eager limit is started. `AM_LONG_SENDS_MAX`.
    pub long_sends_max: Option<u64>,
    /// Whether a thread of each task handles messages while the program computes. Only for programs in C, Fortran and Python: a Rust
    /// program calls [`Environment::set_progress_thread`](crate::Environment::set_progress_thread) instead. `AM_PROGRESS_THREAD`.
    pub progress_thread: bool,
    /// Whether MPI prints to standard error: the settings at its start, each call and message, and a summary at its end. `AM_DEBUG`.
    pub debug: bool,
    /// Algorithms of collectives by length and number of tasks.
    pub collectives: Selection,
}

impl Settings {
    /// Turns the check of collectives on, if it is `auto` and this is a debug build.
    pub(crate) fn checked_when_debugging(mut self) -> Self {
        if self.collectives.check == Check::Auto && cfg!(debug_assertions) {
            self.collectives.check = Check::On;
        }
        self
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            // The capacity of a packet of am-via. On 2 cores, messages of up to 32 KiB of newly written data are faster with two copies
            // than with one fetch, but each pair of tasks has 128 slots of this length.
            eager_limit_bytes: 16384,
            eager_synchronous: true,
            early_arrival_bytes_max: 64 << 20,
            completion: CompletionVariant::default(),
            early_arrivals_max: None,
            posted_receives_max: None,
            long_sends_max: None,
            progress_thread: false,
            debug: false,
            collectives: Selection::default(),
        }
    }
}

/// Thresholds between the algorithms of collectives. The defaults were measured on 2 busy cores, and should be measured again on more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Selection {
    /// Whether each collective begins with an exchange in which all tasks compare call, root, operator, datatype and length
    /// ([`Error::Mismatched`](crate::Error::Mismatched)). All tasks must have the same value. The default is off, but
    /// [`Environment::init`](crate::Environment::init) turns the check on in debug builds. `AM_CHECK_COLLECTIVES`.
    pub check: Check,
    /// Maximum number of tasks for which trees are binomial, and barriers and short allreduces run in rounds: in a round, each task waits
    /// for one other task. More tasks use a tree, which is flat for short data. `None`: no limit if all tasks share one host and each has a
    /// processor, otherwise [`ROUNDS_TASKS_MAX`](Self::ROUNDS_TASKS_MAX). `AM_COLLECTIVE_ROUNDS_TASKS_MAX`.
    pub rounds_tasks_max: Option<u32>,
    /// The kind of the board of a communicator. `AM_COLLECTIVE_BOARD`.
    pub board: BoardKind,
    /// Maximum number of tasks that use a board. `None`: in a job, 1024 with a counter and 64 with lines; otherwise 0.
    /// `AM_COLLECTIVE_BOARD_TASKS_MAX`.
    pub board_tasks_max: Option<u32>,
    /// Maximum bytes of a broadcast along a tree; a longer one runs along a chain of tasks, in pieces.
    pub broadcast_tree_bytes_max: u64,
    /// Length of a piece of a broadcast along a chain, in bytes.
    pub broadcast_piece_bytes: u64,
    /// Maximum bytes of a reduction along a tree; for longer vectors, each task reduces a part. Two tasks use the tree for vectors of any
    /// length if the operation commutes.
    pub reduce_tree_bytes_max: u64,
    /// Number of bytes of a long vector that a task reduces at a time; at most 16 KiB if there are more than two tasks.
    pub reduce_piece_bytes: u64,
    /// Maximum bytes of an allreduce by recursive doubling or along a tree; longer vectors are reduced in parts.
    pub allreduce_doubling_bytes_max: u64,
    /// Maximum number of tasks for which an allgather sends each block directly to each task; more use rounds, if the result is short.
    pub allgather_linear_tasks_max: u32,
    /// Maximum result of an allgather in rounds, in bytes.
    pub allgather_rounds_bytes_max: u64,
    /// Maximum number of tasks for which an alltoall sends each block directly to its task; more use rounds, if the result is short.
    pub alltoall_linear_tasks_max: u32,
    /// Maximum result of an alltoall in rounds, in bytes.
    pub alltoall_rounds_bytes_max: u64,
}

impl Selection {
    /// The default of [`rounds_tasks_max`](Self::rounds_tasks_max) for tasks that share processors or have several hosts.
    pub const ROUNDS_TASKS_MAX: u32 = 4;

    /// Whether a communicator of `size` tasks uses rounds and binomial trees.
    #[inline(always)]
    pub(crate) fn uses_rounds(&self, size: u64) -> bool {
        size <= self.rounds_tasks_max.unwrap_or(Self::ROUNDS_TASKS_MAX).into()
    }
}

impl Default for Selection {
    fn default() -> Self {
        Self {
            check: Check::Auto,
            rounds_tasks_max: None,
            board: BoardKind::Auto,
            board_tasks_max: None,
            broadcast_tree_bytes_max: 64 << 10,
            broadcast_piece_bytes: 128 << 10,
            reduce_tree_bytes_max: 16 << 10,
            reduce_piece_bytes: 64 << 10,
            allreduce_doubling_bytes_max: 16 << 10,
            allgather_linear_tasks_max: 4,
            allgather_rounds_bytes_max: 16 << 10,
            alltoall_linear_tasks_max: 4,
            alltoall_rounds_bytes_max: 64 << 10,
        }
    }
}

choices! { CompletionVariant: InContext = "in-context", Counter = "counter"; or Thread = "thread" }

/// Whether the tasks of a collective compare their calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Check {
    /// The tasks compare their collectives if [`Environment::init`](crate::Environment::init) starts MPI in a debug build.
    #[default]
    Auto,
    /// The tasks compare their collectives.
    On,
    /// The tasks do not compare their collectives.
    Off,
}

choices! { Check: Auto = "auto", On = "on"; or Off = "off" }

/// The kind of a board: memory of rank 0 that all tasks of a communicator write and read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BoardKind {
    /// In a job, `Counter` if the tasks on rank 0's host outnumber the host's processors, otherwise `Lines`. Outside of a job, `Counter`.
    #[default]
    Auto,
    /// Tasks count their arrivals. Used for barriers and short allreduces, allgathers and alltoalls; the better kind when tasks share
    /// processors.
    Counter,
    /// Each task writes to lines of its own, and the others read them there. Used for broadcasts, gathers, allgathers and short alltoalls;
    /// the better kind when each task has a processor of its own.
    Lines,
}

choices! { BoardKind: Auto = "auto", Counter = "counter"; or Lines = "lines" }

table! { Settings, foreign FOREIGN_NAMES;
    "Largest MPI message, in bytes, that is sent eagerly: with its data, before the receiver has asked for it. Longer messages of up to 256 KiB are sent in pieces of at most this length, if each task has a processor and all pieces can be sent at once. Other messages are announced (rendezvous).",
        eager_limit_bytes: usize = eager_limit_bytes, "AM_EAGER_LIMIT_BYTES", 0..=1 << 40;
    "on: MPI_Ssend sends messages up to the eager limit with their data, and the receiver acknowledges the match. off: it announces all of them.",
        eager_synchronous: bool = eager_synchronous, "AM_EAGER_SYNCHRONOUS";
    "Maximum memory for messages that arrive before their receive is posted, in bytes, all senders together. Beyond it senders announce their messages.",
        early_arrival_bytes_max: u64 = early_arrival_bytes_max, "AM_EARLY_ARRIVAL_BYTES_MAX", 0..=1 << 46;
    "How an MPI receive learns that its eager message is complete: in-context (a predefined completion handler, run by the call that polls), counter (a target counter per sender), or thread (the handler thread).",
        completion: CompletionVariant = completion, "AM_COMPLETION";
    "Maximum number of eager messages that wait for their receive. Beyond it senders announce their messages. auto: limited by early_arrival_bytes_max only.",
        early_arrivals_max: Option<u64> = early_arrivals_max, "AM_EARLY_ARRIVALS_MAX", 1..=1 << 46;
    "Maximum number of non-blocking MPI receives that a task may have posted at a time. One more is an error. auto: no limit.",
        posted_receives_max: Option<u64> = posted_receives_max, "AM_POSTED_RECEIVES_MAX", 1..=1 << 46;
    "Maximum number of non-blocking MPI sends that a task may have in flight when it starts a message beyond the eager limit. One more is an error. auto: no limit.",
        long_sends_max: Option<u64> = long_sends_max, "AM_LONG_SENDS_MAX", 1..=1 << 46;
    "Largest communicator, in tasks, whose MPI_Barrier and short MPI_Allreduce use rounds, in which each task waits for another one. Larger ones use a tree, which for data of up to 1 KiB has 16 children per task: fewer waits, which matters if tasks share processors. auto: no limit if all tasks of the job share one host and each has a processor, otherwise 4.",
        collective_rounds_tasks_max: Option<u32> = collectives.rounds_tasks_max, "AM_COLLECTIVE_ROUNDS_TASKS_MAX", 0..=0xFFFF_FFFF;
    "Kind of the board, memory of rank 0 that all tasks of a communicator on one host write and read in blocking and non-blocking collectives. counter: tasks count their arrivals, so that each has to run only once per collective: MPI_Barrier and short MPI_Allreduce, MPI_Allgather and MPI_Alltoall. lines: each task writes its data once, and others read them there: MPI_Bcast, MPI_Gather, MPI_Allgather and short MPI_Alltoall of at least 3 tasks. auto: counter if the tasks of rank 0's host outnumber its processors, otherwise lines.",
        collective_board: BoardKind = collectives.board, "AM_COLLECTIVE_BOARD";
    "Largest communicator, in tasks, that uses a board. 0: none does. auto: 1024 with a counter, 64 with lines.",
        collective_board_tasks_max: Option<u32> = collectives.board_tasks_max, "AM_COLLECTIVE_BOARD_TASKS_MAX", 0..=1024;
    "Largest MPI_Bcast, in bytes, that uses a tree. Longer ones use a chain, in pieces.",
        broadcast_tree_bytes_max: u64 = collectives.broadcast_tree_bytes_max, "AM_BROADCAST_TREE_BYTES_MAX";
    "Length of a piece in the chain of a long MPI_Bcast, in bytes.",
        broadcast_piece_bytes: u64 = collectives.broadcast_piece_bytes, "AM_BROADCAST_PIECE_BYTES", 1..=1 << 40;
    "Largest MPI_Reduce, in bytes, that uses a tree. In longer ones each task reduces a part of the vector. Two tasks use the tree for any length if the operation commutes.",
        reduce_tree_bytes_max: u64 = collectives.reduce_tree_bytes_max, "AM_REDUCE_TREE_BYTES_MAX";
    "Number of bytes of a long vector that each task of an MPI_Reduce or MPI_Allreduce reduces at a time; 16 KiB at most if there are more than two tasks.",
        reduce_piece_bytes: u64 = collectives.reduce_piece_bytes, "AM_REDUCE_PIECE_BYTES", 1..=1 << 40;
    "Largest MPI_Allreduce, in bytes, that uses recursive doubling or a tree. In longer ones each task reduces a part.",
        allreduce_doubling_bytes_max: u64 = collectives.allreduce_doubling_bytes_max, "AM_ALLREDUCE_DOUBLING_BYTES_MAX";
    "Largest communicator, in tasks, in which MPI_Allgather sends each block directly to each task. Larger ones use rounds if the result is short (allgather_rounds_bytes_max).",
        allgather_linear_tasks_max: u32 = collectives.allgather_linear_tasks_max, "AM_ALLGATHER_LINEAR_TASKS_MAX";
    "Largest result, in bytes, that MPI_Allgather collects in rounds.",
        allgather_rounds_bytes_max: u64 = collectives.allgather_rounds_bytes_max, "AM_ALLGATHER_ROUNDS_BYTES_MAX";
    "Largest communicator, in tasks, in which MPI_Alltoall sends each block directly to its task. Larger ones use rounds if the result is short (alltoall_rounds_bytes_max).",
        alltoall_linear_tasks_max: u32 = collectives.alltoall_linear_tasks_max, "AM_ALLTOALL_LINEAR_TASKS_MAX";
    "Largest result, in bytes, of an MPI_Alltoall that uses rounds.",
        alltoall_rounds_bytes_max: u64 = collectives.alltoall_rounds_bytes_max, "AM_ALLTOALL_ROUNDS_BYTES_MAX";
    "on: each MPI collective begins with an exchange in which all tasks compare call, root, operator, datatype and length. If they differ, all tasks get an error that names the difference; without the check such a program hangs or gets wrong data. auto: on in debug builds. All programs of a job need the same value.",
        check_collectives: Check = collectives.check, "AM_CHECK_COLLECTIVES";
    "on: a thread of each task that MPI_Init starts handles messages while the program computes without calling MPI (interrupt mode). Every MPI call then takes a lock, and wakes that thread if it sleeps. off: messages are handled by MPI calls only. For programs in C, Fortran and Python; a Rust program calls Environment::set_progress_thread instead.",
        progress_thread: bool = progress_thread, "AM_PROGRESS_THREAD";
    "on: each task writes to its standard error the settings at MPI_Init, each call and message, and a summary at MPI_Finalize.",
        debug: bool = debug, "AM_DEBUG";
}

/// Names of the settings that choose the algorithms of collectives.
pub const COLLECTIVE_SETTINGS: [&str; 13] = [
    "check_collectives",
    "collective_rounds_tasks_max",
    "collective_board",
    "collective_board_tasks_max",
    "broadcast_tree_bytes_max",
    "broadcast_piece_bytes",
    "reduce_tree_bytes_max",
    "reduce_piece_bytes",
    "allreduce_doubling_bytes_max",
    "allgather_linear_tasks_max",
    "allgather_rounds_bytes_max",
    "alltoall_linear_tasks_max",
    "alltoall_rounds_bytes_max",
];

/// The variables of LAM/MPI over VIA, and of MPICH over Portals.
const FOREIGN_NAMES: &[ForeignName<Settings>] = &[
    ForeignName {
        meaning: "length of the shortest message that is not eager: one byte more than this setting",
        own_value: |_, text| Ok(usize::parse(text)?.saturating_sub(1).to_string()),
        ..ForeignName::same("MPI_LONG_MSG", "eager_limit_bytes")
    },
    ForeignName::same("LAM_MPI_SSI_rpi_via_short", "eager_limit_bytes"),
    ForeignName {
        meaning: "size of one of three blocks of memory: a third of this setting",
        own_value: |_, text| {
            let bytes = u64::parse(text)?.checked_mul(3);
            Ok(bytes.ok_or("three times as much does not fit into 64 bits")?.to_string())
        },
        ..ForeignName::same("MPI_UNEX_BLOCK_SIZE", "early_arrival_bytes_max")
    },
    ForeignName::same("MPI_UNEX_MAX", "early_arrivals_max"),
    ForeignName::same("MPI_IRECV_MAX", "posted_receives_max"),
    ForeignName::same("MPI_LONG_MAX", "long_sends_max"),
    ForeignName {
        meaning: "on if set, whatever the value",
        own_value: |_, _| Ok("on".to_owned()),
        ..ForeignName::same("MPI_DEBUG", "debug")
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> Result<Settings, SettingError> {
        Settings::from_variables(|name| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn the_table_is_whole() {
        am_via_settings::check::<Settings>();
        assert!(COLLECTIVE_SETTINGS.iter().all(|name| Settings::default().value(name).is_some()));
    }

    #[test]
    fn each_foreign_name_changes_its_setting_and_no_other() {
        for foreign in FOREIGN_NAMES {
            let changed = read(&[(foreign.env, "7000")]).unwrap();
            for setting in Settings::SETTINGS {
                let is_same = setting.value(&changed) == setting.value(&Settings::default());
                assert_eq!(is_same, setting.name != foreign.own, "{}", foreign.env);
            }
        }
        assert_eq!(read(&[("MPI_UNEX_BLOCK_SIZE", "2m")]).unwrap().early_arrival_bytes_max, 6 << 20);
        assert_eq!(read(&[("MPI_LONG_MSG", "8064")]).unwrap().eager_limit_bytes, 8063);
        assert_eq!(read(&[("MPI_IRECV_MAX", "1024")]).unwrap().posted_receives_max, Some(1024));
        let both =
            [("LAM_MPI_SSI_rpi_via_short", "5"), ("MPI_LONG_MSG", "9"), ("AM_EAGER_LIMIT_BYTES", "1k")];
        assert_eq!(read(&both).unwrap().eager_limit_bytes, 1024);
        assert_eq!(read(&both[..2]).unwrap().eager_limit_bytes, 8);
    }

    #[test]
    fn a_value_that_makes_no_sense_is_refused_under_the_name_that_was_used() {
        for (env, value) in [
            ("LAM_MPI_SSI_rpi_via_short", "many"),
            ("MPI_UNEX_BLOCK_SIZE", "16777216t"),
            ("MPI_LONG_MAX", "-1"),
        ] {
            let text = read(&[(env, value)]).unwrap_err().to_string();
            assert!(text.contains(env) && text.contains(value), "{text}");
        }
    }
}
