//! The NIC: a device, and the one table of its VIs (`VipOpenNic`).
//!
//! A VI of the fabric has *standing receives*: receives without data segments that are posted again by themselves, so that a
//! message costs one entry and no descriptor. A VI of a program has work queues, which its [`UserAgent`](crate::UserAgent)
//! carries out. Both send by [`Vi::post`], the same entries to the same devices.

use crate::credits::{CreditPlan, Packets};
use crate::device::{Completion, Device, DeviceError, NodeAddress, Operation, ViNumber};
use crate::table::Table;
use crate::vi::{Vi, ViState};
use am_via_shm::copy::CheckedRange;

/// An open NIC over device `D`.
#[derive(Debug)]
pub struct Nic<D: Device> {
    /// The device below.
    pub device: D,
    pub(super) vis: Table<Vi>,
    /// Place of the VI with standing receives of each connection of the device.
    standing: Vec<u32>,
}

/// In [`Nic::standing`]: the connection has no such VI.
const NONE: u32 = u32::MAX;

impl<D: Device> Nic<D> {
    /// Opens the NIC over `device`.
    #[must_use]
    pub fn open(device: D) -> Self {
        Self::numbered(device, 0)
    }

    /// The same, whose handles are known by `number`.
    pub(super) fn numbered(device: D, number: u32) -> Self {
        Self { device, vis: Table::new(number), standing: Vec::new() }
    }

    /// Makes a VI with standing receives, to be connected to `peer`; its place in the table.
    pub fn create_standing(&mut self, peer: NodeAddress, plan: CreditPlan) -> u32 {
        self.vis.insert(Vi::standing(peer, plan)).place()
    }

    /// The VI at a place of the table, and the device.
    #[inline(always)]
    pub fn vi(&mut self, at: u32) -> Option<(&mut Vi, &mut D)> {
        Some((self.vis.at_mut(at)?, &mut self.device))
    }

    /// The VI with standing receives on a connection of the device, and the device.
    #[inline(always)]
    pub fn standing_on(&mut self, link: ViNumber) -> Option<(u32, &mut Vi, &mut D)> {
        let at = *self.standing.get(link.0 as usize)?;
        Some((at, self.vis.at_mut(at)?, &mut self.device))
    }

    /// Connects a VI with standing receives to its peer, which may ask as well (`VipConnectPeerRequest`). `false`: not yet, ask again.
    ///
    /// # Errors
    /// The peer has closed its NIC, no connection is left, or the system's word.
    pub fn connect_standing(&mut self, at: u32) -> Result<bool, DeviceError> {
        let Some(vi) = self.vis.at(at) else { return Ok(false) };
        let Some(link) = self.device.connect(vi.peer)? else { return Ok(false) };
        self.connected(at, link);
        Ok(true)
    }

    /// The device has joined a VI with standing receives and its peer.
    pub fn connected(&mut self, at: u32, link: ViNumber) {
        let Some(vi) = self.vis.at_mut(at).filter(|vi| vi.state() == ViState::Idle) else { return };
        vi.connected(link);
        let place = link.0 as usize;
        if self.standing.len() <= place {
            self.standing.resize(place + 1, NONE);
        }
        self.standing[place] = at;
    }

    /// The bytes of a packet in the receive area of a VI.
    #[inline(always)]
    pub fn area(&self, at: u32, slot: u32, length: u32) -> CheckedRange<'_> {
        match self.vis.at(at) {
            Some(vi) => self.device.area(vi.link(), slot, length),
            None => CheckedRange::empty(),
        }
    }

    /// Packets that went over a VI so far.
    pub fn packets(&self, at: u32) -> Packets {
        self.vis.at(at).map_or_else(Packets::default, Vi::packets)
    }

    /// The peer of these VIs is gone: they break.
    pub fn lose(&mut self, is_lost: impl Fn(&Vi) -> bool) {
        for vi in self.vis.iter_mut().filter(|vi| is_lost(vi)) {
            vi.set_state(ViState::Error);
        }
    }

    /// An entry that no standing receive takes: its slot goes back. The peer may have closed the connection.
    #[cold]
    #[inline(never)]
    pub fn discard(&mut self, completion: &Completion) {
        self.device.release(completion.vi);
        if completion.entry.operation == Operation::Disconnect as u32 {
            self.lose(|vi| vi.state() == ViState::Connected && vi.link() == completion.vi);
        }
    }
}
