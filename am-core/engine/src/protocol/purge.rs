//! Giving up all operations with a peer, and beginning anew (`LAPI_Purge_totask`, `LAPI_Resume_totask`).
//!
//! The task that purges ends its operations with the peer, tells the peer, and drops all packets of the peer until the answer: they
//! belong to operations that are over. The peer ends its side of the same operations and answers. The answer has a credit reserved, so
//! no later packet of the peer passes it. Both tasks then begin anew at the same point of both streams of packets.
//!
//! Memory that the peer may be copying from does not come back by a purge alone. Its grant is closed, and the operation ends
//! when nobody copies by it any more: a peer that is stopped in the middle of a copy keeps the memory until it goes on or dies.

use super::outstanding::State;
use super::packet::{self, Kind, SECOND, THIRD, pack};
use super::reassembly::Stage;
use super::segment::From;
use super::{Cold, Engine, Packet, malformed};
use crate::error::{Error, Outcome, Result};
use crate::fabric::{Fabric, Peer};
use crate::handler::HandlerSet;
use crate::task::{Endpoint, TaskId};
use crate::transfer::Class;
use crate::user_code::UserCode;
use alloc::vec::Vec;

/// The purges of one context.
#[derive(Debug, Default)]
pub struct Purges {
    /// Peers that new operations are refused with.
    refused: Vec<Peer>,
    /// Peers from which nothing is taken until they have answered so many purges.
    silenced: Vec<(Peer, u32)>,
    /// Operations that end when nobody copies by their grant any more, and who has purged them.
    closing: Vec<(u32, TaskId)>,
    /// How often everything with an endpoint was purged, and who did so last.
    done: Vec<(Endpoint, u32, TaskId)>,
}

impl Purges {
    /// Whether packets may have to be dropped.
    pub fn is_filtering(&self) -> bool {
        !self.silenced.is_empty()
    }

    pub(super) fn is_closing(&self) -> bool {
        !self.closing.is_empty()
    }

    #[inline(always)]
    pub(super) fn refuses_nobody(&self) -> bool {
        self.refused.is_empty()
    }

    pub(super) fn refuses(&self, peer: Peer) -> bool {
        self.refused.contains(&peer)
    }

    /// How often everything with `endpoint` was purged, and who did so last. A caller that waits for an answer compares it with that of the
    /// time when it asked.
    pub fn count(&self, endpoint: Endpoint) -> (u32, Option<TaskId>) {
        let found = self.done.iter().find(|(purged, ..)| *purged == endpoint);
        found.map_or((0, None), |&(_, count, by)| (count, Some(by)))
    }

    fn count_one(&mut self, endpoint: Endpoint, by: TaskId) {
        match self.done.iter_mut().find(|(purged, ..)| *purged == endpoint) {
            Some((_, count, last)) => (*count, *last) = (count.wrapping_add(1), by),
            None => self.done.push((endpoint, 1, by)),
        }
    }

    /// Nothing will come from a dead task.
    pub(super) fn forget(&mut self, is_gone: impl Fn(Endpoint) -> bool) {
        self.silenced.retain(|(peer, _)| !is_gone(peer.endpoint));
    }
}

impl<U: UserCode> Engine<U> {
    /// Ends everything with `peer`, refuses new operations with it, and tells it.
    ///
    /// # Errors
    /// The first error of an operation that reports it nowhere else, other than that it was purged.
    pub fn purge<F: Fabric, H: HandlerSet>(
        &mut self,
        peer: Peer,
        fabric: &mut F,
        handlers: &mut H,
    ) -> Result<()> {
        let own = self.own.task;
        let ended = self.end_all_with(peer, own, fabric, handlers);
        if !self.purges.refused.contains(&peer) {
            self.purges.refused.push(peer);
            self.pending.block();
        }
        // To itself, and to the dead, there is nothing to tell.
        if peer.endpoint != self.own && !self.is_gone(peer.endpoint) {
            let label = packet::label(Kind::Withdraw, SECOND);
            self.send_control(fabric, peer, Class::Request, label, pack([]))?;
            match self.purges.silenced.iter_mut().find(|(silenced, _)| *silenced == peer) {
                Some((_, answers)) => *answers += 1,
                None => self.purges.silenced.push((peer, 1)),
            }
            self.attention = true;
        }
        ended
    }

    /// Allows operations with `peer` again; whether they were refused.
    pub fn resume(&mut self, peer: Peer) -> bool {
        let Some(at) = self.purges.refused.iter().position(|&refused| refused == peer) else { return false };
        self.purges.refused.swap_remove(at);
        self.pending.unblock();
        true
    }

    /// Whether this packet belongs to operations that are over. Its place goes back; if it is a request, it is waived.
    pub(crate) fn is_stale(&self, from: Peer, label: u16) -> bool {
        let is_of_purge =
            Kind::of(label) == Kind::Withdraw && matches!(packet::handler_of(label), SECOND | THIRD);
        !is_of_purge && self.purges.silenced.iter().any(|&(silenced, _)| silenced == from)
    }

