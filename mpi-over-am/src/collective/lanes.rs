//! Lanes: from each task of a communicator to each other one, some places in memory that the receiver has exposed, and a counter
//! of the receiver's that the sender bumps when it has put something there.
//!
//! All tasks call their collectives in the same order, so what arrives on a lane arrives in the order in which it is asked for:
//! nothing has to be matched, and there is no request. A put of up to eight bytes is one packet with its counter; longer ones are
//! stored where they belong, and a notice follows. The receiver copies them out, for a place may be written by whoever knows its
//! address, and tells its sender when half of the places are free again: a sender that is ahead by all of them waits.
//!
//! A lane that two tasks disagree about, because they are in different collectives, or in one with different roots or lengths,
//! says so: each place begins with the number and the length of what lies in it, and what it belongs to. A notice without data has
//! no place: it writes the like into one word before all places. Its sender does not wait until that is read; what lies there is what
//! it has said last, which tells something as long as it waits. What differs so much that a task goes by messages, or waits for a
//! third one, is found out by [`disagreement`](super::disagreement).

use std::cell::Cell;

use am_core::buffer::{Access, Exposed, RawBuffer, RemoteAddress};
use am_core::counter::{Counter, CounterName};
use am_core::fabric::Fabric;
use am_core::{Context, PutOptions};

use super::disagreement::{By, Own, Watch};
use super::{Series, slices, tags};
use crate::buffer::{self, RecvData, SendData};
use crate::communicator::Communicator;
use crate::error::{Error, Result};
use crate::handlers::MpiHandlers;
use crate::policy::{Field, LockPolicy};
use crate::remote::{ADDRESS_WORDS, from_words, to_words};
use crate::settings::Selection;
use crate::state::State;

/// Places of a lane.
const PLACES: u64 = 8;
/// After so many the receiver tells that they are free again.
const TOLD_AFTER: u64 = PLACES / 2;
/// Bytes of what a place begins with, and of the word of notices.
const HEAD_BYTES: usize = 8;
/// Bytes of the shortest data that are copied out at once.
const WORD_BYTES: usize = 8;
/// Head and data up to this length travel with their counter.
const INLINE_BYTES: usize = 16;
/// Head and data up to this length are put at once.
const TOGETHER_BYTES: usize = 512;
/// Bytes that are copied out at a time.
const CHUNK_BYTES: usize = 1024;
/// Collectives of a communicator before it gets its lanes: many are made for a few only.
const CALLS_BEFORE: u32 = 4;
/// The number of the first collective that has lanes: nothing in fresh memory has it.
const FIRST_NUMBER: u32 = 1;
/// Bits of a length: a place has at most 2^20 bytes.
const LEN_BITS: u32 = 21;
/// Bits of a root.
const ROOT_BITS: u32 = 8;
/// The collectives that go by lanes, by the number that tells them apart.
const NAMES: [&str; 8] = [
    "another collective",
    "MPI_Bcast",
    "MPI_Reduce",
    "MPI_Allreduce",
    "MPI_Allgather",
    "MPI_Scan",
    "MPI_Exscan",
    "MPI_Barrier",
];
/// The number of the broadcast.
pub(super) const BROADCAST: u64 = 1;

/// Which collective data belong to, and its root, where the head of a place has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mark(u64);

/// Bits of what a mark says.
pub(super) const MARK_BITS: u32 = 32 - LEN_BITS;

impl Mark {
    /// One that nothing is known of.
    const OTHER: Self = Self(0);

    /// What [`bits`](Self::bits) gave.
    pub(super) fn from_bits(bits: u32) -> Self {
        Self(u64::from(bits) << LEN_BITS)
    }

    /// The mark alone, [`MARK_BITS`] long.
    pub(super) fn bits(self) -> u32 {
        (self.0 >> LEN_BITS & ((1 << MARK_BITS) - 1)) as u32
    }

    /// Of a collective by its number, and of its root (modulo 256).
    #[inline(always)]
    pub(super) fn new(collective: u64, root: u32) -> Self {
        Self((collective << ROOT_BITS | u64::from(root) & 0xFF) << LEN_BITS)
    }

    fn of_head(head: u64) -> Self {
        Self(head & ((1 << 32) - (1 << LEN_BITS)))
    }

