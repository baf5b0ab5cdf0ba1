//! Bounce buffers: job memory into which short data of one operation are copied, so that the peer takes them from there by a plain
//! copy. For private memory the other way is the kernel's copy, which takes microseconds before its first byte; two plain copies
//! take less, up to a length that the setting `bounce_bytes_max` names (MPICH2 over InfiniBand copies short data into registered
//! buffers for the same reason).
//!
//! The data of an operation do not change before it has ended, so a copy made when it begins says the same.

use std::collections::VecDeque;

use am_core::buffer::{Access, Grant, RawBuffer};

use super::{for_operation, mem_attributes, memory};
use am_via_vipl::DeviceError;
use am_via_vipl::below::{Device, HeapBlock, Nic};

/// Maximum number of buffers. A send that finds none free falls back to the kernel's copy.
const BUFFERS_MAX: usize = 64;
/// Number of buffers that are used in rotation. The peer has just read the last buffer, whose lines are in its cache; writing lines that
/// neither task has cached is faster.
const TURNS: usize = 16;
/// Number of operations after which a heap that had no memory for a buffer is asked again. Asking takes a lock.
const PATIENCE: u32 = 1 << 16;
/// Between two buffers, so that their first lines do not share a set of the cache.
const APART_BYTES: usize = 4096 + 64;

/// One buffer, and the grant by which peers read it: it stays from use to use.
#[derive(Debug)]
struct Bounce {
    block: HeapBlock,
    grant: Option<Grant>,
}

/// The bounce buffers of one NIC. They are made when they are first needed.
#[derive(Debug)]
pub(super) struct BounceBuffers {
    bytes_max: usize,
    buffers: Vec<Bounce>,
    /// Free buffers, the most recently used one last.
    free: VecDeque<usize>,
    /// Buffers of operations in flight, about in the order in which the operations began.
    in_use: Vec<(Grant, usize)>,
    /// Operations left before the heap is asked for one more.
    patience: u32,
}

impl BounceBuffers {
    /// Buffers of `bytes_max` bytes; none, if that is 0.
    pub(super) fn new(bytes_max: usize) -> Self {
        Self { bytes_max, buffers: Vec::new(), free: VecDeque::new(), in_use: Vec::new(), patience: 0 }
    }

    /// Copies `data` into a free buffer; the grant by which a peer reads them there, or `None`: they are too long, or there is no
    /// buffer.
    ///
    /// # Errors
    /// No registration is left.
    #[inline]
    pub(super) fn lend<D: Device>(
        &mut self,
        nic: &mut Nic<D>,
        data: RawBuffer,
    ) -> Result<Option<Grant>, DeviceError> {
        if data.len() > self.bytes_max {
            return Ok(None);
        }
        let Some(place) = self.free_one(nic) else { return Ok(None) };
        let buffer = &mut self.buffers[place];
        let grant = match buffer.grant {
            Some(grant) => grant,
            None => {
                match nic.device.register(buffer.block.range(), mem_attributes(Access::READ.for_operation()))
                {
                    Ok(handle) => *buffer.grant.insert(for_operation(handle)),
                    Err(error) => {
                        self.free.push_back(place);
                        return Err(error);
                    }
                }
            }
        };
        let fitted = buffer.block.range().copy_from(memory::range(data));
        debug_assert!(fitted, "a buffer has room for the longest data");
        self.in_use.push((grant, place));
        Ok(Some(grant))
    }

    /// A free buffer.
    #[inline]
    fn free_one<D: Device>(&mut self, nic: &mut Nic<D>) -> Option<usize> {
        if !self.free.is_empty() && self.buffers.len() >= TURNS {
            return self.free.pop_front();
        }
        if self.patience == 0 {
            let made = self.make(nic);
            if made.is_some() {
                return made;
            }
            self.patience = PATIENCE;
        }
        // The others go on taking turns.
        self.patience -= 1;
        self.free.pop_front()
    }

    /// One more buffer, if there may be more and the heap has room.
    #[cold]
    #[inline(never)]
    fn make<D: Device>(&mut self, nic: &mut Nic<D>) -> Option<usize> {
        if self.buffers.len() == BUFFERS_MAX {
            return None;
        }
        // A full heap is no error: the data then go another way.
        let block = nic.device.alloc(self.bytes_max + APART_BYTES).ok()?;
        self.buffers.push(Bounce { block, grant: None });
        Some(self.buffers.len() - 1)
    }

    /// The operation that had `grant` has ended; whether it was one of these.
    #[inline]
    pub(super) fn give_back(&mut self, grant: Grant) -> bool {
        let Some(index) = self.in_use.iter().position(|(used, _)| *used == grant) else { return false };
        let (_, place) = self.in_use.swap_remove(index);
        self.free.push_back(place);
        true
    }

