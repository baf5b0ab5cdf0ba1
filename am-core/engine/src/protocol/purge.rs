//! Purging all operations with a peer, and beginning anew (`LAPI_Purge_totask`, `LAPI_Resume_totask`).
//!
//! The task that purges ends its operations with the peer, tells the peer, and drops all packets of the peer until the answer: they belong
//! to operations that are over. The peer ends its side of the same operations and answers. The answer has a reserved credit, so no later
//! packet of the peer overtakes it. Both tasks then begin anew at the same point of both packet streams.
//!
//! Memory that the peer may be copying is not returned at once. Its grant is closed, and the operation ends when the copy has ended: a peer
//! that is stopped in the middle of a copy holds the memory until it continues or dies.

use super::outstanding::State;
use super::packet::{self, Kind, SECOND, THIRD, pack};
use super::piece_stream::From;
use super::reassembly::Stage;
use super::{Engine, FollowUp, Packet, malformed};
use crate::error::{Error, Result};
use crate::fabric::{Fabric, Peer};
use crate::handler::HandlerSet;
use crate::task::{Endpoint, TaskId};
use crate::transfer::{Class, Posted};
use crate::user_code::UserCode;
use alloc::vec::Vec;

/// The purges of one context.
#[derive(Debug, Default)]
pub struct Purges {
    /// Peers for which new operations are refused.
    refused: Vec<Peer>,
    /// Peers whose packets are dropped, with the number of purges that they have not answered.
    silenced: Vec<(Peer, u32)>,
    /// Operations that end when no peer copies through their grant any more, and the task that purged them.
    closing: Vec<(u32, TaskId)>,
    /// For each endpoint, the number of purges so far, and the task that purged last.
    done: Vec<(Endpoint, u32, TaskId)>,
}

impl Purges {
    /// Whether some packets have to be dropped.
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

    /// Number of purges with `endpoint` so far, and the task that purged last. A caller that waits for an answer compares the number with
    /// that at the time of its request.
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

    /// Stops waiting for answers of endpoints that are gone.
    pub(super) fn forget(&mut self, is_gone: impl Fn(Endpoint) -> bool) {
        self.silenced.retain(|(peer, _)| !is_gone(peer.endpoint));
    }
}

impl<U: UserCode> Engine<U> {
    /// Ends all operations with `peer`, refuses new ones, and tells the peer.
    ///
    /// # Errors
    /// An error, other than the purge itself, that is reported nowhere else; an error of the fabric.
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
            self.note_losses();
            self.pending.block();
        }
        // This task itself, and a peer that is gone, need not be told.
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

    /// Allows operations with `peer` again; returns whether they were refused.
    pub fn resume(&mut self, peer: Peer) -> bool {
        let Some(at) = self.purges.refused.iter().position(|&refused| refused == peer) else { return false };
        self.purges.refused.swap_remove(at);
        self.note_losses();
        self.pending.unblock();
        true
    }

    /// Whether this packet belongs to operations that have ended. The caller must then release the packet's slot, and waive the answer to a
    /// request.
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
                self.later(FollowUp::Purged(packet.from));
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

    /// Ends this task's side of the operations that a peer has purged, and answers the peer.
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
        // No answers to the peer are due any more, so the slots reserved for them are returned.
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
            result = result.and(unless_purged(self.fail_incoming(key, purged(), fabric, handlers)));
        }
        self.untold.retain(|&(other, _)| other != peer);
        for key in self.ops.keys(|op| op.peer == peer && !op.is_posted() && !op.is_over()) {
            let grant = match self.ops.get(key).map(|op| &op.state) {
                Some(State::Announced { grant: Some(grant), .. }) => Some(*grant),
                _ => None,
            };
            if let Some(grant) = grant {
                match fabric.revoke_in_use(grant) {
                    Ok(Posted::Done) => {}
                    // After an error, a peer may still be copying: the grant is asked about again.
                    outcome => {
                        self.purges.closing.push((key, by));
                        self.busy = true;
                        result = result.and(outcome.map(|_| ()));
                        continue;
                    }
                }
            }
            self.forget_grant(key);
            result = result.and(unless_purged(self.end_op(key, Err(purged()), fabric, handlers)));
        }
        result
    }

    /// Forgets the grant of an operation: the grant has ended.
    fn forget_grant(&mut self, key: u32) {
        if let Some(State::Announced { grant, .. }) = self.ops.get_mut(key).map(|op| &mut op.state) {
            *grant = None;
        }
    }

    /// Ends the purged operations (`closing`) whose memory no peer copies any more; returns whether there were any.
    ///
    /// # Errors
    /// An error of the fabric; the error of an operation, if it is reported nowhere else.
    pub(super) fn work_on_closing<F: Fabric, H: HandlerSet>(
        &mut self,
        fabric: &mut F,
        handlers: &mut H,
    ) -> Result<bool> {
        let mut moved = false;
        // An error leaves the entries after it for the next call.
        for _ in 0..self.purges.closing.len() {
            let (key, by) = self.purges.closing.remove(0);
            let Some(op) = self.ops.get(key) else { continue };
            let (task, State::Announced { grant: Some(grant), .. }) = (op.peer.endpoint.task, &op.state)
            else {
                continue;
            };
            match fabric.revoke_in_use(*grant) {
                Ok(Posted::Done) => {}
                Ok(_) => {
                    self.purges.closing.push((key, by));
                    continue;
                }
                Err(error) => {
                    self.purges.closing.push((key, by));
                    return Err(error);
                }
            }
            moved = true;
            self.forget_grant(key);
            let purged = Error::Purged { task, by };
            unless_purged(self.end_op(key, Err(purged), fabric, handlers))?;
        }
        Ok(moved)
    }
}

/// The result of ending a purged operation or message. This task or the peer asked for the purge, so the error about it is not reported.
fn unless_purged(ended: Result<()>) -> Result<()> {
    match ended {
        Err(Error::Purged { .. }) => Ok(()),
        ended => ended,
    }
}
