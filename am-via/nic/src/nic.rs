//! The NIC: a device, and the one table of its VIs (`VipOpenNic`).
//!
//! A VI of the fabric has *standing receives*: receives without data segments that are reposted automatically, so that a message costs one
//! entry and no descriptor. A VI of a program has work queues, which a user agent carries out. Both send by
//! [`Vi::post`].

use crate::credits::{CreditPlan, Packets};
use crate::device::{Device, DeviceError, Endpoint, Operation, ViNumber};
use crate::table::Table;
use crate::vi::{Vi, ViState};
use am_via_shm::CheckedRange;

/// An open NIC over device `D`.
#[derive(Debug)]
pub struct Nic<D: Device, W = ()> {
    /// The device below.
    pub device: D,
    /// The VIs.
    pub vis: Table<Vi<W>>,
}

impl<D: Device, W> Nic<D, W> {
    /// A NIC over `device`. `number` identifies it in handles.
    pub fn numbered(device: D, number: u32) -> Self {
        Self { device, vis: Table::new(number) }
    }
}

impl<D: Device> Nic<D> {
    /// Opens the NIC over `device`.
    #[must_use]
    pub fn open(device: D) -> Self {
        Self::numbered(device, 0)
    }

    /// Makes a VI with standing receives for `peer`; returns its index in the table.
    pub fn create_standing(&mut self, peer: Endpoint, plan: CreditPlan) -> u32 {
        self.vis.insert(Vi::standing(peer, plan)).place()
    }

    /// Makes the VI at an index like a new one, for another task with the number of its peer, which has ended.
    pub fn start_again(&mut self, at: u32, plan: CreditPlan) {
        if let Some(vi) = self.vis.at_mut(at) {
            *vi = Vi::standing(vi.peer, plan);
        }
    }

    /// The VI at an index of the table, and the device.
    #[inline(always)]
    pub fn vi(&mut self, at: u32) -> Option<(&mut Vi, &mut D)> {
        Some((self.vis.at_mut(at)?, &mut self.device))
    }

    /// Connects a VI with standing receives to its peer, which may do the same (`VipConnectPeerRequest`). The VI's index in the table is
    /// the number of its connection in the device. Returns whether the VI is connected; while it is idle, try again.
    ///
    /// # Errors
    /// `NoSuchEndpoint`: there is no such peer. `PeerClosed`: the peer has closed its NIC. `Exhausted`: no connection is
    /// left. `Damaged`: the control memory of the peer or of this task is invalid. `System`: the system's error.
    pub fn connect_standing(&mut self, at: u32) -> Result<bool, DeviceError> {
        let Some(vi) = self.vis.at_mut(at) else { return Ok(false) };
        if vi.state() != ViState::Idle {
            return Ok(vi.state() == ViState::Connected);
        }
        let link = ViNumber(at);
        let connected = self.device.connect(link, vi.peer)? == Some(link);
        if connected {
            vi.connected(link);
        }
        Ok(connected)
    }

    /// The bytes of a packet in the receive area of a VI.
    ///
    /// # Safety
    /// That of [`Device::area`].
    #[expect(unsafe_code, reason = "the slots of a receive area")]
    #[inline(always)]
    pub unsafe fn area(&self, at: u32, slot: u32, length: u32) -> CheckedRange<'_> {
        match self.vis.at(at) {
            // SAFETY: the caller's contract.
            Some(vi) => unsafe { self.device.area(vi.link(), slot, length) },
            None => CheckedRange::empty(),
        }
    }

    /// Number of packets over a VI so far, in each direction.
    pub fn packets(&self, at: u32) -> Packets {
        self.vis.at(at).map_or_else(Packets::default, Vi::packets)
    }

    /// Breaks the VIs for which `is_lost` returns true, because their peers are gone.
    pub fn lose(&mut self, is_lost: impl Fn(&Vi) -> bool) {
        for vi in self.vis.iter_mut().filter(|vi| is_lost(vi)) {
            vi.set_state(ViState::Error);
        }
    }

    /// Handles an entry that no standing receive takes: frees its slot, and breaks the VI if the peer has closed the connection. The
    /// arguments fit into registers; passing the whole completion would put it into memory on the fast path, too.
    #[cold]
    #[inline(never)]
    pub fn discard(&mut self, vi: ViNumber, operation: u32) {
        if Operation::of(operation & 0xff) == Some(Operation::Area) {
            self.device.release(vi);
        }
        if operation == Operation::Disconnect as u32
            && let Some(found) = self.vis.at_mut(vi.0).filter(|found| found.state() == ViState::Connected)
        {
            found.set_state(ViState::Error);
        }
    }
}
