//! Writes, reads and atomics of registered memory. The network carries them out like the NIC of the memory's owner: the owner need not
//! poll.

use am_contract::transfer::AtomicOp;
use am_via_nic::{ClaimFault, Endpoint, TaskId};
use am_via_shm::layout::{ACCESS_READ, ACCESS_WRITE};
use am_via_shm::regions::{Claim, update_word};
use am_via_shm::{HeldRange, PrivateBytes, PrivateRegions};

/// A transfer in flight.
#[derive(Debug)]
pub(super) struct Transfer {
    /// The NIC that asked for the transfer.
    pub(super) by: Endpoint,
    /// The memory's owner, and the claim with the length of the bytes.
    pub(super) at: (TaskId, Claim),
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
    Atomic(AtomicOp),
}

/// How a transfer ended.
#[derive(Debug)]
pub(super) struct Ended {
    /// The old value of an atomic, or the fault.
    pub(super) result: Result<u64, ClaimFault>,
    /// The bytes of a read, and their destination.
    pub(super) read: Option<(PrivateBytes, HeldRange)>,
}

impl Ended {
    /// Copies the bytes of a read to their destination, and returns the result. Called by the NIC that asked for the transfer, which is
    /// about to report the end.
    pub(super) fn store(self) -> Result<u64, ClaimFault> {
        if let Some((bytes, to)) = self.read {
            // SAFETY: live and unused until the end of the read is reported (`rdma_read`'s contract).
            let fitted = unsafe { to.range() }.copy_from(bytes.range());
            debug_assert!(fitted, "as many bytes were read as were asked for");
        }
        self.result
    }
}

impl From<Result<u64, ClaimFault>> for Ended {
    fn from(result: Result<u64, ClaimFault>) -> Self {
        Self { result, read: None }
    }
}

impl Transfer {
    /// Carries out the transfer. `regions` is the table of the memory's owner, `None` if that task is dead.
    pub(super) fn carry_out(self, regions: Option<&PrivateRegions>) -> Ended {
        let Some(regions) = regions else { return Err(ClaimFault::PeerDead).into() };
        let (_, claim) = self.at;
        match self.kind {
            Kind::Write(bytes) => {
                let to = regions.claim(claim, ACCESS_WRITE);
                to.map(|to| u64::from(!to.copy_from(bytes.range()))).into()
            }
            Kind::Read(to) => {
                match regions.claim(claim, ACCESS_READ).map(|from| (from, PrivateBytes::new(from.len()))) {
                    Ok((from, Some(bytes))) if bytes.range().copy_from(from) => {
                        Ended { result: Ok(0), read: Some((bytes, to)) }
                    }
                    // No memory for the bytes: reported as a stale registration.
                    Ok(_) => Err(ClaimFault::Stale).into(),
                    Err(fault) => Err(fault).into(),
                }
            }
            Kind::Atomic(operation) => {
                let word = regions.claim(claim, ACCESS_READ | ACCESS_WRITE);
                word.and_then(|word| update_word(word, operation)).into()
            }
        }
    }
}
