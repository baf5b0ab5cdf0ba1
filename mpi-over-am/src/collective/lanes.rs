//! How a collective uses its [lanes](crate::lanes), and how they are made.
use am_core::PutOptions;
use am_core::buffer::{Access, Exposed, RawBuffer, RemoteAddress};
use am_core::counter::{Counter, CounterName};
use am_core::fabric::Fabric;

use super::{Series, slices};
use crate::buffer::{self, RecvData, SendData};
use crate::communicator::Communicator;
use crate::error::{Error, Result};
use crate::lanes::{Lane, Lanes, LanesOf, PLACES, TOLD_AFTER, close_former, has_reached};
use crate::policy::{Field, LockPolicy};
use crate::remote::{ADDRESS_WORDS, from_words, to_words};
use crate::state::State;

/// Bytes of the length that a place begins with.
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
/// What tasks tell each other: an address and two counters.
const TOLD_WORDS: usize = ADDRESS_WORDS + 1;

impl Lanes {
    /// Puts elements where a task will look for them. Their memory is free when this returns.
    ///
    /// # Errors
    /// What progress reports.
    #[inline]
    pub(super) fn send<F: Fabric>(&mut self, state: &mut State<F>, data: &SendData, to: u32) -> Result<()> {
        let lane = &mut self.lanes[to as usize];
        let options = PutOptions { target: lane.arrived_there, ..PutOptions::default() };
        let len = data.packed_len();
        if len == 0 {
            return Ok(state.context.put(lane.there, &[], options)?);
        }
        if lane.filled >= PLACES {
            wait_for(state, lane.emptied, (lane.filled - PLACES) / TOLD_AFTER + 1)?;
        }
        let place = lane.there.plus(lane.filled % PLACES * self.place_bytes);
        lane.filled += 1;
        let parts = (place, len.to_le_bytes());
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
    /// Another number of bytes; what progress reports.
    #[inline]
    pub(super) fn receive<F: Fabric>(
        &mut self,
        state: &mut State<F>,
        data: &RecvData,
        from: u32,
    ) -> Result<()> {
        let lane = &mut self.lanes[from as usize];
        wait_for(state, lane.arrived, lane.taken + 1)?;
        lane.taken += 1;
        let expected = data.packed_len();
        if expected == 0 {
            return Ok(());
        }
        let place = place_of(from, lane.used, self.place_bytes);
        let sent = self.memory.load_u64(place)?;
        if sent != expected {
            return Err(other_length(from, sent, expected));
        }
        lane.used += 1;
        let at = place + HEAD_BYTES as u64;
        match data.as_buffer() {
            Some(word) if word.len() == WORD_BYTES => {
                word.fill_from(&self.memory.load_u64(at)?.to_ne_bytes());
            }
            buffer => copy_out(&self.memory, at, data, buffer)?,
        }
        if lane.used.is_multiple_of(TOLD_AFTER) {
            let options = PutOptions { target: lane.emptied_there, ..PutOptions::default() };
            state.context.put(lane.there, &[], options)?;
        }
        Ok(())
    }
}

/// Waits until a counter has a value.
#[inline(always)]
fn wait_for<F: Fabric>(state: &mut State<F>, counter: Counter, value: u64) -> Result<()> {
    state.wait_for(|context| has_reached(context, counter, value))
}

#[cold]
fn other_length(source_rank: u32, sent: u64, expected: u64) -> Error {
    if sent > expected {
        return Error::Truncated { source_rank, tag: 0, sent, room: expected };
    }
    let [given, expected] = [sent, expected].map(|bytes| usize::try_from(bytes).unwrap_or(usize::MAX));
    Error::Count {
        call: "a collective got a part from a task that counts otherwise, in bytes",
        given,
        expected,
    }
}

/// Where the places begin that a task has here.
#[inline(always)]
fn block_of(from: u32, place_bytes: u64) -> u64 {
    u64::from(from) * block_bytes(place_bytes)
}

#[inline(always)]
fn block_bytes(place_bytes: u64) -> u64 {
    PLACES * place_bytes
}

/// Where the place lies that a task fills when it has filled so many.
#[inline(always)]
fn place_of(from: u32, filled: u64, place_bytes: u64) -> u64 {
    block_of(from, place_bytes) + filled % PLACES * place_bytes
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
    /// Counts one more collective that may go by puts, and makes the lanes when it is their time; whether there are any. Collective: all
    /// tasks count alike.
    ///
    /// # Errors
    /// What progress reports while the tasks tell each other of their lanes.
    #[inline]
    pub(super) fn prepare_lanes(&self) -> Result<bool> {
        let prepared = self.lanes().with(|lanes| match lanes {
            LanesOf::Ready(_) => Ok(Ok(true)),
            LanesOf::None => Ok(Ok(false)),
            LanesOf::Taken => Ok(Err(Error::Nested)),
            &mut LanesOf::After(calls) => Err(calls),
        });
        prepared.unwrap_or_else(|calls| self.prepare_lanes_after(calls + 1))
    }

    #[cold]
    #[inline(never)]
    fn prepare_lanes_after(&self, calls: u32) -> Result<bool> {
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
        let is_ready = matches!(made, LanesOf::Ready(_));
        self.lanes().set(made);
        Ok(is_ready)
    }

    /// Makes the lanes, and tells the other tasks; none if a task cannot, or has several threads that take turns: then its
    /// collectives are schedules, which go by messages.
    fn make_lanes(&self, bytes_max: u64) -> Result<Option<Lanes>> {
        let mut state = self.state()?;
        let State { former_lanes, context, .. } = &mut *state;
        close_former(former_lanes, context);
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
            own.close(&mut self.state()?.context);
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
    let mut lanes = Lanes { memory, place_bytes, lanes: Box::default() };
    let mut made = Vec::with_capacity(tasks as usize);
    for _ in 0..tasks {
        let (Ok(emptied), Ok(arrived)) = (state.context.counter(), state.context.counter()) else {
            lanes.lanes = made.into_boxed_slice();
            lanes.close(&mut state.context);
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
