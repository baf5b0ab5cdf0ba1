//! The groups of measurements: which tasks run where.

use std::num::NonZero;
use std::thread::available_parallelism;

use clap::ValueEnum;

use crate::libraries::{Library, Placement};

/// The measurements of one run of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Group {
    /// Two tasks, each on its own core: latency, streams, collectives, one-sided.
    Pair,
    /// Two tasks at MPI_THREAD_MULTIPLE, each on its own core: one and two pairs of threads.
    Threads,
    /// Two tasks on one core.
    OneCore,
    /// Two tasks without MPI: am-core's put and amsend, compared with UCX's where `ucx_perftest` is installed; MPI's latency beside amsend.
    Below,
    /// Two tasks on two hosts, which `tests/hosts/with 2` makes; compared with libfabric's own `fi_pingpong` where it is installed.
    Hosts,
    /// A task for each available core, at most 32: collectives, and messages to a neighbour. Not among the default groups.
    Cores,
    /// 2 tasks on all available cores, beside three programs that compute: short exchanges after short sleeps. Not among the default
    /// groups.
    Busy,
    /// 16 tasks on all available cores: collectives.
    Crowd,
    /// 2 tasks, each on its own core, and 4 tasks on all available cores: kernels with the communication of the NAS Parallel Benchmarks.
    Kernels,
    /// 4 tasks on 2 cores: accesses to a file in memory, compared also with pwrite and pread.
    Files,
    /// 128 tasks on all available cores: the first exchange among all.
    Connect,
    /// Bytes per task, in jobs of 2, 16 and 128 tasks.
    Memory,
    /// Start and end of a job of 2 and of 16 tasks.
    Start,
}

impl Group {
    /// The groups that run unless `--group` names others.
    pub(crate) const ALL: [Self; 10] = [
        Self::Pair,
        Self::Threads,
        Self::OneCore,
        Self::Below,
        Self::Crowd,
        Self::Kernels,
        Self::Files,
        Self::Connect,
        Self::Memory,
        Self::Start,
    ];

    /// The numbers of tasks with which the group runs.
    pub(crate) fn tasks(self) -> Vec<u32> {
        match self {
            Self::Pair | Self::Threads | Self::OneCore | Self::Below | Self::Hosts | Self::Busy => vec![2],
            Self::Cores => {
                let cores = available_parallelism().map_or(2, NonZero::get);
                vec![u32::try_from(cores).unwrap_or(u32::MAX).clamp(2, 32)]
            }
            Self::Crowd => vec![16],
            Self::Kernels => vec![2, 4],
            Self::Files => vec![4],
            Self::Connect => vec![128],
            Self::Memory => vec![2, 16, 128],
            Self::Start => vec![2, 16],
        }
    }

    /// Number of programs that compute beside a run.
    pub(crate) fn companions(self) -> u32 {
        if self == Self::Busy { 3 } else { 0 }
    }

    pub(crate) fn placement(self, tasks: u32) -> Placement {
        match self {
            Self::Kernels if tasks == 2 => Placement::Cores,
            Self::Pair | Self::Threads | Self::Below | Self::Cores => Placement::Cores,
            Self::OneCore => Placement::OneCore,
            Self::Hosts => Placement::Hosts,
            Self::Busy
            | Self::Crowd
            | Self::Kernels
            | Self::Files
            | Self::Connect
            | Self::Memory
            | Self::Start => Placement::Free,
        }
    }

    /// The group's name in the arguments of the C program.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Pair => "pair",
            Self::Threads => "threads",
            Self::OneCore => "one_core",
            Self::Below => "below",
            Self::Hosts => "hosts",
            Self::Cores => "cores",
            Self::Busy => "busy",
            Self::Crowd => "crowd",
            Self::Kernels => "kernels",
            Self::Files => "files",
            Self::Connect => "connect",
            Self::Memory => "memory",
            Self::Start => "start",
        }
    }

    /// Whether `library` has rows in this group.
    pub(crate) fn includes(self, library: &Library) -> bool {
        match self {
            Self::Below => library.is_ours(),
            Self::Hosts => library.runs_on_hosts(),
            _ => true,
        }
    }

    /// Whether the C program may measure the distance of the tasks' cores. For two hosts, it does so if they are namespaces of this
    /// machine.
    pub(crate) fn has_distance(self, tasks: u32) -> bool {
        match self {
            Self::Hosts => true,
            Self::Below | Self::Cores => false,
            _ => self.placement(tasks) == Placement::Cores,
        }
    }
}
