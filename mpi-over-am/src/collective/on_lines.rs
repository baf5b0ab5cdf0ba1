//! Collectives on a board with lines: a task writes its data to the board once, and the tasks that need the data read them there.
//!
//! Broadcasts and allgathers are faster than by messages because a task writes once what all others read. Gathers and short alltoalls are
//! faster because no task waits for credits, or copies its data to the ring of each peer. Data longer than a task's area on the board take
//! several steps; as the board has several slots, a root writes a piece while the other tasks read earlier pieces. Reductions and long
//! alltoalls were slower this way than by messages (docs/design/not-kept.md), and so were gathers to a root that changes with each call:
//! with messages, the tasks that are not the root send and go on. So a gather uses messages if its root is not that of the last gather.

use am_core::fabric::Fabric;

use super::plan::BoardPlan;
use super::{Collective, Parts, Plan, as_bytes};
use crate::communicator::Communicator;
use crate::data::buffer::{RecvData, SendData};
use crate::error::{Error, Result};
use crate::message::board::{LINES_TASKS_MAX, Lines};
use crate::message::request_table::Awaited;
use crate::message::state::State;
use crate::policy::LockPolicy;
use mpi_datatype::{Datatype, Predefined};

/// Minimum number of tasks for which gathers and short broadcasts use lines.
const MANY_TASKS: u32 = 8;
/// Maximum bytes of a broadcast by messages: among many tasks, and among few.
const BROADCAST_BY_MESSAGES_MAX: [u64; 2] = [256, 4096];
/// Maximum bytes of a task's part of a gather or allgather.
const PART_BYTES_MAX: u64 = 256 << 10;
/// Number of looks at the lines before a task also handles messages.
const LOOKS: u32 = 200;

/// Whether a collective among `size` tasks is to use lines, if there are any. The answer is the same on all tasks.
pub(super) fn serve(collective: &Collective, rank: u32, size: u32) -> bool {
    match collective {
        Collective::Broadcast { data, .. } => serve_broadcast(data.packed_len(), size),
        Collective::Gather { is_equal: true, send, recv, .. } => {
            let own = send.as_ref().map(SendData::packed_len);
            let len = own.or_else(|| recv.as_ref().map(|recv| recv.of(rank).packed_len()));
            len.is_some_and(|len| serve_gather(len, size))
        }
        Collective::Allgather { recv: recv @ Parts::Equal { .. }, .. } => {
            serve_parts(recv.of(rank).packed_len(), size)
        }
        Collective::Alltoall { send: None | Some(Parts::Equal { .. }), recv: Parts::Equal { all, .. } } => {
            let len = all.packed_len();
            serve_parts(len, size) && len <= Lines::area_bytes(size) as u64
        }
        _ => false,
    }
}

/// Whether a broadcast of `len` bytes among `size` tasks is to use lines, if there are any.
#[inline(always)]
pub(super) fn serve_broadcast(len: u64, size: u32) -> bool {
    size > 2 && size <= LINES_TASKS_MAX && len > BROADCAST_BY_MESSAGES_MAX[usize::from(size < MANY_TASKS)]
}

/// Whether a gather of parts of `len` bytes among `size` tasks is to use lines, if there are any.
#[inline(always)]
pub(super) fn serve_gather(len: u64, size: u32) -> bool {
    size >= MANY_TASKS && serve_parts(len, size)
}

fn serve_parts(len: u64, size: u32) -> bool {
    (3..=LINES_TASKS_MAX).contains(&size) && (1..=PART_BYTES_MAX).contains(&len)
}

/// Carries out a collective for which [`serve`] is true.
pub(super) fn perform(collective: &Collective, plan: &mut impl BoardPlan) -> Result<()> {
    let mut task = OnLines { plan };
    match collective {
        Collective::Broadcast { data, root } => task.broadcast(data, *root),
        Collective::Gather { send, recv, root, .. } => {
            let is_root = task.plan.rank() == *root;
            task.collect(send.as_ref(), recv.as_ref().filter(|_| is_root), is_root)
        }
        Collective::Allgather { send, recv } => task.collect(send.as_ref(), Some(recv), false),
        Collective::Alltoall { send, recv: Parts::Equal { all, .. } } => {
            let out = match send {
                Some(Parts::Equal { all, .. }) => all.clone(),
                _ => all.as_send(),
            };
            task.exchange(&out, all)
        }
        _ => Err(Error::Protocol { peer: 0, what: "a collective that has no lines" }),
    }
}

