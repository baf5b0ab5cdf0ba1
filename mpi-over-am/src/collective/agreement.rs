//! Checks that all tasks of a communicator (of each group of an inter-communicator) are about to carry out the same collective, if the
//! setting `check_collectives` asks for it.
//!
//! The tasks describe to each other what they are about to do, in an exchange that is the same for every collective, and compare the
//! descriptions. All tasks compare the same table, so either all continue or all return the same error. Differences that a correct program
//! may have are allowed: in the lengths, in calls where each rank has its own; between types with the same basic elements; between bytes
//! and any type.
//!
//! The exchange makes every collective wait for all tasks. Correct programs allow for this: any collective may synchronize its tasks (MPI
//! 5.0 section 6.14).

use std::collections::BTreeMap;
use std::fmt::Write;

use mpi_datatype::op::PredefinedOp;
use mpi_datatype::{Datatype, Predefined};

use super::Plan;
use super::call::Collective;
use super::parts::Parts;
use crate::data::buffer::{RecvData, SendData};
use crate::data::op::Combine;
use crate::error::{Difference, Error, Result};

/// A task's description of its collective.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    /// The index of the collective's name in [`NAMES`].
    call: u64,
    root: u64,
    /// The index in [`PredefinedOp::ALL`], or [`USER`] or [`USER_ORDERED`].
    operator: u64,
    /// The number of bytes, if it must be the same at all tasks.
    bytes: u64,
    /// The number of the elements' basic type, if all elements have the same basic type.
    basic: u64,
}

/// Not known, and not compared.
const ANY: u64 = u64::MAX;
/// A user-defined operation that commutes. The number is above all indices in [`PredefinedOp::ALL`].
const USER: u64 = 100;
/// A user-defined operation that does not commute.
const USER_ORDERED: u64 = 101;
const BYTES: usize = size_of::<[u64; 5]>();

const NAMES: [&str; 14] = [
    "MPI_Barrier",
    "MPI_Bcast",
    "MPI_Gather or MPI_Gatherv",
    "MPI_Scatter or MPI_Scatterv",
    "MPI_Allgather or MPI_Allgatherv",
    "MPI_Alltoall, MPI_Alltoallv or MPI_Alltoallw",
    "MPI_Reduce",
    "MPI_Allreduce",
    "MPI_Reduce_scatter_block",
    "MPI_Reduce_scatter",
    "MPI_Scan",
    "MPI_Exscan",
    "MPI_Neighbor_allgather or MPI_Neighbor_allgatherv",
    "MPI_Neighbor_alltoall, MPI_Neighbor_alltoallv or MPI_Neighbor_alltoallw",
];

/// The name of a collective in a task's record. If a C program made the call, the record shows the collective inside the C function.
#[cold]
pub(super) fn name_in_record(collective: &Collective) -> &'static str {
    let call = usize::try_from(Entry::of(collective, None, false).call).unwrap_or(NAMES.len());
    let name = NAMES.get(call).map_or("collective", |names| names.trim_start_matches("MPI_"));
    name.split([' ', ',']).next().unwrap_or(name)
}

/// Exchanges the descriptions among the tasks of the local group, and compares them.
///
/// # Errors
/// [`Error::Mismatched`]; the errors of the exchange.
pub(super) fn agree<P: Plan>(plan: &mut P, collective: &Collective, op: Option<&dyn Combine>) -> Result<()> {
    let entry = Entry::of(collective, op, plan.is_inter());
    plan.among_own(|plan: &mut P| {
        let (rank, size) = (plan.rank(), plan.size());
        if size == 1 {
            return Ok(());
        }
        let (bytes, each) = (Datatype::predefined(Predefined::Byte), BYTES as u64);
        let all = plan.scratch(u64::from(size) * each, &bytes)?;
        all.part((u64::from(rank) * each).cast_signed(), each).unpack(0, &entry.to_bytes());
        let table = Parts::Equal { all: all.clone(), count: each };
        Collective::Allgather { send: None, recv: table }.perform(plan)?;
        plan.examine(&all.as_send(), compare)
    })
}

