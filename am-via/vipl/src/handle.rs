//! The names by which a program uses the objects of its NIC.

use am_via_nic::Slot;

/// A VI of a user agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ViHandle(pub Slot);

/// A completion queue of a NIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CqHandle(pub Slot);
