//! Progress of operations that consist of several messages: partitioned ones, exchanges, and flushes of attached buffers.

use am_core::Context;
use am_core::fabric::Fabric;

use super::{end, is_over};
use crate::data::buffer::KeptVec;
use crate::error::{Error, Result};
use crate::matching::Pattern;
use crate::message::handlers::MpiHandlers;
use crate::message::protocol;
use crate::message::request_id::RequestId;
use crate::message::request_table::{Channel, Exchange, Parts, Phase, Receiving, Sending};
use crate::message::state::State;
use crate::message::status::Status;

impl Receiving {
    /// Posts the receives of a round, once the sender's description has arrived.
    fn post<F: Fabric>(&mut self, context: &mut Context<F, MpiHandlers>) {
        if let Some(meeting) = self.meeting.filter(|&meeting| is_over(context, meeting)) {
            self.meeting = None;
            self.channel = self.hear(context, meeting);
        }
        if self.is_posted || self.meeting.is_some() || self.failure.is_some() {
            return;
        }
        let channel = match self.fitting_channel(context) {
            Ok(channel) => channel,
            Err(error) => {
                self.failure = Some(error);
                return;
            }
        };
        self.is_posted = true;
        for partition in 0..channel.partitions {
            let tag = channel.tag(partition);
            let pattern = Pattern::new(self.pattern.context_id(), Some(self.status.source()), Some(tag));
            let part =
                self.data.window(partition.saturating_mul(channel.partition_len), channel.partition_len);
            let request = context.handlers_mut().requests.insert(true);
            context.handlers_mut().requests.hold(request);
            protocol::receive_window_as(context, pattern, part, request);
            self.under_way.push(Some(request));
        }
    }

    /// Takes the sender's description of its partitions. `None` if there is none; an error of the receive fails this round.
    fn hear<F: Fabric>(
        &mut self,
        context: &mut Context<F, MpiHandlers>,
        meeting: RequestId,
    ) -> Option<Channel> {
        let taken = context.handlers_mut().requests.take_kept(meeting);
        let (status, word) = taken.unwrap_or_else(|error| (Err(error), None));
        self.failure = status.err();
        word.and_then(KeptVec::into_vec::<u8>).and_then(|word| Channel::parse(&word))
    }

