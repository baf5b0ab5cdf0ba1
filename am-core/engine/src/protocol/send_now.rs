//! The fast paths of a message and of a put with a target counter: one packet, or a copy and a notice. No operation is recorded. Nothing
//! here waits or queues: without a credit, nothing is sent.

use super::Engine;
use super::outgoing::Outgoing;
use super::packet::{self, FIRST, Kind};
use crate::buffer::{Access, InlineBytes, RemoteAddress};
use crate::counter::CounterName;
use crate::error::Result;
use crate::fabric::{Fabric, Peer};
use crate::transfer::{Body, Class, Posted};
use crate::user_code::UserCode;

impl<U: UserCode> Engine<U> {
    /// Whether a message of this length is sent as one packet.
    #[inline(always)]
    pub(super) fn is_whole(&self, outgoing: &Outgoing<'_>, len: usize) -> bool {
        let front = outgoing.head().len() + outgoing.uhdr.len();
        !outgoing.announce && len <= self.limits.packet_bytes_max.saturating_sub(front)
    }

    /// The fast path of a message that fits into one packet and is not announced, to a target whose number the caller knows;
    /// returns whether it was posted. Everything it calls before a short message is posted is inlined, so that the entry is made in
    /// registers. If it returns false, also for a number that no peer has, call [`post_whole`](Self::post_whole).
    #[inline(always)]
    pub fn post_now<F: Fabric>(
        &mut self,
        fabric: &mut F,
        target: Peer,
        outgoing: &Outgoing<'_>,
        data: &[u8],
    ) -> bool {
        let (head, mut front) = (outgoing.head(), InlineBytes::new());
        let has_front = head.push_to(&mut front) && front.push(outgoing.uhdr);
        let label = packet::label(Kind::Message, outgoing.handler);
        has_front
            && self.may_go_now(target, outgoing)
            && fabric.try_post(target.index, outgoing.class(), label, &front, data)
    }

    /// Whether a message of one packet can be posted at once: it need not be announced, no packet waits for a credit, no peer is purged,
    /// and the target is already marked.
    #[inline(always)]
    fn may_go_now(&self, target: Peer, outgoing: &Outgoing<'_>) -> bool {
        !outgoing.announce && self.pending.is_clear() && self.touched.has(target)
    }

    /// Posts a message as one packet, if it is short enough and no other packet waits for a credit. `None`: the caller must use the general
    /// path.
    ///
    /// # Errors
    /// `UnknownTask`, `PeerFailed`.
    #[inline(always)]
    pub fn post_whole<F: Fabric>(
        &mut self,
        fabric: &mut F,
        outgoing: &Outgoing<'_>,
        data: &mut impl Body,
    ) -> Result<Option<Posted>> {
        let mut packet = InlineBytes::new();
        let has_front = outgoing.head().push_to(&mut packet) && packet.push(outgoing.uhdr);
        if !has_front || outgoing.announce || !self.pending.is_clear() {
            return Ok(None);
        }
        let (target, class) = (fabric.peer(outgoing.target)?, outgoing.class());
        let label = packet::label(Kind::Message, outgoing.handler);
        self.touched.mark(target);
        let outcome = if data.push_to(&mut packet) {
            fabric.post_inline(target.index, class, label, &packet)?
        } else if self.is_whole(outgoing, data.len()) {
            fabric.post_packet(target.index, class, label, &packet, data)?
        } else {
            return Ok(None);
        };
        Ok(Some(outcome))
    }

    /// The fast path of a put with a target counter, to memory that an earlier put has found to be mapped here: stores the bytes, and then
    /// posts a notice in a completion entry. Returns whether the put was done; if not, call [`put_again`](Self::put_again).
    #[inline(always)]
    pub fn put<F: Fabric>(
        &mut self,
        fabric: &mut F,
        to: RemoteAddress,
        bytes: &[u8],
        counter: CounterName,
    ) -> bool {
        let Ok(target) = fabric.peer(to.owner()) else { return false };
        let may_be_sent = self.pending.is_clear() && !to.grant.is_for_operation();
        may_be_sent
            && self.touched.has_notices(target)
            && fabric.write_mapped(to, bytes)
            && fabric.try_post(
                target.index,
                Class::OneWay,
                packet::label(Kind::Notify, FIRST),
                &notice(counter),
                &[],
            )
    }

    /// Puts bytes and posts the notice for the target's counter, if nothing waits for a credit. If the memory is not mapped here, one
    /// packet carries the bytes, and the target stores them. `None`: the caller must use the general path.
    ///
    /// # Errors
    /// `UnknownTask`, `PeerFailed`.
    #[inline]
    pub fn put_again<F: Fabric>(
        &mut self,
        fabric: &mut F,
        to: RemoteAddress,
        bytes: &[u8],
        counter: CounterName,
    ) -> Result<Option<Posted>> {
        let target = self.target(fabric, to.owner())?;
        if !self.pending.is_clear() || to.grant.is_for_operation() {
            return Ok(None);
        }
        let outcome = match fabric.find_mapped(to, bytes.len() as u64, Access::WRITE) {
            Ok(true) if fabric.write_mapped(to, bytes) => {
                self.touched.mark_notice(target);
                let label = packet::label(Kind::Notify, FIRST);
                fabric.post_inline(target.index, Class::OneWay, label, &notice(counter))?
            }
            Ok(false) => {
                let Some(packet) = put_packet(to, bytes, counter) else { return Ok(None) };
                self.touched.mark(target);
                let label = packet::label(Kind::Put, FIRST);
                fabric.post_inline(target.index, Class::OneWay, label, &packet)?
            }
            // The memory was unexposed after `find_mapped`, or there was an error: `write` reports which.
            _ => return Ok(None),
        };
        Ok(Some(outcome))
    }
}

/// The packet that notifies the target of a put that is stored.
#[inline(always)]
fn notice(counter: CounterName) -> InlineBytes {
    let mut packet = InlineBytes::new();
    let fitted = packet.push(&CounterName::to_wire(Some(counter)).to_le_bytes());
    debug_assert!(fitted, "four bytes fit into an empty packet");
    packet
}

/// The packet of a put that the target stores; `None` if the bytes do not fit. It is written in whole words, with the data at a multiple of
/// a word: a load of another size than the store before it would wait for the processor's store buffer.
#[inline(always)]
fn put_packet(to: RemoteAddress, bytes: &[u8], counter: CounterName) -> Option<InlineBytes> {
    let mut packet = InlineBytes::new();
    let fits = packet.push_word(u64::from(to.grant.region) | u64::from(to.grant.generation) << 32)
        && packet.push_word(to.offset)
        && packet.push_word(u64::from(CounterName::to_wire(Some(counter))))
        && packet.push(bytes);
    fits.then_some(packet)
}