    /// The longest data, in bytes, of which such a collective goes by puts among so many tasks.
    #[inline]
    pub(super) fn put_bytes_max(self, selection: &Selection, tasks: u32) -> u64 {
        if self.0 >> (LEN_BITS + ROOT_BITS) == BROADCAST {
            selection.broadcast_put_bytes(tasks)
        } else {
            selection.puts_bytes_max
        }
    }

    /// The collective's.
    pub(super) fn name(self) -> &'static str {
        NAMES.get((self.0 >> (LEN_BITS + ROOT_BITS)) as usize).copied().unwrap_or(NAMES[0])
    }

    /// Modulo 256; 0 where there is none.
    pub(super) fn root(self) -> u32 {
        ((self.0 >> LEN_BITS) & 0xFF) as u32
    }
}

/// What tasks tell each other: an address and two counters.
const TOLD_WORDS: usize = ADDRESS_WORDS + 1;

/// The lanes of a communicator, if it has any.
#[derive(Debug)]
pub(crate) enum LanesOf {
    /// Not yet: so many collectives so far.
    After(u32),
    /// It has.
    Ready(Box<Lanes>),
    /// A call has taken them out ([`TakenLanes`]).
    Taken,
    /// It gets none.
    None,
}

impl Default for LanesOf {
    fn default() -> Self {
        Self::After(0)
    }
}

impl LanesOf {
    /// Gives memory and counters back, when nobody will name them any more: now, or before the next lanes are made.
    pub(crate) fn close<F: Fabric>(self, state: &mut State<F>) {
        if let Self::Ready(lanes) = self {
            state.former_lanes.push(*lanes);
            close_former(state);
        }
    }

    /// The lanes of a collective that was chosen because they are there.
    pub(super) fn lanes(&mut self) -> &mut Lanes {
        match self {
            Self::Ready(lanes) => lanes,
            Self::After(_) | Self::Taken | Self::None => {
                unreachable!("a collective goes by puts where there are lanes")
            }
        }
    }
}

/// The lanes of a communicator that a call has taken out while it waits. They come back when this is dropped.
#[derive(Debug)]
pub(super) struct TakenLanes<'a, L: LockPolicy> {
    field: &'a L::Field<LanesOf>,
    pub(super) lanes: LanesOf,
}

impl<'a, L: LockPolicy> TakenLanes<'a, L> {
    /// # Errors
    /// [`Error::Nested`]: another collective of this communicator has them.
    #[inline]
    pub(super) fn take(field: &'a L::Field<LanesOf>) -> Result<Self> {
        match field.replace(LanesOf::Taken) {
            LanesOf::Taken => Err(Error::Nested),
            lanes => Ok(Self { field, lanes }),
        }
    }
}

impl<L: LockPolicy> Drop for TakenLanes<'_, L> {
    #[inline]
    fn drop(&mut self) {
        self.field.set(std::mem::replace(&mut self.lanes, LanesOf::None));
    }
}

/// The lanes of a communicator: by rank, to and from that task.
#[derive(Debug)]
pub(crate) struct Lanes {
    memory: Exposed,
    place_bytes: u64,
    lanes: Box<[Lane]>,
    /// Collectives that wait since the lanes are there: in all tasks alike.
    number: u32,
    /// The bumps of this context's counters when nothing was here that had not been taken.
    empty_at: Cell<u64>,
}

/// Both lanes between this task and another one.
#[derive(Debug)]
struct Lane {
    /// This task's word of notices there, and its places behind it.
    there: RemoteAddress,
    /// The other one's counter of what this task has put there.
    arrived_there: Option<CounterName>,
    /// Bumped when the other one has emptied another [`TOLD_AFTER`] places.
    emptied: Counter,
    /// Places that this task has filled so far.
    filled: u64,
    /// Bumped when the other one has put something here.
    arrived: Counter,
    /// Of that, what this task has taken.
    taken: u64,
    /// Places that this task has emptied so far.
    used: u64,
    /// The other one's counter of emptied places.
    emptied_there: Option<CounterName>,
}

/// Closes the lanes of former communicators of which every task has told all that it had to tell.
fn close_former<F: Fabric>(state: &mut State<F>) {
    for lanes in std::mem::take(&mut state.former_lanes) {
        if lanes.lanes.iter().all(|lane| has_reached(&state.context, lane.emptied, lane.filled / TOLD_AFTER))
        {
            lanes.close(state);
        } else {
            state.former_lanes.push(lanes);
        }
    }
}

