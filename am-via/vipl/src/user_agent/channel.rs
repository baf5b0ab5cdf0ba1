//! The device connects two NICs once; all VIs between the two share that connection, their *channel*.
//!
//! Entries are of the device's two kinds, inline and area. The upper bits of an entry's operation word name the entry's connection at the
//! receiver: 0 is the fabric's VI with standing receives, and [`TO_NIC`] the NIC itself, which takes connection requests. The extra word
//! describes an entry of a program's VI:
//!
//! ```text
//! bits 0..4    of a message: its last piece, has immediate data, wants an acknowledgement, announces an RDMA write
//! bits 8..40   of a message: number of the piece
//! bits 0..56   of a request, an acceptance or a rejection: attributes of the VI, and the sender's connection
//! bits 56..64  the kind: 0 is a message
//! ```

use std::collections::VecDeque;

use crate::device::{Device, Entry, NodeAddress, Operation, Payload, Posted, ViNumber};
use crate::error::VipError;
use crate::table::ViHandle;
use crate::user_agent::UserAgent;
use crate::user_agent::work::Vi;

/// Where the number of a connection begins in an operation word.
const CONNECTION_SHIFT: u32 = 8;
/// Connection number of the NIC itself.
pub(crate) const TO_NIC: u32 = u32::MAX >> CONNECTION_SHIFT;
/// Where the kind begins in an extra word.
const KIND_SHIFT: u32 = 56;

/// The kind of an entry between VIs of programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    /// A send, a piece of a send, or the immediate data of an RDMA write.
    Message = 0,
    /// A VI asks for a connection.
    Request,
    /// A VI accepts the connection.
    Accept,
    /// The request is rejected.
    Reject,
    /// The VI withdraws its request.
    Withdraw,
    /// The VI at the other end disconnected.
    Disconnect,
    /// Acknowledges a message or a staged write that the receiver of this entry has sent: all its bytes have been stored.
    Acknowledge,
    /// The VI at the other end is in error.
    Broken,
    /// The sender of this entry tried to access memory of the receiver, and was refused; the connection stays.
    Refused,
    /// A piece of an RDMA write in the receive area, if the device cannot access the memory.
    StagedWrite,
    /// An RDMA read that the other end has to serve, if the device cannot access the memory.
    ReadRequest,
    /// A piece of the data of an RDMA read, in the receive area.
    ReadPiece,
}

impl Kind {
    const ALL: [Self; 12] = [
        Self::Message,
        Self::Request,
        Self::Accept,
        Self::Reject,
        Self::Withdraw,
        Self::Disconnect,
        Self::Acknowledge,
        Self::Broken,
        Self::Refused,
        Self::StagedWrite,
        Self::ReadRequest,
        Self::ReadPiece,
    ];

    /// The kind that an entry claims.
    pub(crate) fn of(entry: &Entry) -> Option<Self> {
        Self::ALL.get((entry.extra >> KIND_SHIFT) as usize).copied()
    }

    /// The kind's bits in the extra word.
    pub(crate) fn bits(self) -> u64 {
        (self as u64) << KIND_SHIFT
    }

    /// An inline entry of this kind for `connection`.
    pub(crate) fn entry(self, connection: u32) -> Entry {
        Entry { operation: word(Operation::Inline, connection), extra: self.bits(), ..Entry::default() }
    }
}

/// The operation word of an entry for `connection` at its receiver.
pub(crate) fn word(operation: Operation, connection: u32) -> u32 {
    operation as u32 | connection << CONNECTION_SHIFT
}

/// The operation that an entry claims to be, and the connection at its receiver that it claims to be for.
pub(crate) fn split(word: u32) -> (Option<Operation>, u32) {
    (Operation::of(word & ((1 << CONNECTION_SHIFT) - 1)), word >> CONNECTION_SHIFT)
}

/// Maximum number of queued answers to one peer. A correct peer never needs more: each of its VIs waits for one answer at a time.
const OWED_MAX: usize = 4096;

/// The device's connection to one other NIC.
#[derive(Debug)]
pub(crate) struct Channel {
    pub(crate) peer: NodeAddress,
    owed: VecDeque<(Entry, Payload)>,
}

impl<D: Device> UserAgent<D> {
    /// The channel to a NIC, if there is one.
    pub(crate) fn channel_of(&self, peer: NodeAddress) -> Option<ViNumber> {
        self.channels.iter().find(|(_, channel)| channel.peer == peer).map(|(&number, _)| number)
    }

    /// The channel to a NIC. Connects to the NIC if there is no channel yet. `None`: not connected yet, try again.
    pub(crate) fn channel_to(&mut self, peer: NodeAddress) -> Result<Option<ViNumber>, VipError> {
        if let Some(number) = self.channel_of(peer) {
            return Ok(Some(number));
        }
        let Some(number) = self.nic.device.connect(self.next_channel, peer)? else { return Ok(None) };
        if self.spent.contains(&number) {
            return Err(VipError::ErrorResource {
                resource: "connections to this peer's NIC",
                available: 1,
                remedy: "open another context of its task, because the NIC was closed, or broke the protocol",
            });
        }
        self.open_channel(number, peer);
        Ok(Some(number))
    }