    /// `grant` has been ended while a peer might have copied by it; the buffer gets a new one when it is used again.
    pub(super) fn ended(&mut self, grant: Grant) {
        for buffer in self.buffers.iter_mut().filter(|buffer| buffer.grant == Some(grant)) {
            buffer.grant = None;
        }
        let _ = self.give_back(grant);
    }
}

#[cfg(test)]
mod tests {
    use super::super::terms::handle;
    use super::*;
    use am_via_vipl::device::wire::{Wire, WireNetwork, WireOptions};
    use am_via_vipl::{NodeAddress, Posted};

    const BYTES_MAX: usize = 1000;

    fn nic() -> Nic<Wire> {
        let network = WireNetwork::new(WireOptions::new(1));
        Nic::open(network.open(NodeAddress { task: 0, context: 0 }).expect("each NIC is opened once"))
    }

    /// Lends a copy of `data`.
    fn lend(bounces: &mut BounceBuffers, nic: &mut Nic<Wire>, data: &[u8]) -> Option<Grant> {
        let block = HeapBlock::private(data.len()).expect("memory");
        block.range().copy_from_slice(data);
        bounces.lend(nic, memory::raw_buffer(block.range())).expect("registrations")
    }

    /// What a peer reads by `grant`.
    fn read(nic: &Nic<Wire>, grant: Grant, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        nic.device
            .registered(handle(grant), 0, len as u64, mem_attributes(Access::READ.for_operation()))
            .expect("a lent buffer can be read")
            .copy_to_slice(&mut bytes);
        bytes
    }

    #[test]
    fn what_is_lent_says_the_same_until_it_is_given_back() {
        let (mut nic, mut bounces) = (nic(), BounceBuffers::new(BYTES_MAX));
        let mut lent = Vec::new();
        for value in 0..BUFFERS_MAX as u8 {
            let data = vec![value; BYTES_MAX - usize::from(value)];
            let grant = lend(&mut bounces, &mut nic, &data).expect("a buffer");
            assert!(grant.is_for_operation());
            lent.push((grant, data));
        }
        for (grant, data) in &lent {
            assert_eq!(&read(&nic, *grant, data.len()), data);
        }
        let data = [7; 10];
        assert_eq!(lend(&mut bounces, &mut nic, &data), None, "all are in use");
        let (given_back, _) = lent.remove(5);
        assert!(bounces.give_back(given_back) && !bounces.give_back(given_back));
        let again = lend(&mut bounces, &mut nic, &data);
        assert_eq!(again, Some(given_back), "the grant stays with its buffer");
        assert_eq!(read(&nic, given_back, data.len()), data);
    }

    #[test]
    fn a_few_take_turns_and_longer_data_go_another_way() {
        let (mut nic, mut bounces) = (nic(), BounceBuffers::new(BYTES_MAX));
        let mut seen = Vec::new();
        for _ in 0..3 * TURNS {
            let grant = lend(&mut bounces, &mut nic, &[1; BYTES_MAX]).expect("a buffer");
            assert!(bounces.give_back(grant));
            seen.push(grant);
        }
        assert_eq!(seen[..TURNS], seen[TURNS..2 * TURNS]);
        assert!((1..TURNS).all(|turn| !seen[..turn].contains(&seen[turn])));
        assert_eq!(lend(&mut bounces, &mut nic, &[1; BYTES_MAX + 1]), None);
        assert_eq!(lend(&mut BounceBuffers::new(0), &mut nic, &[1]), None);
    }

    #[test]
    fn a_heap_that_had_no_room_is_asked_again_after_a_while_only() {
        let (mut nic, mut bounces) = (nic(), BounceBuffers::new(usize::MAX / 2));
        assert_eq!(lend(&mut bounces, &mut nic, &[1; 8]), None, "no heap has so much");
        bounces.bytes_max = BYTES_MAX;
        for _ in 1..PATIENCE {
            assert!(bounces.free_one(&mut nic).is_none(), "it is not asked");
        }
        assert!(lend(&mut bounces, &mut nic, &[1; 8]).is_some());
    }

    #[test]
    fn a_grant_that_ended_in_use_is_never_lent_again() {
        let (mut nic, mut bounces) = (nic(), BounceBuffers::new(BYTES_MAX));
        let given_up = lend(&mut bounces, &mut nic, &[1; 8]).expect("a buffer");
        let ended = nic.device.deregister(handle(given_up), true).expect("it is registered");
        assert_eq!(ended, Posted::Done);
        bounces.ended(given_up);
        for _ in 0..2 * TURNS {
            let grant = lend(&mut bounces, &mut nic, &[2; 8]).expect("a buffer");
            assert_ne!(grant, given_up);
            assert_eq!(read(&nic, grant, 8), [2; 8]);
            assert!(bounces.give_back(grant));
        }
    }
}
