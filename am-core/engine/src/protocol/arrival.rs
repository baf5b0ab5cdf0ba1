//! Packets that have arrived, and the header handlers of their messages.

use super::packet::{self, Fields, Kind, MessageHead};
use super::{FRONT_BYTES_MAX, malformed};
use crate::buffer::Arrived;
use crate::error::{Error, Result};
use crate::fabric::Peer;
use crate::handler::{Answer, HandlerSet, Message};
use crate::transfer::Class;
use crate::user_code::{self, UserCode};
use alloc::boxed::Box;

/// A packet to be handled.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    pub(crate) from: Peer,
    /// The credit that the packet took, which says whether the packet may be answered.
    pub(crate) class: Class,
    /// Kind and handler.
    pub(crate) label: u16,
    /// The packet's head in private memory; the whole packet, if it came inside its entry.
    pub(crate) front: &'a [u8],
    /// What follows the head in the NIC's buffer.
    pub(crate) rest: Arrived<'a>,
}

impl<'a> Packet<'a> {
    /// The arguments for functions outside the fast path. A packet passed to a function that is not inlined would have to be in memory on
    /// the fast path, too.
    #[inline(always)]
    pub(crate) fn origin(&self) -> Origin {
        Origin { from: self.from, class: self.class, label: self.label }
    }

    /// The bytes after the first `len`. `None`: the packet is shorter, or its head does not have the claimed length.
    #[inline(always)]
    pub(crate) fn behind(&self, len: usize) -> Option<Arrived<'a>> {
        if self.rest.is_empty() {
            self.front.get(len..).map(Arrived::private)
        } else {
            (self.front.len() == len).then_some(self.rest)
        }
    }

    /// The fields of a packet of fixed format.
    ///
    /// # Errors
    /// `Protocol`: the packet is longer than any such packet.
    pub(crate) fn fields(&self) -> Result<Fields<'a>> {
        if !self.rest.is_empty() {
            return Err(malformed(self.from, "a packet longer than its kind can be"));
        }
        Ok(Fields(self.front))
    }
}

/// The sender, class and label of a packet: enough to refuse it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Origin {
    pub(crate) from: Peer,
    pub(crate) class: Class,
    pub(crate) label: u16,
}

/// Private memory for a head that is too long for its entry.
#[derive(Debug)]
pub struct Front(Box<[u8; FRONT_BYTES_MAX]>);

impl Default for Front {
    fn default() -> Self {
        Self(Box::new([0; FRONT_BYTES_MAX]))
    }
}

impl Front {
    /// Copies the head of a message, or as much of another packet as a head can have. The first bytes of a message's head contain the
    /// head's length. They are read only once, because the sender could change them.
    #[cold]
    #[inline(never)]
    pub(crate) fn copy(&mut self, label: u16, all: &Arrived<'_>) -> &[u8] {
        let mut len = FRONT_BYTES_MAX;
        let mut first = 0;
        if Kind::of(label) == Kind::Message {
            first = all.copy_to(&mut self.0[..MessageHead::BYTES_MAX]);
            let head = MessageHead::parse(&self.0[..first]);
            len = head.map_or(first, |head| head.len() + usize::from(head.uhdr_len)).clamp(first, len);
        }
        let rest = all.skip(first).copy_to(&mut self.0[first..len]);
        &self.0[..first + rest]
    }
}

/// The parts of a message: the head, the user header, and the data. `None`: the packet is not a valid message.
#[inline(always)]
pub(super) fn parse_message<'a>(packet: Packet<'a>) -> Option<(MessageHead, &'a [u8], Arrived<'a>)> {
    let head = MessageHead::parse(packet.front)?;
    let data_at = head.len() + usize::from(head.uhdr_len);
    let uhdr = packet.front.get(head.len()..data_at)?;
    let may_be_answered = head.completion_counter == 0 || packet.class == Class::Request;
    let data = packet.behind(data_at).filter(|_| may_be_answered)?;
    Some((head, uhdr, data))
}

/// Runs the header handler. Its answer is written to the caller's memory, since returning it through several functions would copy it.
///
/// # Errors
/// `HandlerPanicked`.
#[inline(always)]
pub(super) fn run_header<U: UserCode, H: HandlerSet>(
    user: U,
    handlers: &mut H,
    label: u16,
    message: &Message<'_>,
    answer: &mut Option<Answer>,
) -> Result<()> {
    let id = packet::handler_of(label);
    if H::RUNS_USER_CODE {
        // The old value is forgotten: the compiler does not see that it is empty and needs no drop.
        let run = || core::mem::forget(core::mem::replace(answer, handlers.header(id, message)));
        user_code::run(user, message.source, "header", run)
    } else {
        *answer = handlers.header(id, message);
        Ok(())
    }
}

#[cold]
#[inline(never)]
pub(super) fn unknown_handler(label: u16, message: &Message<'_>, handlers: &impl HandlerSet) -> Error {
    let handler = packet::handler_of(label).0;
    Error::UnknownHandler { handler, origin: message.source, registered: handlers.count() }
}