/// One task's part in a collective on lines.
struct OnLines<'p, P> {
    plan: &'p mut P,
}

impl<P: BoardPlan> OnLines<'_, P> {
    fn area(&self) -> u64 {
        Lines::area_bytes(self.plan.size()) as u64
    }

    /// All ranks, beginning after this one, so that the tasks do not all read the same area at a time.
    fn ranks(&self) -> impl Iterator<Item = u32> + use<P> {
        let (rank, size) = (self.plan.rank(), self.plan.size());
        (1..=size).map(move |distance| (rank + distance) % size)
    }

    /// Copies the data of rank `root` to all other tasks.
    fn broadcast(&mut self, data: &RecvData, root: u32) -> Result<()> {
        let len = data.packed_len();
        let is_root = self.plan.rank() == root;
        // All tasks have the same number of bytes, but not necessarily the same types, so pieces are cut by bytes.
        let apart = if len > self.area() { self.packed_apart(data, is_root)? } else { None };
        let whole = if len > self.area() { as_packed(data, apart.as_ref()) } else { data.clone() };
        for (at, piece_len) in pieces(len, self.area()) {
            let piece =
                if len > self.area() { whole.part(at.cast_signed(), piece_len) } else { whole.clone() };
            if is_root {
                self.plan.enter(Some(&piece.as_send()))?;
            } else {
                self.plan.enter(None)?;
                self.plan.await_entries(Awaited::Rank(root))?;
                self.plan.read_lines(std::iter::once((root, piece_len, 0, piece)))?;
            }
        }
        match &apart {
            Some(packed) if !is_root => unpack(self.plan, packed, data),
            _ => Ok(()),
        }
    }

    /// Copies each task's part to the tasks that have `into`: all tasks, or only a root. `is_only_root`: only a root has `into`, and this
    /// task is the root, so no task reads its part from the board.
    fn collect(
        &mut self,
        own: Option<&SendData>,
        into: Option<&Parts<RecvData>>,
        is_only_root: bool,
    ) -> Result<()> {
        let rank = self.plan.rank();
        let own_part = into.map(|into| into.of(rank));
        let Some(source) = own.cloned().or_else(|| own_part.as_ref().map(RecvData::as_send)) else {
            return Ok(());
        };
        if let (Some(own), Some(to)) = (own, &own_part) {
            self.plan.copy(own, to)?;
        }
        let (len, area) = (source.packed_len(), self.area());
        let is_long = len > area;
        let source = if is_long && !is_only_root { self.packed(&source)? } else { source };
        let all = match into {
            Some(Parts::Equal { all, .. }) if is_long => Some((all, self.packed_apart(all, false)?)),
            _ => None,
        };
        for (at, piece_len) in pieces(len, area) {
            if is_only_root {
                self.plan.enter(None)?;
            } else {
                let piece = if is_long { source.part(at.cast_signed(), piece_len) } else { source.clone() };
                self.plan.enter(Some(&piece))?;
            }
            let Some(into) = into else { continue };
            self.plan.await_entries(Awaited::All)?;
            let others = self.ranks().filter(|&from| from != rank);
            let part = |from: u32| match &all {
                Some((all, apart)) => {
                    let first = u64::from(from) * len + at;
                    as_packed(all, apart.as_ref()).part(first.cast_signed(), piece_len)
                }
                None => into.of(from),
            };
            self.plan.read_lines(others.map(|from| (from, piece_len, 0, part(from))))?;
        }
        if let (Some((_, Some(packed))), Some(into)) = (&all, into) {
            for from in self.ranks().filter(|&from| from != rank) {
                let part = packed.part((u64::from(from) * len).cast_signed(), len);
                unpack(self.plan, &part, &into.of(from))?;
            }
        }
        Ok(())
    }

    /// Sends each task its part of `out`, and receives a part of `into` from each. `out` and `into` may be the same memory.
    fn exchange(&mut self, out: &SendData, into: &RecvData) -> Result<()> {
        let size = u64::from(self.plan.size());
        let len = into.packed_len();
        self.plan.enter(Some(out))?;
        self.plan.await_entries(Awaited::All)?;
        let count = into.count() / size;
        let own = len / size * u64::from(self.plan.rank());
        let part = |from: u32| into.part((u64::from(from) * count).cast_signed(), count);
        self.plan.read_lines(self.ranks().map(|from| (from, len, own, part(from))))
    }

    /// Data as bytes, packed if they are not contiguous.
    fn packed(&mut self, data: &SendData) -> Result<SendData> {
        if let Some(bytes) = data.as_bytes() {
            return Ok(SendData::from_bytes(bytes));
        }
        let packed = self.plan.scratch(data.packed_len(), &Datatype::predefined(Predefined::Byte))?;
        self.plan.copy(data, &packed)?;
        Ok(packed.as_send())
    }

    /// Memory for the packed bytes of `data`, which are copied there if `is_filled`. `None` if the data are contiguous.
    fn packed_apart(&mut self, data: &RecvData, is_filled: bool) -> Result<Option<RecvData>> {
        if as_bytes(data).is_some() {
            return Ok(None);
        }
        let packed = self.plan.scratch(data.packed_len(), &Datatype::predefined(Predefined::Byte))?;
        if is_filled {
            self.plan.copy(&data.as_send(), &packed)?;
        }
        Ok(Some(packed))
    }
}

