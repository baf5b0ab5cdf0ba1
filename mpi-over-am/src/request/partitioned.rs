//! Partitioned communication (MPI 5.0 chapter 4): a message whose parts are marked ready one by one, and arrive one by one.
//!
//! Each partition of the sender is a message of its own, so that it travels while others are still being made. The two sides meet
//! once, at initialisation: the sender says, under the tag and in the order of its calls, with which tags its partitions will come,
//! in a message space that nobody else uses, how many there are and how long. The receiver's partitions may be other ones: one
//! has arrived when all of the sender's that it touches have.

use am_core::Context;
use am_core::fabric::Fabric;

use super::exchange::Exchange;
use super::id::RequestId;
use super::persistent::Recipe;
use super::phase::Phase;
use crate::buffer::{KeptVec, RecvData, SendData, buffer_to_keep, bytes_to_keep};
use crate::communicator::Communicator;
use crate::context_id::Space;
use crate::error::{Error, Result};
use crate::handlers::MpiHandlers;
use crate::matching::{Envelope, Pattern};
use crate::policy::LockPolicy;
use crate::protocol::{self, Mode, Receive, Room, Route};
use crate::rank::{PROC_NULL, Source};
use crate::state::{State, is_over};
use crate::status::Status;

/// Tags of partitions are below 0: those under which the two sides meet, in the same message space, are the program's.
const PARTITION: i32 = i32::MIN;

/// Both sides of partitioned operations.
#[derive(Debug)]
pub(crate) enum Partitioned {
    Send(Sending),
    Receive(Receiving),
    /// Not partitioned: over when these operations are, which others wait for.
    Others(Vec<RequestId>),
    /// Not partitioned either: a send and a receive as one.
    Exchange(Exchange),
}

/// The sender's side.
#[derive(Debug)]
pub(crate) struct Sending {
    route: Route,
    channel: Channel,
    count: u64,
    data: SendData,
    ready: Vec<bool>,
    under_way: Vec<RequestId>,
    failure: Option<Error>,
}

/// The receiver's side.
#[derive(Debug)]
pub(crate) struct Receiving {
    pattern: Pattern,
    status: Status,
    data: RecvData,
    partitions: u64,
    /// The receive of the sender's word, until it is there.
    meeting: Option<RequestId>,
    channel: Option<Channel>,
    /// The sender's partitions of this round; `None` once arrived.
    under_way: Vec<Option<RequestId>>,
    is_posted: bool,
    failure: Option<Error>,
}

/// What the sender tells the receiver.
#[derive(Clone, Copy, Debug)]
struct Channel {
    first_tag: i32,
    partitions: u64,
    partition_len: u64,
}

impl Channel {
    const BYTES: usize = 24;

    fn to_bytes(self) -> Vec<u8> {
        let tag = u64::from(self.first_tag.cast_unsigned());
        [tag, self.partitions, self.partition_len].iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    fn parse(bytes: &[u8]) -> Option<Self> {
        let (words, rest) = bytes.as_chunks::<8>();
        let &[tag, partitions, partition_len] = words else { return None };
        let first_tag = u32::try_from(u64::from_le_bytes(tag)).ok().filter(|_| rest.is_empty())?;
        Some(Self {
            first_tag: first_tag.cast_signed(),
            partitions: u64::from_le_bytes(partitions),
            partition_len: u64::from_le_bytes(partition_len),
        })
    }

    #[expect(clippy::cast_possible_truncation, reason = "tags go around")]
    fn tag(&self, partition: u64) -> i32 {
        self.first_tag.wrapping_add(partition as i32) | PARTITION
    }
}

impl<F: Fabric, L: LockPolicy> Communicator<F, L> {
    /// A send of `partitions` parts of `count` elements each (`MPI_Psend_init`). `data` are all of them. To be
    /// [started](Self::start) for each round; it is over when all parts were marked by [`pready`](Self::pready) and have gone.
    ///
    /// # Errors
    /// As the typed sends; [`Error::Count`]: `data` has another number of elements.
    pub fn psend_init_data(
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
        let bytes = bytes_to_keep(&word);
        let meeting = protocol::start_send(&mut state, Mode::Standard, &with_tag(route, tag), bytes)?;
        let requests = &mut state.handlers().requests;
        requests.keep(meeting, KeptVec::new(word));
        requests.detach(meeting);
        let request = requests.insert_persistent(false, Recipe::Parts);
        state.handlers().add_partitioned(request, Partitioned::Send(sending));
        Ok(request)
    }