    fn open_channel(&mut self, number: ViNumber, peer: NodeAddress) {
        self.channels.entry(number).or_insert_with(|| Channel { peer, owed: VecDeque::new() });
        self.next_channel = ViNumber(self.next_channel.0.max(number.0 + 1));
    }

    /// Opens the channel to a NIC that has connected to this NIC.
    pub(crate) fn handle_connected(&mut self, peer: NodeAddress) {
        // If connecting fails, the peer sees its own end fail.
        if let Ok(Some(number)) = self.nic.device.connect(self.next_channel, peer)
            && !self.spent.contains(&number)
        {
            self.open_channel(number, peer);
        }
    }

    /// A connection number that is free at this NIC.
    pub(crate) fn new_connection(&mut self, vi: ViHandle) -> u32 {
        loop {
            self.last_connection = self.last_connection % (TO_NIC - 1) + 1;
            let number = self.last_connection;
            if let std::collections::hash_map::Entry::Vacant(free) = self.by_connection.entry(number) {
                free.insert(vi);
                return number;
            }
        }
    }

    /// Queues an answer to the NIC at the other end, and posts it if the ring has a free line. Drops the answer if the queue has the
    /// maximum length that correct peers can cause.
    pub(crate) fn owe(&mut self, number: ViNumber, entry: Entry, payload: Payload) {
        let Some(channel) = self.channels.get_mut(&number) else { return };
        if channel.owed.len() < OWED_MAX {
            channel.owed.push_back((entry, payload));
        }
        self.pay(number);
    }

    /// Whether the queue of answers has capacity for a connection request and its withdrawal.
    pub(crate) fn takes_request(&self, number: ViNumber) -> bool {
        self.channels.get(&number).is_some_and(|channel| channel.owed.len() < OWED_MAX / 2)
    }

    /// Queues an answer without data to the VI at the other end.
    pub(crate) fn owe_peer(&mut self, vi: ViHandle, kind: Kind, immediate: u32) {
        let Some(found) = self.nic.vis.get(vi.0) else { return };
        let Some(number) = found.linked() else { return };
        let entry = Entry { immediate, ..kind.entry(found.work.their_connection) };
        self.owe(number, entry, Payload::default());
    }

    /// Posts queued answers until the ring is full; returns whether the queue is empty.
    pub(crate) fn pay(&mut self, number: ViNumber) -> bool {
        let Some(channel) = self.channels.get_mut(&number) else { return true };
        while let Some((entry, payload)) = channel.owed.front() {
            match self.nic.device.post(number, *entry, payload) {
                Ok(Posted::Retry) => {
                    self.held_up = true;
                    return false;
                }
                // A peer that is gone needs no answer.
                Ok(Posted::Done) | Err(_) => channel.owed.pop_front(),
            };
        }
        true
    }

    pub(crate) fn pay_all(&mut self) {
        if self.channels.values().all(|channel| channel.owed.is_empty()) {
            return;
        }
        let numbers: Vec<_> = self.channels.keys().copied().collect();
        for number in numbers {
            self.pay(number);
        }
    }

    /// Ends all connections of a channel that has ended in the device.
    pub(crate) fn lose_channel(&mut self, number: ViNumber) {
        if self.channels.remove(&number).is_none() {
            return;
        }
        self.spent.insert(number);
        // If the device reports an error, the connection is over as well.
        let _ = self.nic.device.disconnect(number);
        self.callers.retain(|caller| caller.number != number);
        for slot in self.requests.all() {
            if self.requests.get(slot).is_some_and(|caller| caller.number == number) {
                self.requests.remove(slot);
            }
        }
        for slot in self.nic.vis.all() {
            if self.nic.vis.get(slot).is_some_and(|vi: &Vi| vi.linked() == Some(number)) {
                self.lose(ViHandle(slot));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The NIC may belong to a context: messages of programs must not look like packets of the fabric.
    #[test]
    fn what_goes_to_a_nic_or_a_connection_is_no_packet_of_a_standing_receive() {
        for kind in Kind::ALL {
            for connection in [1, 7, TO_NIC] {
                let entry = kind.entry(connection);
                assert!([Operation::Inline, Operation::Area].iter().all(|&of| entry.operation != of as u32));
                assert_eq!(
                    (Kind::of(&entry), split(entry.operation)),
                    (Some(kind), (Some(Operation::Inline), connection))
                );
            }
        }
        assert_eq!(Kind::of(&Entry { extra: 12 << KIND_SHIFT, ..Entry::default() }), None);
    }
}