impl Entry {
    fn of(collective: &Collective, op: Option<&dyn Combine>, is_inter: bool) -> Self {
        let nothing = (ANY, ANY);
        let (call, root, (bytes, basic)) = match collective {
            Collective::Barrier => (0, ANY, nothing),
            Collective::Broadcast { data, root } => (1, u64::from(*root), of_received(data)),
            Collective::Gather { root, .. } => (2, u64::from(*root), nothing),
            Collective::Scatter { root, .. } => (3, u64::from(*root), nothing),
            Collective::Allgather { recv, .. } => (4, ANY, of_block(recv)),
            Collective::Alltoall { recv, .. } => (5, ANY, of_block(recv)),
            Collective::Reduce { send, recv, root, .. } => {
                let elements = recv.as_ref().map(of_received);
                (6, u64::from(*root), send.as_ref().map(of_sent).or(elements).unwrap_or(nothing))
            }
            Collective::Allreduce { recv, .. } => (7, ANY, of_received(recv)),
            Collective::ReduceScatterBlock { recv, count, .. } => {
                (8, ANY, of_elements(*count, recv.datatype()))
            }
            Collective::ReduceScatter { recv, counts, .. } => {
                (9, ANY, of_elements(counts.iter().sum(), recv.datatype()))
            }
            Collective::Scan { recv, .. } => (10, ANY, of_received(recv)),
            Collective::ExclusiveScan { recv, .. } => (11, ANY, of_received(recv)),
            Collective::NeighbourAllgather { .. } => (12, ANY, nothing),
            Collective::NeighbourAlltoall { .. } => (13, ANY, nothing),
        };
        let operator = op.map_or(ANY, number_of);
        if is_inter {
            // In the root's group, the other tasks pass no rank as root, and only one of the two groups may have the data.
            return Self { call, root: ANY, operator, bytes: ANY, basic: ANY };
        }
        Self { call, root, operator, bytes, basic }
    }

    fn words(self) -> [u64; 5] {
        [self.call, self.root, self.operator, self.bytes, self.basic]
    }

    fn to_bytes(self) -> [u8; BYTES] {
        let mut bytes = [0; BYTES];
        bytes.copy_from_slice(bytemuck::bytes_of(&self.words()));
        bytes
    }

    fn from_bytes(bytes: &[u8]) -> Self {
        let [call, root, operator, bytes, basic] = bytemuck::pod_read_unaligned(bytes);
        Self { call, root, operator, bytes, basic }
    }

    /// A readable description of the task's call.
    fn describe(self) -> String {
        let name = |names: &[&'static str], number: u64| {
            usize::try_from(number).ok().and_then(|number| names.get(number).copied()).unwrap_or("unknown")
        };
        let mut text = name(&NAMES, self.call).to_owned();
        let mut say = |what: std::fmt::Arguments<'_>| {
            // Writing to a string does not fail.
            let _ = text.write_fmt(what);
        };
        if self.bytes != ANY {
            say(format_args!(" of {} bytes", self.bytes));
        }
        let basic = Predefined::ALL.iter().find(|&&basic| number_of_basic(basic) == self.basic);
        if let Some(basic) = basic.filter(|_| self.basic != ANY) {
            say(format_args!(" of {}", basic.name()));
        }
        match self.operator {
            ANY => {}
            USER | USER_ORDERED => say(format_args!(" with a user-defined operator")),
            number => say(format_args!(" with {}", name(&PredefinedOp::ALL.map(PredefinedOp::name), number))),
        }
        if self.root != ANY {
            say(format_args!(", root {}", self.root));
        }
        text
    }
}

fn number_of(op: &dyn Combine) -> u64 {
    let known = op.predefined().and_then(|op| PredefinedOp::ALL.iter().position(|known| *known == op));
    known.map_or(if op.is_commutative() { USER } else { USER_ORDERED }, |number| number as u64)
}

/// Bytes match any type: programs may use them for any data.
fn number_of_basic(basic: Predefined) -> u64 {
    match basic {
        Predefined::Byte | Predefined::Packed => ANY,
        basic => basic as u64,
    }
}

fn of_elements(count: u64, datatype: &Datatype) -> (u64, u64) {
    (count.saturating_mul(datatype.size()), datatype.basic().map_or(ANY, number_of_basic))
}

fn of_sent(data: &SendData) -> (u64, u64) {
    of_elements(data.count(), data.datatype())
}

fn of_received(data: &RecvData) -> (u64, u64) {
    of_elements(data.count(), data.datatype())
}

fn of_block(parts: &Parts<RecvData>) -> (u64, u64) {
    match parts {
        Parts::Equal { all, count } => of_elements(*count, all.datatype()),
        Parts::Listed(_) => (ANY, ANY),
    }
}