/// The bytes of `data`: in `apart` if it is given, otherwise in `data` itself, which must then be contiguous.
fn as_packed(data: &RecvData, apart: Option<&RecvData>) -> RecvData {
    apart.cloned().or_else(|| as_bytes(data)).unwrap_or_else(|| data.clone())
}

fn unpack(plan: &mut impl Plan, packed: &RecvData, to: &RecvData) -> Result<()> {
    plan.copy(&packed.as_send(), to)
}

/// The pieces of `len` units, of at most `step` each: where each begins, and its length.
fn pieces(len: u64, step: u64) -> impl Iterator<Item = (u64, u64)> {
    let step = step.max(1);
    (0..len.div_ceil(step)).map(move |number| (number * step, step.min(len - number * step)))
}

/// Waits until this task may write data in its next step.
pub(super) fn wait_to_write<F: Fabric, L: LockPolicy>(communicator: &Communicator<F, L>) -> Result<()> {
    let mut state = communicator.state()?;
    let State { context, schedules, .. } = &mut *state;
    let lines = schedules.boards.lines(communicator.board())?;
    let Some(step) = lines.before_writing() else { return Ok(()) };
    // One look at a later step: if all tasks have entered that step already, the next steps of this task need no look.
    let later = (step + 3).min(lines.step());
    if lines.have_entered(context, (Awaited::All, later), 1, false)? {
        lines.saw_all(later);
        return Ok(());
    }
    drop(state);
    wait_until(communicator, Awaited::All, Some(step))
}

/// Waits until the awaited tasks have entered the present step.
pub(super) fn wait_for<F: Fabric, L: LockPolicy>(
    communicator: &Communicator<F, L>,
    awaited: Awaited,
) -> Result<()> {
    wait_until(communicator, awaited, None)
}

/// Waits until the awaited tasks have entered a step. `None`: the present step.
fn wait_until<F: Fabric, L: LockPolicy>(
    communicator: &Communicator<F, L>,
    awaited: Awaited,
    step: Option<u64>,
) -> Result<()> {
    let mut state = communicator.state()?;
    let State { context, schedules, .. } = &mut *state;
    let lines = schedules.boards.lines(communicator.board())?;
    let step = step.unwrap_or(lines.step());
    if !lines.have_entered(context, (awaited, step), LOOKS, false)? {
        let position = *lines;
        drop(state);
        communicator.sleep_at_board(|context, may_sleep| {
            position.have_entered(context, (awaited, step), 1, may_sleep)
        })?;
        state = communicator.state()?;
    }
    if awaited == Awaited::All {
        state.schedules.boards.lines(communicator.board())?.saw_all(step);
    }
    Ok(())
}
