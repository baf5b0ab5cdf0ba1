//! Partitioned communication (MPI 5.0 chapter 4): a message whose partitions are marked ready one by one, and arrive one by one.
//!
//! Each partition of the sender is a separate message, so that it is in flight while the program still fills others. When a partitioned
//! send is initialised, it sends a description of the partitions, with the program's tag: their number, their length and their tags. All
//! these messages belong to a message space of their own, where descriptions match the receives in the order of the calls. The receiver may
//! divide the data differently: a partition of the receiver has arrived when all overlapping partitions of the sender have.

use am_core::fabric::Fabric;

use crate::communicator::Communicator;
use crate::context_id::Space;
use crate::data::buffer::{KeptVec, RecvData, SendData, buffer_to_keep, bytes_to_keep};
use crate::error::{Error, Result};
use crate::matching::{Envelope, Pattern};
use crate::message::progress::has_arrived;
use crate::message::protocol;
use crate::message::request_id::RequestId;
use crate::message::request_table::{Channel, Parts, Phase, Receiving, Recipe, Sending};
use crate::message::route::{Mode, Receive, ReceiveBuffer, Route};
use crate::message::state::State;
use crate::message::status::Status;
use crate::policy::LockPolicy;
use crate::rank::{PROC_NULL, Source};

impl<F: Fabric, L: LockPolicy> Communicator<F, L> {
    /// A partitioned send (`MPI_Psend_init`). `data` covers all partitions, which have `count` elements each. [Start](Self::start) it for
    /// each round; a round is over when all partitions have been marked by [`pready`](Self::pready) and sent.
    ///
    /// # Errors
    /// Those of the typed sends; [`Error::Count`]: `data` has another number of elements.
    pub fn psend_init_data(
        &self,
        data: &SendData,
        (partitions, count): (u64, u64),
        dest: u32,
        tag: i32,
    ) -> Result<RequestId> {
        self.init_psend(data, (partitions, count), dest, tag).map(|id| self.numbered(id))
    }

    /// [`psend_init_data`](Self::psend_init_data), for a typed object.
    pub(super) fn init_psend(
        &self,
        data: &SendData,
        (partitions, count): (u64, u64),
        dest: u32,
        tag: i32,
    ) -> Result<RequestId> {
        check_count("psend_init", data.count(), partitions, count)?;
        if dest == PROC_NULL {
            let recipe = Recipe::Nobody { status: Status::EMPTY };
            return Ok(self.state()?.handlers().requests.insert_persistent(false, recipe));
        }
        let route = self.route(Space::Partitioned, dest, tag)?;
        let mut state = self.state()?;
        let partition_len = data.datatype().packed_len(count)?;
        let channel = Channel { first_tag: state.take_partition_tags(partitions), partitions, partition_len };
        let sending = Sending {
            route: with_tag(route, tag),
            channel,
            count,
            data: data.clone(),
            ready: Vec::new(),
            under_way: Vec::new(),
            failure: None,
        };
        let word = channel.to_bytes();
        let bytes = bytes_to_keep(self, &word);
        let meeting = protocol::start_send(&mut state, Mode::Standard, &with_tag(route, tag), bytes)?;
        let requests = &mut state.handlers().requests;
        requests.keep(meeting, KeptVec::new(word));
        requests.detach(meeting);
        let request = requests.insert_persistent(false, Recipe::Parts);
        requests.put_parts(request, Box::new(Parts::Send(sending)));
        Ok(request)
    }

    /// A partitioned receive (`MPI_Precv_init`). `data` covers all partitions, which have `count` elements each, and must have as many
    /// bytes as the sender's data. The sender may divide its data differently.
    ///
    /// # Errors
    /// Those of the typed receives; [`Error::Count`]: `data` has another number of elements.
    pub fn precv_init_data(
        &self,
        data: &RecvData,
        (partitions, count): (u64, u64),
        source: u32,
        tag: i32,
    ) -> Result<RequestId> {
        self.init_precv(data, (partitions, count), source, tag).map(|id| self.numbered(id))
    }

    /// [`precv_init_data`](Self::precv_init_data), for a typed object.
    pub(super) fn init_precv(
        &self,
        data: &RecvData,
        (partitions, count): (u64, u64),
        source: u32,
        tag: i32,
    ) -> Result<RequestId> {
        check_count("precv_init", data.count(), partitions, count)?;
        if source == PROC_NULL {
            let recipe = Recipe::Nobody { status: Status::OF_PROC_NULL };
            return Ok(self.state()?.handlers().requests.insert_persistent(true, recipe));
        }
        let pattern = self.pattern(Space::Partitioned, Source::Rank(source), tag.into())?;
        let mut state = self.state()?;
        let mut word = vec![0u8; Channel::BYTES];
        let buffer = ReceiveBuffer::Bytes(buffer_to_keep(self, &mut word));
        let meeting = Pattern::new(pattern.context_id(), Some(source), Some(tag));
        let meeting = protocol::start_receive(&mut state, Receive { pattern: meeting, buffer });
        let requests = &mut state.handlers().requests;
        requests.keep(meeting, KeptVec::new(word));
        requests.hold(meeting);
        let request = requests.insert_persistent(true, Recipe::Parts);
        let receiving = Receiving {
            pattern,
            status: Status::new(source, tag, data.packed_len()),
            data: data.clone(),
            partitions,
            meeting: Some(meeting),
            channel: None,
            under_way: Vec::new(),
            is_posted: false,
            failure: None,
        };
        state.handlers().requests.put_parts(request, Box::new(Parts::Receive(receiving)));
        Ok(request)
    }