/// Compares the descriptions of all tasks.
///
/// # Errors
/// [`Error::Mismatched`].
fn compare(table: &[u8]) -> Result<()> {
    let entries: Vec<Entry> = table.chunks_exact(BYTES).map(Entry::from_bytes).collect();
    let differences =
        [Difference::Call, Difference::Root, Difference::Operator, Difference::Length, Difference::Datatype];
    for (field, difference) in differences.into_iter().enumerate() {
        let mut said = entries.iter().map(|entry| entry.words()[field]).filter(|&value| value != ANY);
        if let Some(first) = said.next()
            && said.any(|other| other != first)
        {
            return Err(Error::Mismatched { difference, calls: describe(&entries).into() });
        }
    }
    Ok(())
}

/// Describes which tasks are in which collective.
fn describe(entries: &[Entry]) -> String {
    /// Maximum number of ranks listed for each collective.
    const RANKS_MAX: usize = 8;
    let mut ranks: BTreeMap<Entry, Vec<usize>> = BTreeMap::new();
    for (rank, entry) in entries.iter().enumerate() {
        ranks.entry(*entry).or_default().push(rank);
    }
    let of_entry = |(entry, ranks): (&Entry, &Vec<usize>)| {
        let named: Vec<String> = ranks.iter().take(RANKS_MAX).map(usize::to_string).collect();
        let more = match ranks.len().saturating_sub(RANKS_MAX) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let rank = if ranks.len() == 1 { "rank" } else { "ranks" };
        format!("{rank} {}{more} in {}", named.join(", "), entry.describe())
    };
    let mut in_order: Vec<_> = ranks.iter().collect();
    in_order.sort_by_key(|(_, ranks)| ranks.first());
    in_order.into_iter().map(of_entry).collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALLREDUCE: Entry =
        Entry { call: 7, root: ANY, operator: 2, bytes: 32, basic: Predefined::Int as u64 };

    fn compared<const N: usize>(entries: [Entry; N]) -> Option<(Difference, String)> {
        match compare(&entries.map(Entry::to_bytes).concat()) {
            Ok(()) => None,
            Err(Error::Mismatched { difference, calls }) => Some((difference, calls.into())),
            Err(error) => panic!("{error}"),
        }
    }

    #[test]
    fn what_differs_is_named_with_all_ranks() {
        assert_eq!(compared([ALLREDUCE; 3]), None);
        let barrier = Entry { call: 0, root: ANY, operator: ANY, bytes: ANY, basic: ANY };
        let (difference, calls) = compared([ALLREDUCE, barrier, ALLREDUCE]).unwrap();
        assert_eq!(difference, Difference::Call);
        assert_eq!(
            calls,
            "ranks 0, 2 in MPI_Allreduce of 32 bytes of MPI_INT with MPI_SUM; rank 1 in MPI_Barrier"
        );
        let differing = [
            (Entry { root: 1, ..ALLREDUCE }, Entry { root: 0, ..ALLREDUCE }, Difference::Root),
            (ALLREDUCE, Entry { operator: USER, ..ALLREDUCE }, Difference::Operator),
            (ALLREDUCE, Entry { bytes: 8, ..ALLREDUCE }, Difference::Length),
            (ALLREDUCE, Entry { basic: Predefined::Float as u64, ..ALLREDUCE }, Difference::Datatype),
        ];
        for (one, other, difference) in differing {
            assert_eq!(compared([one, other]).unwrap().0, difference);
        }
    }

    #[test]
    fn what_a_task_does_not_say_is_not_compared() {
        let silent = Entry { bytes: ANY, basic: ANY, ..ALLREDUCE };
        assert_eq!(compared([ALLREDUCE, silent, ALLREDUCE]), None);
        // A difference between two other tasks is still detected.
        assert!(compared([ALLREDUCE, silent, Entry { bytes: 8, ..ALLREDUCE }]).is_some());
    }

    #[test]
    fn many_ranks_are_counted() {
        let mut entries = [ALLREDUCE; 20];
        entries[19].operator = 0;
        let (_, calls) = compared(entries).unwrap();
        assert!(calls.contains("ranks 0, 1, 2, 3, 4, 5, 6, 7 and 11 more in"), "{calls}");
        assert!(calls.contains("rank 19 in MPI_Allreduce of 32 bytes of MPI_INT with MPI_MAX"), "{calls}");
    }
}