impl Lanes {
    fn close<F: Fabric>(self, state: &mut State<F>) {
        for lane in &self.lanes {
            state.context.remove_counter(lane.emptied);
            state.context.remove_counter(lane.arrived);
        }
        // If it fails the memory stays exposed, which does nobody harm.
        let _ = state.context.unexpose(self.memory);
    }

    /// Puts elements where a task will look for them. Their memory is free when this returns.
    ///
    /// # Errors
    /// What progress reports.
    #[inline]
    pub(super) fn send<F: Fabric, L: LockPolicy>(
        &mut self,
        communicator: &Communicator<F, L>,
        state: &mut State<F>,
        (data, to): (&SendData, u32),
        mark: Mark,
    ) -> Result<()> {
        let lane = &self.lanes[to as usize];
        let options = PutOptions { target: lane.arrived_there, ..PutOptions::default() };
        let len = data.packed_len();
        if len == 0 {
            let notice = notice_of(self.number, mark).to_le_bytes();
            return Ok(state.context.put(lane.there, &notice, options)?);
        }
        let (emptied, filled) = (lane.emptied, lane.filled);
        if filled >= PLACES {
            let enough = (filled - PLACES) / TOLD_AFTER + 1;
            self.wait_for(communicator, state, (emptied, enough), mark)?;
        }
        let lane = &mut self.lanes[to as usize];
        let place = lane.there.plus(HEAD_BYTES as u64 + filled % PLACES * self.place_bytes);
        let head = head_of((filled, self.number), mark, len).to_le_bytes();
        lane.filled += 1;
        let parts = (place, head);
        // Two lengths: clearing the room for the longer one would take longer than a word takes to be sent.
        if len <= (INLINE_BYTES - HEAD_BYTES) as u64 {
            put_together::<INLINE_BYTES, F>(state, parts, data, options)
        } else if len <= (TOGETHER_BYTES - HEAD_BYTES) as u64 {
            put_together::<TOGETHER_BYTES, F>(state, parts, data, options)
        } else {
            put_apart(state, parts, data, options)
        }
    }

    /// Waits for the next elements from a task.
    ///
    /// # Errors
    /// A part of another collective, or another number of bytes; what progress reports.
    #[inline]
    pub(super) fn receive<F: Fabric, L: LockPolicy>(
        &mut self,
        communicator: &Communicator<F, L>,
        state: &mut State<F>,
        (data, from): (&RecvData, u32),
        mark: Mark,
    ) -> Result<()> {
        let Lane { arrived, taken, used, .. } = self.lanes[from as usize];
        self.wait_for(communicator, state, (arrived, taken + 1), mark)?;
        let lane = &mut self.lanes[from as usize];
        lane.taken += 1;
        let expected = data.packed_len();
        let place = place_of(from, used, self.place_bytes);
        let right = head_of((used, self.number), mark, expected);
        if expected == 0 {
            return self.check_notice(from, mark, (place, right));
        }
        let head = self.memory.load_u64(place)?;
        if head != right {
            return Err(self.other_part(head, from, right));
        }
        lane.used += 1;
        let from = place + HEAD_BYTES as u64;
        match data.as_buffer() {
            Some(word) if word.len() == WORD_BYTES => {
                word.fill_from(&self.memory.load_u64(from)?.to_ne_bytes());
            }
            buffer => copy_out(&self.memory, from, data, buffer)?,
        }
        if lane.used.is_multiple_of(TOLD_AFTER) {
            let options = PutOptions { target: lane.emptied_there, ..PutOptions::default() };
            state.context.put(lane.there, &[], options)?;
        }
        Ok(())
    }

    /// Who has put something here for the collective with this number, and what it belongs to, where that is not `known`.
    pub(super) fn put_of<F: Fabric>(
        &self,
        context: &Context<F, MpiHandlers>,
        number: u32,
        known: Option<Mark>,
    ) -> Option<(u32, Mark)> {
        let bumps = context.counter_bumps();
        if self.empty_at.get() == bumps { None } else { self.look_for_put(context, (number, known), bumps) }
    }