    /// Marks a partition of a started send as ready: the partition is sent (`MPI_Pready`).
    ///
    /// # Errors
    /// [`Error::Partition`]: no such partition, a partition that is already ready, or a request that is not a partitioned send under way;
    /// those of a send.
    pub fn pready(&self, request: RequestId, partition: u64) -> Result<()> {
        let mut state = self.state()?;
        state.handlers().requests.check(request)?;
        pready(&mut *state, request, partition)
    }

    /// Marks the partitions `first` to `last`, both included, as ready (`MPI_Pready_range`).
    ///
    /// # Errors
    /// Those of [`pready`](Self::pready).
    pub fn pready_range(&self, request: RequestId, first: u64, last: u64) -> Result<()> {
        (first..=last).try_for_each(|partition| self.pready(request, partition))
    }

    /// Makes progress; returns whether a partition of a receive has arrived (`MPI_Parrived`). If no round is under way, every partition
    /// counts as arrived.
    ///
    /// # Errors
    /// [`Error::Partition`]: no such partition, or a request that is not a partitioned receive; an error while making progress.
    pub fn parrived(&self, request: RequestId, partition: u64) -> Result<bool> {
        let mut state = self.state()?;
        state.handlers().requests.check(request)?;
        parrived(&mut *state, request, partition)
    }
}

/// See [`Communicator::pready`].
///
/// # Errors
/// Those of [`Communicator::pready`].
pub(super) fn pready<F: Fabric>(state: &mut State<F>, request: RequestId, partition: u64) -> Result<()> {
    let is_under_way = state.handlers().requests.phase(request) == Phase::Parts;
    let refused =
        |what, partitions| Err(Error::Partition { request: request.number(), partition, partitions, what });
    let Some(Parts::Send(sending)) = state.handlers().requests.parts_mut(request) else {
        // The partitions of a send to `PROC_NULL` need no work.
        let is_to_proc_null = state.handlers().requests.is_to_proc_null(request);
        return if is_to_proc_null { Ok(()) } else { refused("the request is not a partitioned send", 0) };
    };
    let partitions = sending.channel.partitions;
    let index = usize::try_from(partition).unwrap_or(usize::MAX);
    match sending.ready.get(index) {
        _ if !is_under_way => return refused("the request was not started: start it first", partitions),
        None => return refused("there is no such partition", partitions),
        Some(true) => return refused("it is already marked as ready", partitions),
        Some(false) => {}
    }
    let route = with_tag(sending.route, sending.channel.tag(partition));
    let first = (partition * sending.count).cast_signed();
    let part = sending.data.part(first, sending.count);
    let sent = protocol::start_send_data(state, Mode::Standard, &route, &part)?;
    state.handlers().requests.hold(sent);
    if let Some(Parts::Send(sending)) = state.handlers().requests.parts_mut(request) {
        sending.ready[index] = true;
        sending.under_way.push(sent);
    }
    Ok(())
}

/// See [`Communicator::parrived`].
///
/// # Errors
/// Those of [`Communicator::parrived`].
pub(super) fn parrived<F: Fabric>(state: &mut State<F>, request: RequestId, partition: u64) -> Result<bool> {
    state.take_in()?;
    let refused =
        |what, partitions| Err(Error::Partition { request: request.number(), partition, partitions, what });
    let is_from_proc_null = state.handlers().requests.is_to_proc_null(request);
    match state.handlers().requests.parts(request) {
        Some(Parts::Receive(receiving)) if partition >= receiving.partitions => {
            refused("there is no such partition", receiving.partitions)
        }
        Some(Parts::Receive(_)) => Ok(has_arrived(&mut state.context, request, partition)),
        _ if is_from_proc_null => Ok(true),
        _ => refused("the request is not a partitioned receive", 0),
    }
}

fn check_count(call: &'static str, elements: u64, partitions: u64, count: u64) -> Result<()> {
    if partitions.checked_mul(count) == Some(elements) {
        return Ok(());
    }
    Err(Error::count(call, elements, partitions.saturating_mul(count)))
}

fn with_tag(route: Route, tag: i32) -> Route {
    Route { envelope: Envelope::new(route.envelope.context_id(), route.envelope.source(), tag), ..route }
}

/// Number of elements of each partition, if `len` elements are divided equally.
///
/// # Errors
/// [`Error::Count`]: the elements cannot be divided equally.
pub(super) fn part_len(call: &'static str, len: usize, partitions: usize) -> Result<usize> {
    let count = len.checked_div(partitions).unwrap_or(0);
    if count * partitions == len {
        Ok(count)
    } else {
        Err(Error::Count { call, given: len, expected: count * partitions })
    }
}
