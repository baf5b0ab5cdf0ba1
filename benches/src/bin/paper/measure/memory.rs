//! The cost of preparing a message: a copy, or the registration of its buffer.

use std::hint::black_box;
use std::rc::Rc;
use std::time::Instant;

use am_examples::Failure;
use am_via::Task;
use am_via::device::shm::Shm;
use am_via_vipl::{MemAttributes, Memory, PTag, Posted, UserAgent, open_nic};

use super::{Control, Way, of_system};

pub(super) struct Copy {
    from: Vec<u8>,
    to: Vec<u8>,
}

impl Copy {
    pub(super) fn new(bytes_max: usize) -> Self {
        Self { from: vec![1; bytes_max], to: vec![2; bytes_max] }
    }
}

impl Way for Copy {
    fn batch(&mut self, _control: &mut Control, bytes: usize, times: u32) -> Result<f64, Failure> {
        let start = Instant::now();
        for _ in 0..times {
            black_box(&mut self.to[..bytes]).copy_from_slice(black_box(&self.from[..bytes]));
        }
        Ok(start.elapsed().as_nanos() as f64 / f64::from(times))
    }
}

/// The kind of the registered memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Private,
    Job,
}

pub(super) struct Register {
    nic: UserAgent<Shm>,
    tag: PTag,
    memory: Rc<Memory>,
}

impl Register {
    pub(super) fn new(task: &Task, kind: Kind, bytes_max: usize) -> Result<Self, Failure> {
        let mut nic = open_nic(task, "shm0").map_err(of_system)?;
        let tag = nic.create_ptag().map_err(of_system)?;
        let memory = match kind {
            Kind::Private => nic.alloc_private(bytes_max),
            Kind::Job => nic.alloc(bytes_max),
        };
        Ok(Self { nic, tag, memory: memory.map_err(of_system)? })
    }
}

impl Way for Register {
    fn batch(&mut self, _control: &mut Control, bytes: usize, times: u32) -> Result<f64, Failure> {
        let rights = MemAttributes { ptag: 0, rdma_write: true, rdma_read: true };
        let start = Instant::now();
        for _ in 0..times {
            let handle =
                self.nic.register_mem(&self.memory, (0, bytes), self.tag, rights).map_err(of_system)?;
            while self.nic.deregister_mem(handle).map_err(of_system)? == Posted::Retry {}
        }
        Ok(start.elapsed().as_nanos() as f64 / f64::from(times))
    }
}