    #[inline(never)]
    fn look_for_put<F: Fabric>(
        &self,
        context: &Context<F, MpiHandlers>,
        (number, known): (u32, Option<Mark>),
        bumps: u64,
    ) -> Option<(u32, Mark)> {
        let mut is_empty = true;
        for (lane, from) in self.lanes.iter().zip(0..) {
            if !has_reached(context, lane.arrived, lane.taken + 1) {
                continue;
            }
            is_empty = false;
            let head = self.memory.load_u64(place_of(from, lane.used, self.place_bytes)).ok();
            let of_place = head.filter(|head| head >> 32 == place_and_number(lane.used, number));
            let mark = of_place.map(Mark::of_head).or_else(|| self.notice_from(from, number));
            if mark.is_some() && mark != known {
                return mark.map(|mark| (from, mark));
            }
        }
        if is_empty {
            self.empty_at.set(bumps);
        }
        None
    }

    /// What the last notice from a task belongs to, if it was one of the collective with this number.
    fn notice_from(&self, from: u32, number: u32) -> Option<Mark> {
        let notice = self.memory.load_u64(block_of(from, self.place_bytes)).ok()?;
        (notice >> 32 == u64::from(number)).then(|| Mark::of_head(notice))
    }

    /// Whether what has come without data is a notice of this collective. Where the last one is of another, that says nothing.
    #[inline]
    fn check_notice(&self, from: u32, mark: Mark, (place, right): (u64, u64)) -> Result<()> {
        if self.notice_from(from, self.number) == Some(mark) {
            return Ok(());
        }
        let head = self.memory.load_u64(place)?;
        let is_data = head >> 32 == right >> 32;
        if is_data || self.notice_from(from, self.number).is_some() {
            return Err(self.other_part(head, from, right));
        }
        Ok(())
    }

    /// Waits until a counter has a value.
    ///
    /// # Errors
    /// What is wrong with the collective; what progress reports.
    #[inline(always)]
    fn wait_for<F: Fabric, L: LockPolicy>(
        &self,
        communicator: &Communicator<F, L>,
        state: &mut State<F>,
        (counter, value): (Counter, u64),
        mark: Mark,
    ) -> Result<()> {
        let own = Own { number: self.number, mark, by: By::Puts };
        let (mut watch, mut mistake) = (Watch::default(), None);
        state.wait_for(|context| {
            has_reached(context, counter, value) || {
                mistake = communicator.find_mistake(context, Some(self), own, &mut watch);
                mistake.is_some()
            }
        })?;
        mistake.map_or(Ok(()), |mistake| Err(communicator.error_of(mistake, own, &state.selection)))
    }

    /// What is wrong with what has come from a rank, whose place begins with `head`.
    #[cold]
    fn other_part(&self, head: u64, source_rank: u32, right: u64) -> Error {
        let [(theirs, given), (mark, expected)] =
            [head, right].map(|head| (Mark::of_head(head), head & ((1 << LEN_BITS) - 1)));
        // A place that was not filled this time: its sender counts no byte.
        let (theirs, given) = if head >> 48 == right >> 48 {
            (theirs, given)
        } else {
            (self.notice_from(source_rank, self.number).unwrap_or(mark), 0)
        };
        let is_other = given != 0 && head >> 32 != right >> 32;
        if theirs != mark || is_other {
            let theirs = if theirs == mark { Mark::OTHER } else { theirs };
            return mismatched((source_rank, theirs), mark);
        }
        if given > expected {
            let tag = tags::WITHOUT_LANES;
            return Error::Truncated { source_rank, tag, sent: given, room: expected };
        }
        let [given, expected] = [given, expected].map(|bytes| usize::try_from(bytes).unwrap_or(usize::MAX));
        let call = "a collective got a part from a task that counts otherwise, in bytes";
        Error::Count { call, given, expected }
    }
}

/// Says that a task is in another collective than this one.
#[cold]
pub(super) fn mismatched((source_rank, theirs): (u32, Mark), ours: Mark) -> Error {
    Error::Mismatched {
        source_rank,
        theirs: theirs.name(),
        their_root: theirs.root(),
        ours: ours.name(),
        our_root: ours.root(),
    }
}

#[inline(always)]
fn has_reached<F: Fabric>(context: &Context<F, MpiHandlers>, counter: Counter, number: u64) -> bool {
    context.counter_value(counter).is_ok_and(|value| value >= number)
}

/// What lies in a place: its number on the lane and that of the collective, modulo 2^16 each, what it belongs to, and its length.
#[inline(always)]
fn head_of((on_lane, number): (u64, u32), mark: Mark, len: u64) -> u64 {
    place_and_number(on_lane, number) << 32 | mark.0 | len
}