    /// A receive of `partitions` parts of `count` elements each (`MPI_Precv_init`). `data` are all of them, and as many bytes as
    /// the sender has, who may divide them otherwise.
    ///
    /// # Errors
    /// As the typed receives; [`Error::Count`]: `data` has another number of elements.
    pub fn precv_init_data(
        &self,
        data: &RecvData,
        (partitions, count): (u64, u64),
        source: u32,
        tag: i32,
    ) -> Result<RequestId> {
        check_count("precv_init", data.count(), partitions, count)?;
        if source == PROC_NULL {
            let recipe = Recipe::Nobody { status: Status::OF_NOBODY };
            return Ok(self.state()?.handlers().requests.insert_persistent(true, recipe));
        }
        let pattern = self.pattern(Space::Partitioned, Source::Rank(source), tag.into())?;
        let mut state = self.state()?;
        let mut word = vec![0u8; Channel::BYTES];
        let room = Room::Bytes(buffer_to_keep(&mut word));
        let meeting = Pattern::new(pattern.context_id(), Some(source), Some(tag));
        let meeting = protocol::start_receive(&mut state, Receive { pattern: meeting, room });
        let requests = &mut state.handlers().requests;
        requests.keep(meeting, KeptVec::new(word));
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
        state.handlers().add_partitioned(request, Partitioned::Receive(receiving));
        Ok(request)
    }

    /// Marks a part of a partitioned send that was started as ready: it goes (`MPI_Pready`).
    ///
    /// # Errors
    /// [`Error::Partition`]: no such part, a part that is ready already, a request that is no partitioned send under way; as a
    /// send.
    pub fn pready(&self, request: RequestId, partition: u64) -> Result<()> {
        pready(&mut *self.state()?, request, partition)
    }

    /// Marks the parts `first` to `last`, both included (`MPI_Pready_range`).
    ///
    /// # Errors
    /// As for [`pready`](Self::pready).
    pub fn pready_range(&self, request: RequestId, first: u64, last: u64) -> Result<()> {
        (first..=last).try_for_each(|partition| self.pready(request, partition))
    }

    /// Marks these parts (`MPI_Pready_list`).
    ///
    /// # Errors
    /// As for [`pready`](Self::pready).
    pub fn pready_list(&self, request: RequestId, partitions: &[u64]) -> Result<()> {
        partitions.iter().try_for_each(|&partition| self.pready(request, partition))
    }

    /// Makes progress; whether a part of a partitioned receive has arrived (`MPI_Parrived`). All have where no round is under way.
    ///
    /// # Errors
    /// [`Error::Partition`]: no such part, a request that is no partitioned receive; what progress reports.
    pub fn parrived(&self, request: RequestId, partition: u64) -> Result<bool> {
        parrived(&mut *self.state()?, request, partition)
    }
}

/// See [`Communicator::pready`].
///
/// # Errors
/// As there.
pub(super) fn pready<F: Fabric>(state: &mut State<F>, request: RequestId, partition: u64) -> Result<()> {
    state.handlers().requests.check(request)?;
    let is_under_way = state.handlers().requests.phase(request) == Phase::Parts;
    let refused =
        |what, partitions| Err(Error::Partition { request: request.number(), partition, partitions, what });
    let Some(Partitioned::Send(sending)) = state.handlers().partitioned.get_mut(&request.number()) else {
        // A send to nobody has its partitions too, and there is nothing to be done for them.
        let is_to_nobody = state.handlers().requests.is_to_nobody(request);
        return if is_to_nobody { Ok(()) } else { refused("the request is no partitioned send", 0) };
    };
    let partitions = sending.channel.partitions;
    let index = usize::try_from(partition).unwrap_or(usize::MAX);
    match sending.ready.get(index) {
        _ if !is_under_way => return refused("the request was not started", partitions),
        None => return refused("there is no such partition", partitions),
        Some(true) => return refused("it was marked before", partitions),
        Some(false) => sending.ready[index] = true,
    }
    let route = with_tag(sending.route, sending.channel.tag(partition));
    let first = (partition * sending.count).cast_signed();
    let part = sending.data.part(first, sending.count);
    let sent = protocol::start_send_data(state, Mode::Standard, &route, &part)?;
    if let Some(Partitioned::Send(sending)) = state.handlers().partitioned.get_mut(&request.number()) {
        sending.under_way.push(sent);
    }
    Ok(())
}

/// See [`Communicator::parrived`].
///
/// # Errors
/// As there.
pub(super) fn parrived<F: Fabric>(state: &mut State<F>, request: RequestId, partition: u64) -> Result<bool> {
    state.handlers().requests.check(request)?;
    state.take_in()?;
    let refused =
        |what, partitions| Err(Error::Partition { request: request.number(), partition, partitions, what });
    let is_from_nobody = state.handlers().requests.is_to_nobody(request);
    match state.handlers().partitioned.get(&request.number()) {
        Some(Partitioned::Receive(receiving)) if partition >= receiving.partitions => {
            refused("there is no such partition", receiving.partitions)
        }
        Some(Partitioned::Receive(_)) => Ok(has_arrived(&mut state.context, request, partition)),
        _ if is_from_nobody => Ok(true),
        _ => refused("the request is no partitioned receive", 0),
    }
}

impl Receiving {
    /// Posts the receives of a round, once the sender has said what will come.
    fn post<F: Fabric>(&mut self, context: &mut Context<F, MpiHandlers>) {
        if let Some(meeting) = self.meeting.filter(|&meeting| is_over(context, meeting)) {
            self.meeting = None;
            self.channel = self.hear(context, meeting);
        }
        let Some(channel) = self.channel.filter(|_| !self.is_posted) else { return };
        self.is_posted = true;
        for partition in 0..channel.partitions {
            let tag = channel.tag(partition);
            let pattern = Pattern::new(self.pattern.context_id(), Some(self.status.source), Some(tag));
            let part =
                self.data.window(partition.saturating_mul(channel.partition_len), channel.partition_len);
            let request = context.handlers_mut().requests.insert(true);
            protocol::receive_window_as(context, pattern, part, request);
            self.under_way.push(Some(request));
        }
    }

