//! The device connects two NICs once; all VIs between the two share that connection, their *channel*.

use std::collections::VecDeque;

use crate::error::VipError;
use crate::handle::ViHandle;
use crate::user_agent::UserAgent;
use crate::user_agent::entry::{Kind, TO_NIC};
use crate::user_agent::work::Vi;
use am_via_nic::device::{Device, Endpoint, Entry, Payload, Posted, ViNumber};

/// Maximum number of queued answers to one peer. A correct peer never needs more: each of its VIs waits for one answer at a time.
const OWED_MAX: usize = 4096;

/// The device's connection to one other NIC.
#[derive(Debug)]
pub(crate) struct Channel {
    pub(crate) peer: Endpoint,
    owed: VecDeque<(Entry, Payload)>,
}

impl<D: Device> UserAgent<D> {
    /// The channel to a NIC, if there is one.
    pub(crate) fn channel_of(&self, peer: Endpoint) -> Option<ViNumber> {
        self.channels.iter().find(|(_, channel)| channel.peer == peer).map(|(&number, _)| number)
    }

    /// The channel to a NIC. Connects to the NIC if there is no channel yet. `None`: not connected yet, try again.
    pub(crate) fn channel_to(&mut self, peer: Endpoint) -> Result<Option<ViNumber>, VipError> {
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

    fn open_channel(&mut self, number: ViNumber, peer: Endpoint) {
        self.channels.entry(number).or_insert_with(|| Channel { peer, owed: VecDeque::new() });
        self.next_channel = ViNumber(self.next_channel.0.max(number.0 + 1));
    }

    /// Opens the channel to a NIC that has connected to this NIC.
    pub(crate) fn handle_connected(&mut self, peer: Endpoint) {
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