    /// The sender's description, which every round needs.
    ///
    /// # Errors
    /// The sender has sent none, or has another number of bytes.
    fn fitting_channel<F: Fabric>(&self, context: &Context<F, MpiHandlers>) -> Result<Channel> {
        let source_rank = self.status.source();
        let Some(channel) = self.channel else {
            let task = context.handlers().peers.task_of(self.pattern.context_id(), source_rank);
            let peer = task.map_or(source_rank, |task| task.0);
            return Err(Error::Protocol { peer, what: "a partitioned send without a description" });
        };
        let capacity = self.data.packed_len();
        if channel.partitions.checked_mul(channel.partition_len) == Some(capacity) {
            return Ok(channel);
        }
        let sent = channel.partitions.saturating_mul(channel.partition_len);
        Err(Error::Truncated { source_rank, tag: self.status.tag(), sent, capacity })
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

impl Exchange {
    /// Whether both halves are complete.
    pub(super) fn collect<F: Fabric>(&mut self, context: &mut Context<F, MpiHandlers>) -> bool {
        let Self { under_way, status, failure } = self;
        under_way.retain(|&half| {
            // A receive that is in doubt stays posted.
            if !is_over(context, half) || !context.handlers().requests.is_over(half) {
                return true;
            }
            let requests = &mut context.handlers_mut().requests;
            let is_receive = requests.is_receive(half);
            match requests.take(half) {
                Ok(told) if is_receive => *status = told,
                Ok(_) => {}
                Err(error) => {
                    failure.get_or_insert(error);
                }
            }
            false
        });
        under_way.is_empty()
    }
}

/// Starts a round of a partitioned operation.
pub(crate) fn start_parts<F: Fabric>(state: &mut State<F>, request: RequestId) {
    let requests = &mut state.handlers().requests;
    requests.in_parts(request);
    match requests.parts_mut(request) {
        Some(Parts::Send(sending)) => {
            sending.ready = vec![false; usize::try_from(sending.channel.partitions).unwrap_or(0)];
        }
        Some(Parts::Receive(receiving)) => {
            receiving.is_posted = false;
            receiving.under_way.clear();
        }
        Some(Parts::Flush { .. } | Parts::Exchange(_)) | None => {}
    }
    drive(&mut state.context, request);
    if !has_met(&mut state.context, request) {
        state.schedules.add_to_meet(request);
    }
}

/// Whether a round can be posted: the sender's description has arrived, or none is expected.
pub(super) fn has_met<F: Fabric>(context: &mut Context<F, MpiHandlers>, request: RequestId) -> bool {
    let parts = context.handlers().requests.parts(request);
    let meeting = if let Some(Parts::Receive(receiving)) = parts { receiving.meeting } else { None };
    meeting.is_none_or(|meeting| is_over(context, meeting))
}

/// Whether a partition of a partitioned receive has arrived. If no round is under way, every partition counts as arrived.
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
    match context.handlers().requests.parts(request) {
        Some(Parts::Receive(receiving)) if is_under_way(context) => receiving.has_arrived(partition),
        _ => true,
    }
}

/// Advances an operation that consists of several messages.
#[cold]
#[inline(never)]
pub(super) fn drive<F: Fabric>(context: &mut Context<F, MpiHandlers>, request: RequestId) {
    // The parts are taken out of the table during this call, because the requests of their messages are in the table, too.
    let Some(mut parts) = context.handlers_mut().requests.take_parts(request) else { return };
    let (is_complete, status, failure) = match &mut *parts {
        Parts::Send(sending) => (sending.collect(context), Status::EMPTY, &mut sending.failure),
        Parts::Receive(receiving) => {
            receiving.post(context);
            (receiving.collect(context), receiving.status, &mut receiving.failure)
        }
        Parts::Exchange(exchange) => {
            let is_complete = exchange.collect(context);
            (is_complete, exchange.status, &mut exchange.failure)
        }
        Parts::Flush { owner, until } => {
            context.handlers_mut().free_what_has_gone(*owner);
            (context.handlers().attached.is_free_of(*owner, *until), Status::EMPTY, &mut None)
        }
    };
    let failure = if is_complete { failure.take() } else { None };
    let requests = &mut context.handlers_mut().requests;
    requests.put_parts(request, parts);
    if is_complete {
        requests.set_status(request, status);
        requests.end(request, failure);
    }
}

/// Ends an operation that consists of several messages: unmatched messages are withdrawn, except the receive of a sender's description,
/// which must not reach a later receive.
pub(crate) fn abandon<F: Fabric>(state: &mut State<F>, request: RequestId) {
    let under_way: Vec<RequestId> = match state.handlers().requests.take_parts(request).map(|parts| *parts) {
        Some(Parts::Send(sending)) => sending.under_way,
        Some(Parts::Receive(receiving)) => {
            receiving.meeting.into_iter().for_each(|meeting| state.handlers().requests.detach(meeting));
            receiving.under_way.into_iter().flatten().collect()
        }
        Some(Parts::Exchange(exchange)) => exchange.under_way,
        Some(Parts::Flush { .. }) | None => Vec::new(),
    };
    for part in under_way {
        end(state, part);
        // The result is not reported: the whole operation is being ended.
        let _ = state.handlers().requests.take(part);
    }
    state.handlers().requests.end(request, Some(Error::Cancelled));
}

/// Ends an exchange whose request is freed: its halves complete without a wait. Other operations are unchanged.
pub(crate) fn release<F: Fabric>(state: &mut State<F>, request: RequestId) {
    let requests = &mut state.handlers().requests;
    let Some(Parts::Exchange(exchange)) = requests.parts_mut(request) else { return };
    std::mem::take(&mut exchange.under_way).into_iter().for_each(|half| requests.detach(half));
    requests.end(request, None);
}