    /// The sender's word.
    fn hear<F: Fabric>(
        &mut self,
        context: &mut Context<F, MpiHandlers>,
        meeting: RequestId,
    ) -> Option<Channel> {
        let (status, word) = match context.handlers_mut().requests.take_kept(meeting) {
            Ok((status, word)) => (status.map(|_| ()), word),
            Err(error) => (Err(error), None),
        };
        let channel = word.and_then(KeptVec::into_vec::<u8>).and_then(|word| Channel::parse(&word));
        let peer = self.status.source;
        let fits = channel.filter(|channel| {
            channel.partitions.checked_mul(channel.partition_len) == Some(self.data.packed_len())
        });
        self.failure = match (status, channel, fits) {
            (Err(error), _, _) => Some(error),
            (Ok(()), None, _) => Some(Error::Protocol { peer, what: "a partitioned send that says nothing" }),
            (Ok(()), Some(channel), None) => Some(Error::Truncated {
                source_rank: peer,
                tag: self.status.tag,
                sent: channel.partitions.saturating_mul(channel.partition_len),
                room: self.data.packed_len(),
            }),
            (Ok(()), Some(_), Some(_)) => None,
        };
        fits
    }

    fn has_arrived(&self, partition: u64) -> bool {
        let Some(channel) = self.channel.filter(|_| self.is_posted) else { return false };
        let len = self.data.packed_len() / self.partitions;
        if len == 0 || channel.partition_len == 0 {
            return self.under_way.iter().all(Option::is_none);
        }
        let first = partition * len / channel.partition_len;
        let last = ((partition + 1) * len - 1) / channel.partition_len;
        (first..=last).all(|of_sender| {
            let index = usize::try_from(of_sender).unwrap_or(usize::MAX);
            self.under_way.get(index).is_none_or(Option::is_none)
        })
    }

