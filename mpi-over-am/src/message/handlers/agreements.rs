//! The agreements of this task's communicators ([`crate::message::consensus`]): their messages, and the requests that wait for their
//! decisions.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use am_core::handler::{Answer, Completion, Message, Wanted};
use am_core::task::TaskId;

use super::{AGREE, MpiHandlers, RANKS_MAX};
use crate::context_id::id_in;
use crate::data::buffer::RecvData;
use crate::error::Error;
use crate::message::consensus::{self, Agreement, Contribution, Decision, Outbox};
use crate::message::request_id::RequestId;

/// The name of an agreement: the number of a communicator, and the number among its agreements.
type Name = (u64, u32);

/// Bytes of a message's user header: a name, whether more of the list follows in another message, and the header of the consensus.
const UHDR_BYTES: usize = NAME_BYTES + 1 + consensus::HEADER_BYTES;
const NAME_BYTES: usize = 12;

/// What a request waits for.
#[derive(Debug)]
pub(crate) struct Awaited {
    pub(crate) request: RequestId,
    /// Gets the decision.
    pub(crate) slot: Arc<OnceLock<Decision>>,
    /// Gets the flags, if the program has given memory for them.
    pub(crate) flags: Option<RecvData>,
    /// Whether the request ends with an error if members have failed that not all have acknowledged.
    pub(crate) tells_news: bool,
}

#[derive(Debug)]
struct Open {
    agreement: Agreement,
    awaited: Option<Awaited>,
}

/// The agreements that are under way, or whose decision a member may still need.
#[derive(Debug, Default)]
pub(crate) struct Agreements {
    open: HashMap<Name, Open>,
    /// The number of the next agreement of each communicator.
    next: HashMap<u64, u32>,
    /// Lists of which a part has arrived, by their senders. A sender sends one after the other.
    pub(super) begun: HashMap<u32, Vec<u8>>,
    /// Maximum bytes of a list that one message holds.
    part_bytes_max: usize,
}

impl Agreements {
    pub(super) fn end(&mut self, communicator: u64) {
        self.next.remove(&communicator);
    }
}

impl MpiHandlers {
    /// Sets how many bytes of a message, with its user header, one packet holds.
    pub(crate) fn limit_agreements(&mut self, packet_room: usize) {
        self.failures.agreements.part_bytes_max = packet_room.saturating_sub(UHDR_BYTES).max(1);
    }

    /// Takes part in the next agreement of a context id. `members` are the same tasks in the same order at all of them. The caller has to
    /// send what is wanted.
    pub(crate) fn start_agreement(
        &mut self,
        context_id: u32,
        members: Vec<u32>,
        contribution: Contribution,
        awaited: Awaited,
    ) {
        let communicator = self.peers.number_of(context_id);
        let number = self.failures.agreements.next.entry(communicator).or_default();
        let name = (communicator, *number);
        *number = number.wrapping_add(1);
        let mut awaited = Some(awaited);
        self.with_agreement(name, |open, has_failed, outbox| {
            open.awaited = awaited.take();
            open.agreement.contribute(members, contribution, has_failed, outbox);
        });
    }

