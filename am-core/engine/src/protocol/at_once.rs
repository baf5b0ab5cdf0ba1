//! Operations that have ended when their call returns: short ones, without a counter at the target, on memory that is mapped here. Nothing
//! is recorded, and no packet is sent. If a function here declines, the general path carries the operation out, or says why it cannot.

use super::Engine;
use super::owner_operations::has_operation;
use crate::buffer::{Access, RemoteAddress};
use crate::fabric::Fabric;
use crate::transfer::{AtomicOp, Width};
use crate::user_code::UserCode;

/// Maximum bytes of such an operation. Longer copies have the fabric attend to other transfers meanwhile.
const BYTES_MAX: usize = 4096;

impl<U: UserCode> Engine<U> {
    /// Whether `len` bytes at `at` may be accessed here, as far as this task knows without the fabric.
    #[inline(always)]
    fn may_access(&self, at: RemoteAddress, len: usize) -> bool {
        len <= BYTES_MAX && self.has_lost_nobody && !at.grant.is_for_operation()
    }

    /// Finds memory that no operation has accessed before, for the other functions here; returns whether it is mapped here.
    #[inline(never)]
    pub fn find_at_once<F: Fabric>(
        &mut self,
        fabric: &mut F,
        at: RemoteAddress,
        len: usize,
        need: Access,
    ) -> bool {
        // An error is found again, and reported, by the general path.
        self.may_access(at, len)
            && self.target(fabric, at.owner()).is_ok()
            && matches!(fabric.find_mapped(at, len as u64, need), Ok(true))
    }

    /// Stores bytes in memory of a peer; returns whether they are stored.
    #[inline(always)]
    pub fn put_at_once<F: Fabric>(&mut self, fabric: &mut F, to: RemoteAddress, bytes: &[u8]) -> bool {
        self.may_access(to, bytes.len()) && fabric.write_mapped(to, bytes)
    }

    /// Fills `to` with memory of a peer; returns whether it is filled.
    #[inline(always)]
    pub fn get_at_once<F: Fabric>(&mut self, fabric: &mut F, from: RemoteAddress, to: &mut [u8]) -> bool {
        self.may_access(from, to.len()) && fabric.read_mapped(from, to)
    }

    /// Operates on a word of a peer's memory; returns the old value, or `None` if nothing was done.
    #[inline(always)]
    pub fn rmw_at_once<F: Fabric>(
        &mut self,
        fabric: &mut F,
        at: RemoteAddress,
        width: Width,
        operation: AtomicOp,
    ) -> Option<u64> {
        let may_be_done = self.may_access(at, 0) && has_operation(width, operation);
        if may_be_done { fabric.atomic_mapped(at, width, operation) } else { None }
    }
}
