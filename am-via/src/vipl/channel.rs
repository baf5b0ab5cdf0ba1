//! The device joins two NICs once; all VIs between the two share that connection, which we call their channel. The upper bits of
//! an entry's operation word name the connection at its receiver; 0 means the channel itself.

use std::collections::VecDeque;

use crate::device::{Device, Entry, NodeAddress, Operation, Payload, Posted, ViNumber};
use crate::vipl::error::VipError;
use crate::vipl::user_agent::UserAgent;
use crate::vipl::vi::{ViHandle, VirtualInterface};

/// Where the number of a connection begins in an operation word.
pub(super) const CONNECTION_SHIFT: u32 = 8;
/// The largest number of a connection.
const CONNECTION_MAX: u32 = u32::MAX >> CONNECTION_SHIFT;

/// The operation of an entry, and the connection at its receiver that it is for. Claims.
pub(super) fn split(word: u32) -> (Option<Operation>, u32) {
    (Operation::of(word & ((1 << CONNECTION_SHIFT) - 1)), word >> CONNECTION_SHIFT)
}

/// Entries that only answer the peer and wait for room. A correct peer never makes us owe it more: each VI waits for one
/// answer at a time.
const OWED_MAX: usize = 4096;

/// The device's connection to one other NIC.
#[derive(Debug)]
pub(super) struct Channel {
    pub(super) peer: NodeAddress,
    owed: VecDeque<(Entry, Payload)>,
}

/// Posts `post`'s entry for `vi`: as one that may be lost, if its level allows that.
pub(super) fn by_level<D: Device, T>(
    device: &mut D,
    number: ViNumber,
    reliable: bool,
    post: impl FnOnce(&mut D) -> T,
) -> T {
    if reliable {
        return post(device);
    }
    device.allow_loss(number, true);
    let posted = post(device);
    device.allow_loss(number, false);
    posted
}

impl<D: Device> UserAgent<D> {
    /// The channel to a NIC, made if need be; `None`: not yet.
    pub(super) fn channel_to(&mut self, peer: NodeAddress) -> Result<Option<ViNumber>, VipError> {
        let known = self.channels.iter().find(|(_, channel)| channel.peer == peer);
        if let Some((&number, _)) = known {
            return Ok(Some(number));
        }
        let Some(number) = self.device.connect(peer)? else { return Ok(None) };
        if self.spent.contains(&number) {
            return Err(VipError::ErrorResource {
                resource: "connections of the device between two NICs",
                available: 1,
                remedy: "its NIC was closed, or broke the rules: open another context of the task",
            });
        }
        self.open_channel(number, peer);
        Ok(Some(number))
    }

    pub(super) fn open_channel(&mut self, number: ViNumber, peer: NodeAddress) {
        if !self.spent.contains(&number) {
            self.channels.entry(number).or_insert_with(|| Channel { peer, owed: VecDeque::new() });
        }
    }

    /// A connection number that is free at this NIC.
    pub(super) fn new_connection(&mut self, vi: ViHandle) -> u32 {
        loop {
            self.last_connection = self.last_connection % CONNECTION_MAX + 1;
            let number = self.last_connection;
            if let std::collections::hash_map::Entry::Vacant(free) = self.by_connection.entry(number) {
                free.insert(vi);
                return number;
            }
        }
    }

    /// Owes the NIC at the other end an entry, and posts it if there is room. Whoever lets us owe more than any correct peer
    /// would gets no more.
    pub(super) fn owe(&mut self, number: ViNumber, entry: Entry, payload: Payload) {
        let Some(channel) = self.channels.get_mut(&number) else { return };
        if channel.owed.len() < OWED_MAX {
            channel.owed.push_back((entry, payload));
        }
        self.pay(number);
    }

    /// Whether a channel may be owed a request for a connection, whose withdrawal must find room too.
    pub(super) fn takes_request(&self, number: ViNumber) -> bool {
        self.channels.get(&number).is_some_and(|channel| channel.owed.len() < OWED_MAX / 2)
    }

    /// Owes the VI at the other end an entry without data.
    pub(super) fn owe_peer(&mut self, vi: ViHandle, operation: Operation, immediate: u32) {
        let Some(found) = self.vis.get(vi.0) else { return };
        let Some(number) = found.number else { return };
        let entry = Entry { operation: found.operation(operation), immediate, ..Entry::default() };
        self.owe(number, entry, Payload::default());
    }

    /// Posts what is owed, as far as there is room; whether nothing is owed any more.
    pub(super) fn pay(&mut self, number: ViNumber) -> bool {
        let Some(channel) = self.channels.get_mut(&number) else { return true };
        while let Some((entry, payload)) = channel.owed.front() {
            match self.device.post(number, *entry, payload) {
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

    pub(super) fn pay_all(&mut self) {
        if self.channels.values().all(|channel| channel.owed.is_empty()) {
            return;
        }
        let numbers: Vec<_> = self.channels.keys().copied().collect();
        for number in numbers {
            self.pay(number);
        }
    }

    /// The device's connection has ended, and with it all that went over it.
    pub(super) fn lose_channel(&mut self, number: ViNumber) {
        if self.channels.remove(&number).is_none() {
            return;
        }
        self.spent.insert(number);
        // It is over for us in any case.
        let _ = self.device.disconnect(number);
        self.callers.retain(|caller| caller.number != number);
        for slot in self.requests.all() {
            if self.requests.get(slot).is_some_and(|caller| caller.number == number) {
                self.requests.remove(slot);
            }
        }
        for slot in self.vis.all() {
            if self.vis.get(slot).is_some_and(|vi: &VirtualInterface| vi.number == Some(number)) {
                self.lose(ViHandle(slot));
            }
        }
    }
}