/// The upper half of it.
#[inline(always)]
fn place_and_number(on_lane: u64, number: u32) -> u64 {
    (on_lane & 0xFFFF) << 16 | u64::from(number & 0xFFFF)
}

/// What a notice says: the number of the collective, and what it is.
#[inline(always)]
fn notice_of(number: u32, mark: Mark) -> u64 {
    u64::from(number) << 32 | mark.0
}

/// Where what a task has for this one begins: the word of its notices, and the places.
#[inline(always)]
fn block_of(from: u32, place_bytes: u64) -> u64 {
    u64::from(from) * block_bytes(place_bytes)
}

#[inline(always)]
fn block_bytes(place_bytes: u64) -> u64 {
    HEAD_BYTES as u64 + PLACES * place_bytes
}

/// Where the place lies that a task fills when it has filled so many.
#[inline(always)]
fn place_of(from: u32, filled: u64, place_bytes: u64) -> u64 {
    block_of(from, place_bytes) + HEAD_BYTES as u64 + filled % PLACES * place_bytes
}

/// Head and data in one put, of at most `ROOM` bytes.
#[inline(always)]
fn put_together<const ROOM: usize, F: Fabric>(
    state: &mut State<F>,
    (place, head): (RemoteAddress, [u8; HEAD_BYTES]),
    data: &SendData,
    options: PutOptions,
) -> Result<()> {
    let mut together = [0; ROOM];
    let len = match data.as_bytes() {
        Some(bytes) => {
            bytes.copy_to(&mut together[HEAD_BYTES..HEAD_BYTES + bytes.len()]);
            bytes.len()
        }
        None => data.pack(0, &mut together[HEAD_BYTES..]),
    };
    together[..HEAD_BYTES].copy_from_slice(&head);
    Ok(state.context.put(place, &together[..HEAD_BYTES + len], options)?)
}

/// Head and data, one after the other.
fn put_apart<F: Fabric>(
    state: &mut State<F>,
    (place, head): (RemoteAddress, [u8; HEAD_BYTES]),
    data: &SendData,
    options: PutOptions,
) -> Result<()> {
    state.context.put(place, &head, PutOptions::default())?;
    let place = place.plus(HEAD_BYTES as u64);
    match data.as_bytes() {
        Some(bytes) => buffer::with_slice(bytes, |bytes| Ok(state.context.put(place, bytes, options)?)),
        None => {
            let len = usize::try_from(data.packed_len());
            let mut bytes = vec![0; len.map_err(|_| Error::TooLarge { call: "a collective" })?];
            data.pack(0, &mut bytes);
            Ok(state.context.put(place, &bytes, options)?)
        }
    }
}

fn copy_out(memory: &Exposed, place: u64, data: &RecvData, buffer: Option<RawBuffer>) -> Result<()> {
    let mut chunk = [0; CHUNK_BYTES];
    let len = usize::try_from(data.packed_len()).map_err(|_| Error::TooLarge { call: "a collective" })?;
    for offset in (0..len).step_by(CHUNK_BYTES) {
        let bytes = &mut chunk[..CHUNK_BYTES.min(len - offset)];
        memory.read(place + offset as u64, bytes)?;
        match buffer.as_ref().and_then(|buffer| buffer.part(offset, bytes.len())) {
            Some(part) => part.fill_from(bytes),
            None => data.unpack(offset as u64, bytes),
        };
    }
    Ok(())
}

impl<F: Fabric, L: LockPolicy> Communicator<F, L> {
    /// Counts one more collective that waits, and makes the lanes when it is their time; its number since then, if there are any.
    /// Collective: all tasks count alike.
    ///
    /// # Errors
    /// What progress reports while the tasks tell each other of their lanes.
    #[inline]
    pub(super) fn prepare_lanes(&self) -> Result<Option<u32>> {
        let prepared = self.lanes().with(|lanes| match lanes {
            LanesOf::Ready(lanes) => {
                lanes.number = lanes.number.wrapping_add(1);
                Ok(Ok(Some(lanes.number)))
            }
            LanesOf::None => Ok(Ok(None)),
            LanesOf::Taken => Ok(Err(Error::Nested)),
            &mut LanesOf::After(calls) => Err(calls),
        });
        prepared.unwrap_or_else(|calls| self.prepare_lanes_after(calls + 1))
    }