    /// Handles a message of an agreement.
    pub(super) fn message_of_agreement(&mut self, message: &Message<'_>) -> Answer {
        let from = message.source.task.0;
        let mut part = vec![0; message.here.map_or(0, |here| here.len())];
        let copied = message.here.map_or(0, |here| here.copy_to(&mut part));
        let mut list = self.failures.agreements.begun.remove(&from).unwrap_or_default();
        list.append(&mut part);
        // A list names each task at most once, after a number.
        let is_possible = copied as u64 == message.len && list.len() / size_of::<u32>() <= RANKS_MAX as usize;
        let Ok(uhdr) = <&[u8; UHDR_BYTES]>::try_from(message.uhdr) else { return self.malformed(message) };
        let (name, has_more, header) = split(uhdr);
        if is_possible && has_more {
            self.failures.agreements.begun.insert(from, list);
            return Answer::consumed(Completion::None);
        }
        let parsed = consensus::Message::from_wire(header, &list).filter(|_| is_possible);
        let Some(parsed) = parsed else { return self.malformed(message) };
        let agreements = &self.failures.agreements;
        let is_over = !agreements.open.contains_key(&name)
            && agreements.next.get(&name.0).is_some_and(|&next| name.1 < next);
        if is_over {
            let answer = Agreement::answer_when_over(&parsed);
            self.send_all_of(name, answer.map(|answer| (from, answer)));
        } else {
            self.with_agreement(name, |open, has_failed, outbox| {
                open.agreement.receive(from, parsed, has_failed, outbox);
            });
        }
        Answer::consumed(Completion::Wants)
    }

    /// After a failure: does what has become possible.
    pub(super) fn advance_agreements(&mut self) {
        for name in self.failures.agreements.open.keys().copied().collect::<Vec<_>>() {
            self.with_agreement(name, |open, has_failed, outbox| open.agreement.advance(has_failed, outbox));
        }
    }

    fn with_agreement(&mut self, name: Name, act: impl FnOnce(&mut Open, &dyn Fn(u32) -> bool, &mut Outbox)) {
        let own = self.own;
        let open = self.failures.agreements.open.remove(&name);
        let mut open = open.unwrap_or_else(|| Open { agreement: Agreement::new(own), awaited: None });
        let mut outbox = Outbox::new();
        act(&mut open, &|task| self.failures.has_lost(task), &mut outbox);
        self.send_all_of(name, outbox);
        if let Some(decision) = open.agreement.decision()
            && let Some(awaited) = open.awaited.take()
        {
            self.tell_decision(name.0, decision, awaited);
        }
        if !open.agreement.is_over() {
            self.failures.agreements.open.insert(name, open);
        }
    }

    fn send_all_of(&mut self, name: Name, messages: impl IntoIterator<Item = (u32, consensus::Message)>) {
        for (to, message) in messages {
            let (header, list) = message.to_wire();
            let mut rest = list.as_slice();
            let mut has_more = true;
            while has_more {
                let (part, after) = rest.split_at(rest.len().min(self.failures.agreements.part_bytes_max));
                (rest, has_more) = (after, !after.is_empty());
                let begin = [&name.0.to_le_bytes()[..], &name.1.to_le_bytes(), &[u8::from(has_more)]];
                let uhdr = [&begin.concat()[..], &header].concat();
                self.failures.want(Wanted { to: TaskId(to), handler: AGREE, uhdr, udata: part.to_vec() });
            }
        }
    }

    fn tell_decision(&mut self, communicator: u64, decision: &Decision, awaited: Awaited) {
        let Awaited { request, slot, flags, tells_news } = awaited;
        if let Some(flags) = flags {
            flags.unpack(0, &decision.flags.to_ne_bytes());
        }
        // This cannot fail: an agreement is decided once.
        let _ = slot.set(decision.clone());
        let news: Option<Error> = if tells_news && decision.is_news {
            self.failures.error_of_news(id_in(communicator), &decision.failed)
        } else {
            None
        };
        self.requests.end(request, news);
    }
}

/// The name of an agreement, whether more of the list follows, and the header of the consensus.
fn split(uhdr: &[u8; UHDR_BYTES]) -> (Name, bool, [u8; consensus::HEADER_BYTES]) {
    let (mut communicator, mut number, mut header) = ([0; 8], [0; 4], [0; consensus::HEADER_BYTES]);
    communicator.copy_from_slice(&uhdr[..8]);
    number.copy_from_slice(&uhdr[8..NAME_BYTES]);
    header.copy_from_slice(&uhdr[NAME_BYTES + 1..]);
    ((u64::from_le_bytes(communicator), u32::from_le_bytes(number)), uhdr[NAME_BYTES] != 0, header)
}
