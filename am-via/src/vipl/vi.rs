//! Virtual interfaces: the two ends of a connection, and the state machine of VIA 1.0 chapter 2.

use crate::device::{NodeAddress, ViNumber};

/// A VI of this NIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ViId(pub(crate) ViNumber);

impl ViId {
    /// The VI's number at its NIC: small, so that it can index a table.
    #[inline(always)]
    #[must_use]
    pub fn number(self) -> u32 {
        self.0.0
    }
}

/// The states of a VI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ViState {
    /// Not connected.
    Idle,
    /// A connection was asked for.
    ConnectPending,
    /// Connected: descriptors are carried out.
    Connected,
    /// Broken: descriptors are flushed; only a disconnect leads out of it.
    Error,
}

/// What the NIC knows of a VI.
#[derive(Debug)]
pub(crate) struct Vi {
    pub(crate) state: ViState,
    pub(crate) peer: NodeAddress,
}