    /// A peer has purged this task, or has answered this task's purge.
    pub(super) fn handle_purge(&mut self, packet: Packet<'_>) -> Result<()> {
        packet.fields()?;
        match packet::handler_of(packet.label) {
            SECOND if packet.class == Class::Request => {
                self.later(Cold::Purged(packet.from));
                Ok(())
            }
            THIRD => {
                let found = self.purges.silenced.iter().position(|&(silenced, _)| silenced == packet.from);
                let Some(at) = found else {
                    return Err(malformed(packet.from, "the answer to a purge that this task did not make"));
                };
                self.purges.silenced[at].1 -= 1;
                if self.purges.silenced[at].1 == 0 {
                    self.purges.silenced.swap_remove(at);
                }
                Ok(())
            }
            _ => Err(malformed(packet.from, "a packet of an unknown kind")),
        }
    }

    /// A peer has given up everything with this task.
    pub(super) fn be_purged<F: Fabric, H: HandlerSet>(
        &mut self,
        peer: Peer,
        fabric: &mut F,
        handlers: &mut H,
    ) -> Result<()> {
        let ended = self.end_all_with(peer, peer.endpoint.task, fabric, handlers);
        let label = packet::label(Kind::Withdraw, THIRD);
        ended.and(self.send_control(fabric, peer, Class::Answer, label, pack([])))
    }

    fn end_all_with<F: Fabric, H: HandlerSet>(
        &mut self,
        peer: Peer,
        by: TaskId,
        fabric: &mut F,
        handlers: &mut H,
    ) -> Result<()> {
        self.purges.count_one(peer.endpoint, by);
        let purged = || Error::Purged { task: peer.endpoint.task, by };
        self.counters.note_purged(peer.endpoint.task);
        self.pending.drop_for_purge(peer);
        // What was owed to the peer is owed no more, and its reserved places are free.
        for stream in self.streams.iter() {
            if stream.to == peer && matches!(stream.from, From::Exposed { .. }) {
                fabric.waive(peer.index);
            }
        }
        self.drop_streams(|endpoint| endpoint == peer);
        for fence in self.fences.extract_if(.., |fence| fence.origin() == peer) {
            self.asked_by.subtract(peer);
            fabric.waive(fence.origin().index);
        }
        self.forget_owed(peer);
        let incoming: Vec<u32> = self
            .incoming
            .iter()
            .filter(|(_, message)| message.source == peer)
            .filter(|(_, message)| !matches!(message.stage, Stage::Waiting { kept: Some(_) }))
            .map(|(key, _)| key)
            .collect();
        let mut result = Ok(());
        for key in incoming {
            if let Some(incoming) = self.incoming.get_mut(key) {
                if core::mem::take(&mut incoming.tail.reserved) {
                    fabric.waive(peer.index);
                }
                incoming.tail.op = 0;
                incoming.tail.target_counter = 0;
                incoming.tail.completion_counter = 0;
                incoming.tail.answerable = false;
            }
            result = result.and(self.fail_incoming(key, purged(), fabric, handlers));
        }
        self.untold.retain(|&(other, _)| other != peer);
        for key in self.ops.keys(|op| op.peer == peer && !op.is_posted() && !op.is_over()) {
            let grant = match self.ops.get(key).map(|op| &op.state) {
                Some(State::Announced { grant: Some(grant), .. }) => Some(*grant),
                _ => None,
            };
            if let Some(grant) = grant
                && fabric.revoke_in_use(grant)? == Outcome::Retry
            {
                self.purges.closing.push((key, by));
                self.busy = true;
                continue;
            }
            self.forget_grant(key);
            result = result.and(self.end_op(key, Err(purged()), fabric, handlers));
        }
        // A purge is the program's own doing: it is no news that its operations have ended by it.
        match result {
            Err(Error::Purged { .. }) => Ok(()),
            result => result,
        }
    }

    /// The grant has ended already.
    fn forget_grant(&mut self, key: u32) {
        if let Some(State::Announced { grant, .. }) = self.ops.get_mut(key).map(|op| &mut op.state) {
            *grant = None;
        }
    }

    /// Ends the operations whose memory nobody copies any more; whether any.
    ///
    /// # Errors
    /// What an operation ends with, if nobody else is told.
    pub(super) fn work_on_closing<F: Fabric, H: HandlerSet>(
        &mut self,
        fabric: &mut F,
        handlers: &mut H,
    ) -> Result<bool> {
        let mut moved = false;
        for (key, by) in core::mem::take(&mut self.purges.closing) {
            let Some(op) = self.ops.get(key) else { continue };
            let (task, State::Announced { grant: Some(grant), .. }) = (op.peer.endpoint.task, &op.state)
            else {
                continue;
            };
            if fabric.revoke_in_use(*grant)? == Outcome::Retry {
                self.purges.closing.push((key, by));
                continue;
            }
            moved = true;
            self.forget_grant(key);
            let purged = Error::Purged { task, by };
            match self.end_op(key, Err(purged), fabric, handlers) {
                Err(Error::Purged { .. }) | Ok(()) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(moved)
    }
}