    #[cold]
    #[inline(never)]
    fn prepare_lanes_after(&self, calls: u32) -> Result<Option<u32>> {
        let selection = self.state()?.selection;
        let made = if self.is_inter() || self.size() < 2 || self.size() > selection.puts_tasks_max {
            LanesOf::None
        } else if calls < CALLS_BEFORE {
            LanesOf::After(calls)
        } else {
            // Should telling fail, nobody tries again.
            self.lanes().set(LanesOf::None);
            self.make_lanes(selection.broadcast_put_bytes(self.size()))?
                .map_or(LanesOf::None, |lanes| LanesOf::Ready(Box::new(lanes)))
        };
        let number = if let LanesOf::Ready(lanes) = &made { Some(lanes.number) } else { None };
        self.lanes().set(made);
        Ok(number)
    }

    /// Makes the lanes, and tells the other tasks; none if a task cannot, or has several threads that take turns: then its
    /// collectives are schedules, which go by messages.
    fn make_lanes(&self, bytes_max: u64) -> Result<Option<Lanes>> {
        let mut state = self.state()?;
        close_former(&mut state);
        if L::takes_turns() {
            drop(state);
            self.exchange_nothing((TOLD_WORDS * size_of::<u64>()) as u64)?;
            return Ok(None);
        }
        let own = own_lanes(&mut state, self.size(), bytes_max);
        drop(state);
        // Words of no meaning say that there are none.
        let out: Vec<[u64; TOLD_WORDS]> = match &own {
            Some(own) => (0..self.size()).map(|rank| own.told_to(rank)).collect(),
            None => vec![[0; TOLD_WORDS]; self.size() as usize],
        };
        let mut told = vec![[0; TOLD_WORDS]; out.len()];
        self.scope(|s| s.wait(slices::alltoall(&out, &mut told).start_of(Series::Lanes, s)?))?;
        let Some(mut own) = own else { return Ok(None) };
        if told.iter().any(|words| words[ADDRESS_WORDS] == 0) {
            own.close(&mut *self.state()?);
            return Ok(None);
        }
        for (lane, &[first, second, third, counters]) in own.lanes.iter_mut().zip(&told) {
            lane.there = from_words([first, second, third]);
            lane.arrived_there = CounterName::from_wire((counters & 0xFFFF_FFFF) as u32);
            lane.emptied_there = CounterName::from_wire((counters >> 32) as u32);
        }
        Ok(Some(own))
    }
}

/// This task's ends of all lanes; `None` if there is no memory, or no counter, for them.
fn own_lanes<F: Fabric>(state: &mut State<F>, tasks: u32, bytes_max: u64) -> Option<Lanes> {
    let place_bytes = bytes_max.checked_next_multiple_of(8)? + HEAD_BYTES as u64;
    let len = usize::try_from(block_bytes(place_bytes).checked_mul(tasks.into())?).ok()?;
    let memory = state.context.alloc(len).ok()?;
    let memory = state.context.expose(memory, Access::WRITE).ok()?;
    let mut lanes =
        Lanes { memory, place_bytes, lanes: Box::default(), number: FIRST_NUMBER, empty_at: Cell::new(0) };
    let mut made = Vec::with_capacity(tasks as usize);
    for _ in 0..tasks {
        let (Ok(emptied), Ok(arrived)) = (state.context.counter(), state.context.counter()) else {
            lanes.lanes = made.into_boxed_slice();
            lanes.close(state);
            return None;
        };
        // Until the others have told theirs.
        let there = lanes.memory.address(0);
        let (arrived_there, emptied_there) = (None, None);
        let (filled, taken, used) = (0, 0, 0);
        made.push(Lane { there, arrived_there, emptied, filled, arrived, taken, used, emptied_there });
    }
    lanes.lanes = made.into_boxed_slice();
    Some(lanes)
}

impl Lanes {
    /// What a task has to know: where its word and its places are, and by which counters it tells and is told.
    fn told_to(&self, rank: u32) -> [u64; TOLD_WORDS] {
        let lane = &self.lanes[rank as usize];
        let place = self.memory.address(block_of(rank, self.place_bytes));
        let [first, second, third] = to_words(place);
        let names = [lane.arrived, lane.emptied].map(|counter| CounterName::to_wire(Some(counter.name())));
        [first, second, third, u64::from(names[0]) | u64::from(names[1]) << 32]
    }
}
