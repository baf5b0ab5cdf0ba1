//! Writes, reads and atomics of registered memory. The network carries them out like the NIC of the memory's owner: the owner need not
//! poll.

use crate::device::{AtomicOp, ClaimFault, NodeAddress, RemoteMemory};
use am_via_shm::layout::{ACCESS_READ, ACCESS_WRITE};
use am_via_shm::regions::{Claim, update_word};
use am_via_shm::{HeldRange, PrivateBytes, PrivateRegions};

/// A transfer in flight.
#[derive(Debug)]
pub(super) struct Transfer {
    /// The NIC that asked for the transfer.
    pub(super) by: NodeAddress,
    pub(super) at: RemoteMemory,
    /// The number that `by` has given the transfer.
    pub(super) id: u64,
    pub(super) kind: Kind,
}

/// The kind of transfer.
#[derive(Debug)]
pub(super) enum Kind {
    /// The bytes, copied when the write is posted, so that the program can reuse the source at once.
    Write(PrivateBytes),
    /// The destination, which a later poll of `by` fills.
    Read(HeldRange),
    Atomic {
        bytes: u64,
        operation: AtomicOp,
    },
}

/// How a transfer ended: the old value of an atomic, or the fault; and the bytes of a read, with their destination.
pub(super) type End = (Result<u64, ClaimFault>, Option<(PrivateBytes, HeldRange)>);

impl Transfer {
    /// Carries out the transfer. `regions` is the table of the memory's owner, `None` if that task is dead.
    pub(super) fn carry_out(self, regions: Option<&PrivateRegions>) -> End {
        let Some(regions) = regions else { return (Err(ClaimFault::PeerDead), None) };
        match self.kind {
            Kind::Write(bytes) => {
                let claim = claim(self.at, bytes.range().len() as u64);
                let to = regions.claim(claim, ACCESS_WRITE);
                (to.map(|to| u64::from(!to.copy_from(bytes.range()))), None)
            }
            Kind::Read(to) => {
                let claim = claim(self.at, to.len() as u64);
                match regions.claim(claim, ACCESS_READ).map(|from| (from, PrivateBytes::new(from.len()))) {
                    Ok((from, Some(bytes))) if bytes.range().copy_from(from) => (Ok(0), Some((bytes, to))),
                    // No memory for the bytes: reported as a stale registration.
                    Ok(_) => (Err(ClaimFault::Stale), None),
                    Err(fault) => (Err(fault), None),
                }
            }
            Kind::Atomic { bytes, operation } => {
                let word = regions.claim(claim(self.at, bytes), ACCESS_READ | ACCESS_WRITE);
                (word.and_then(|word| update_word(word, operation)), None)
            }
        }
    }
}

fn claim(at: RemoteMemory, len: u64) -> Claim {
    let (region, generation) = (at.handle.region, at.handle.generation);
    Claim { region, generation, offset: at.offset, len, ptag: at.ptag }
}