    fn collect<F: Fabric>(&mut self, context: &mut Context<F, MpiHandlers>) -> bool {
        let mut all = true;
        for part in &mut self.under_way {
            match *part {
                Some(request) if is_over(context, request) => {
                    *part = None;
                    if let Err(error) = context.handlers_mut().requests.take(request) {
                        self.failure.get_or_insert(error);
                    }
                }
                Some(_) => all = false,
                None => {}
            }
        }
        all && self.meeting.is_none() && (self.is_posted || self.failure.is_some())
    }
}

impl Sending {
    fn collect<F: Fabric>(&mut self, context: &mut Context<F, MpiHandlers>) -> bool {
        let failure = &mut self.failure;
        self.under_way.retain(|&request| {
            if !is_over(context, request) {
                return true;
            }
            if let Err(error) = context.handlers_mut().requests.take(request) {
                failure.get_or_insert(error);
            }
            false
        });
        self.under_way.is_empty() && self.ready.iter().all(|&ready| ready)
    }
}

/// Starts a round.
pub(super) fn start<F: Fabric>(state: &mut State<F>, request: RequestId) {
    state.handlers().requests.in_parts(request);
    match state.handlers().partitioned.get_mut(&request.number()) {
        Some(Partitioned::Send(sending)) => {
            sending.ready = vec![false; usize::try_from(sending.channel.partitions).unwrap_or(0)];
        }
        Some(Partitioned::Receive(receiving)) => {
            receiving.is_posted = false;
            receiving.under_way.clear();
        }
        Some(Partitioned::Others(_) | Partitioned::Exchange(_)) | None => {}
    }
    drive(&mut state.context, request);
    if !has_met(&mut state.context, request) {
        state.schedules.add_to_meet(request);
    }
}

/// Whether nothing keeps a round from being posted: the sender's word is here, or there is none to wait for.
pub(super) fn has_met<F: Fabric>(context: &mut Context<F, MpiHandlers>, request: RequestId) -> bool {
    let parts = context.handlers().partitioned.get(&request.number());
    let meeting = if let Some(Partitioned::Receive(receiving)) = parts { receiving.meeting } else { None };
    meeting.is_none_or(|meeting| is_over(context, meeting))
}

/// Whether a part of a partitioned receive has arrived: all have where no round is under way.
pub(crate) fn has_arrived<F: Fabric>(
    context: &mut Context<F, MpiHandlers>,
    request: RequestId,
    partition: u64,
) -> bool {
    let is_under_way =
        |context: &Context<F, MpiHandlers>| context.handlers().requests.phase(request) == Phase::Parts;
    if is_under_way(context) {
        drive(context, request);
    }
    match context.handlers().partitioned.get(&request.number()) {
        Some(Partitioned::Receive(receiving)) if is_under_way(context) => receiving.has_arrived(partition),
        _ => true,
    }
}

/// Looks how far a partitioned operation is.
#[cold]
#[inline(never)]
pub(crate) fn drive<F: Fabric>(context: &mut Context<F, MpiHandlers>, request: RequestId) {
    let Some(mut parts) = context.handlers_mut().partitioned.remove(&request.number()) else { return };
    let (is_complete, status, failure) = match &mut parts {
        Partitioned::Send(sending) => (sending.collect(context), Status::EMPTY, &mut sending.failure),
        Partitioned::Receive(receiving) => {
            receiving.post(context);
            (receiving.collect(context), receiving.status, &mut receiving.failure)
        }
        Partitioned::Others(others) => {
            others.retain(|&other| !is_over(context, other));
            (others.is_empty(), Status::EMPTY, &mut None)
        }
        Partitioned::Exchange(exchange) => {
            let is_complete = exchange.collect(context);
            (is_complete, exchange.status, &mut exchange.failure)
        }
    };
    let failure = if is_complete { failure.take() } else { None };
    let handlers = context.handlers_mut();
    let is_for_one_round = matches!(parts, Partitioned::Others(_) | Partitioned::Exchange(_));
    if !(is_complete && is_for_one_round) {
        handlers.partitioned.insert(request.number(), parts);
    }
    if is_complete {
        handlers.requests.set_status(request, status);
        handlers.requests.end(request, failure);
    }
}

/// Gives a partitioned operation up: what has not met its other half is withdrawn.
pub(crate) fn abandon<F: Fabric>(state: &mut State<F>, request: RequestId) {
    let parts = state.handlers().partitioned.remove(&request.number());
    let under_way: Vec<RequestId> = match parts {
        Some(Partitioned::Send(sending)) => sending.under_way,
        Some(Partitioned::Receive(receiving)) => {
            receiving.under_way.into_iter().flatten().chain(receiving.meeting).collect()
        }
        Some(Partitioned::Exchange(exchange)) => exchange.into_halves(),
        Some(Partitioned::Others(_)) | None => Vec::new(),
    };
    for part in under_way {
        protocol::end(state, part);
        // It belongs to an operation that is given up.
        let _ = state.handlers().requests.take(part);
    }
    state.handlers().requests.end(request, Some(Error::Cancelled));
}

/// Lets the halves of an exchange go on without a wait; other operations stay as they are.
pub(super) fn release<F: Fabric>(state: &mut State<F>, request: RequestId) {
    let handlers = state.handlers();
    match handlers.partitioned.remove(&request.number()) {
        Some(Partitioned::Exchange(exchange)) => {
            exchange.into_halves().into_iter().for_each(|half| handlers.requests.detach(half));
            handlers.requests.end(request, None);
        }
        Some(other) => {
            handlers.partitioned.insert(request.number(), other);
        }
        None => {}
    }
}

fn check_count(call: &'static str, elements: u64, partitions: u64, count: u64) -> Result<()> {
    if partitions.checked_mul(count) == Some(elements) {
        return Ok(());
    }
    let number = |value: u64| usize::try_from(value).unwrap_or(usize::MAX);
    Err(Error::Count { call, given: number(elements), expected: number(partitions.saturating_mul(count)) })
}

fn with_tag(route: Route, tag: i32) -> Route {
    Route { envelope: Envelope::new(route.envelope.context_id(), route.envelope.source(), tag), ..route }
}

/// Elements of a part, of parts that are equally long.
///
/// # Errors
/// [`Error::Count`]: they are not.
pub(super) fn part_len(call: &'static str, len: usize, partitions: usize) -> Result<usize> {
    let count = len.checked_div(partitions).unwrap_or(0);
    if count * partitions == len {
        Ok(count)
    } else {
        Err(Error::Count { call, given: len, expected: count * partitions })
    }
}
