//! VIA itself, by descriptors: send and receive, RDMA, and a rendezvous in the three variants of the MPICH2 paper.

use std::error::Error;
use std::rc::Rc;
use std::time::{Duration, Instant};

use am_examples::Failure;
use am_via::Task;
use am_via::device::shm::Shm;
use am_via_vipl::{
    AddressSegment, DataSegment, Descriptor, Discriminator, MemAttributes, MemHandle, Memory, PTag, Posted,
    UserAgent, ViAttributes, ViHandle, open_nic,
};

use super::{Control, Way, wrong_byte};

/// Number of receives that are always posted: more than a rendezvous and the next message need.
const RECEIVES: usize = 16;
/// Limit for a wait, reached only if the other task has died.
const PATIENCE: Option<Duration> = Some(Duration::from_secs(60));
const RIGHTS: MemAttributes = MemAttributes { ptag: 0, rdma_write: true, rdma_read: true };
/// Bytes of a memory handle in a message.
const HANDLE_BYTES: usize = 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    /// From registered memory into a posted receive.
    Send,
    /// From registered memory into the peer's, with immediate data.
    Write,
    /// Like `Send`, copied from and to the program's buffers.
    Copied,
    /// Announced, then written from buffer to buffer, with a registration before and a deregistration after.
    Registered,
    /// Like `Registered`, but with registrations that are kept for later messages.
    Kept,
}

/// Memory, and its registration if it has one.
struct Region {
    memory: Rc<Memory>,
    handle: Option<MemHandle>,
}

pub(super) struct Via {
    operation: Operation,
    nic: UserAgent<Shm>,
    vi: ViHandle,
    tag: PTag,
    begins: bool,
    /// The buffers for sending and receiving.
    outbox: Region,
    inbox: Region,
    /// The peer's inbox.
    theirs: MemHandle,
    /// The program's buffers, which are not registered at first.
    from: Region,
    to: Region,
    /// The program's buffer for the variant that copies.
    user: Vec<u8>,
}

type Result<T, E = Box<dyn Error>> = std::result::Result<T, E>;

impl Via {
    pub(super) fn new(
        task: &Task,
        operation: Operation,
        bytes_max: usize,
    ) -> std::result::Result<Self, Failure> {
        Self::open(task, operation, bytes_max.max(HANDLE_BYTES)).map_err(of_via)
    }

    fn open(task: &Task, operation: Operation, bytes_max: usize) -> Result<Self> {
        let mut nic = open_nic(task, "shm0")?;
        let tag = nic.create_ptag()?;
        let length = u32::try_from(bytes_max).map_err(|_| "a descriptor's length has 32 bits")?;
        let mut area = || -> Result<(Region, MemHandle)> {
            let memory = nic.alloc(bytes_max)?;
            let handle = nic.register_mem(&memory, (0, bytes_max), tag, RIGHTS)?;
            Ok((Region { memory, handle: Some(handle) }, handle))
        };
        let ((outbox, _), (inbox, landing)) = (area()?, area()?);
        let from = Region { memory: nic.alloc_private(bytes_max)?, handle: None };
        let to = Region { memory: nic.alloc_private(bytes_max)?, handle: None };
        nic.ns_init()?;
        let peer = nic.host_by_name(if task.number() == 0 { "task1" } else { "task0" }, 0)?;
        let vi = nic.create_vi(ViAttributes::new(tag), None, None)?;
        let whole = DataSegment { handle: landing, offset: 0, length };
        for _ in 0..RECEIVES {
            nic.post_recv(vi, Descriptor::receive().with_segment(whole))?;
        }
        nic.connect_peer_request(vi, Discriminator::default(), peer, PATIENCE)?;
        nic.connect_peer_wait(vi)?;
        let begins = task.number() == 0;
        let user = vec![0; bytes_max];
        let mut via =
            Self { operation, nic, vi, tag, begins, outbox, inbox, theirs: landing, from, to, user };
        via.send_handle(landing)?;
        via.theirs = via.receive_handle()?;
        Ok(via)
    }

    /// Posts a send, or an RDMA write with immediate data, from `source`, and waits until it is done.
    fn post(&mut self, descriptor: Box<Descriptor>, source: MemHandle, bytes: usize) -> Result<()> {
        let length = u32::try_from(bytes).map_err(|_| "a descriptor's length has 32 bits")?;
        let segment = DataSegment { handle: source, offset: 0, length };
        self.nic.post_send(self.vi, descriptor.with_segment(segment))?;
        let done = self.nic.send_wait(self.vi, PATIENCE)?;
        if done.status().is_success() {
            Ok(())
        } else {
            Err(format!("a descriptor ended as {:?}", done.status()).into())
        }
    }

    /// Waits for a receive and posts it again.
    fn receive(&mut self) -> Result<()> {
        let done = self.nic.recv_wait(self.vi, PATIENCE)?;
        if !done.status().is_success() {
            return Err(format!("a receive ended as {:?}", done.status()).into());
        }
        Ok(self.nic.post_recv(self.vi, done.again())?)
    }

    fn send_handle(&mut self, handle: MemHandle) -> Result<()> {
        let mut bytes = [0; HANDLE_BYTES];
        bytes[..4].copy_from_slice(&handle.region.to_le_bytes());
        bytes[4..].copy_from_slice(&handle.generation.to_le_bytes());
        write(&self.outbox, 0, &bytes)?;
        self.send_outbox(HANDLE_BYTES)
    }

    fn send_outbox(&mut self, bytes: usize) -> Result<()> {
        let handle = registered(&self.outbox)?;
        self.post(Descriptor::send(), handle, bytes)
    }

    fn receive_handle(&mut self) -> Result<MemHandle> {
        self.receive()?;
        let mut bytes = [0; HANDLE_BYTES];
        read(&self.inbox, 0, &mut bytes)?;
        let [a, b, c, d, e, f, g, h] = bytes;
        Ok(MemHandle {
            region: u32::from_le_bytes([a, b, c, d]),
            generation: u32::from_le_bytes([e, f, g, h]),
        })
    }

    fn send(&mut self, bytes: usize, mark: u8) -> Result<()> {
        match self.operation {
            Operation::Send => {
                write(&self.outbox, bytes - 1, &[mark])?;
                self.send_outbox(bytes)
            }
            Operation::Write => {
                write(&self.outbox, bytes - 1, &[mark])?;
                self.write_to(self.theirs, registered(&self.outbox)?, bytes)
            }
            Operation::Copied => {
                self.user[bytes - 1] = mark;
                write(&self.outbox, 0, &self.user[..bytes])?;
                self.send_outbox(bytes)
            }
            Operation::Registered | Operation::Kept => {
                write(&self.from, bytes - 1, &[mark])?;
                self.send_outbox(HANDLE_BYTES)?;
                let target = self.receive_handle()?;
                let source = register(&mut self.nic, self.tag, &mut self.from)?;
                self.write_to(target, source, bytes)?;
                self.deregister(|via| &mut via.from)
            }
        }
    }

    fn write_to(&mut self, target: MemHandle, source: MemHandle, bytes: usize) -> Result<()> {
        let place = AddressSegment { handle: target, offset: 0 };
        self.post(Descriptor::rdma_write(place).with_immediate(1), source, bytes)
    }

    fn arrive(&mut self, bytes: usize, mark: u8) -> Result<()> {
        let mut last = [0];
        match self.operation {
            Operation::Send | Operation::Write => {
                self.receive()?;
                read(&self.inbox, bytes - 1, &mut last)?;
            }
            Operation::Copied => {
                self.receive()?;
                read(&self.inbox, 0, &mut self.user[..bytes])?;
                last = [self.user[bytes - 1]];
            }
            Operation::Registered | Operation::Kept => {
                self.receive()?;
                let target = register(&mut self.nic, self.tag, &mut self.to)?;
                self.send_handle(target)?;
                self.receive()?;
                self.deregister(|via| &mut via.to)?;
                read(&self.to, bytes - 1, &mut last)?;
            }
        }
        if last[0] == mark { Ok(()) } else { Err(wrong_byte(bytes, last[0], mark).into()) }
    }

    fn round_trip(&mut self, bytes: usize, mark: u8) -> Result<()> {
        if self.begins {
            self.send(bytes, mark)?;
            self.arrive(bytes, mark)
        } else {
            self.arrive(bytes, mark)?;
            self.send(bytes, mark)
        }
    }

    /// Ends a registration that is not kept.
    fn deregister(&mut self, region: fn(&mut Self) -> &mut Region) -> Result<()> {
        if self.operation == Operation::Kept {
            return Ok(());
        }
        let Some(handle) = region(self).handle.take() else { return Ok(()) };
        while self.nic.deregister_mem(handle)? == Posted::Retry {}
        Ok(())
    }
}

/// The registration of `region`, made now if there is none. It covers the whole region, as in a cache of registrations.
fn register(nic: &mut UserAgent<Shm>, tag: PTag, region: &mut Region) -> Result<MemHandle> {
    if let Some(handle) = region.handle {
        return Ok(handle);
    }
    let handle = nic.register_mem(&region.memory, (0, region.memory.len()), tag, RIGHTS)?;
    region.handle = Some(handle);
    Ok(handle)
}

fn registered(region: &Region) -> Result<MemHandle> {
    region.handle.ok_or_else(|| "this memory was registered when the NIC was opened".into())
}

fn of_via(error: Box<dyn Error>) -> Failure {
    Failure::Library { fault: "VIA, or how this program uses it", error }
}

fn write(region: &Region, offset: usize, bytes: &[u8]) -> Result<()> {
    region.memory.write(offset, bytes).ok_or_else(|| "a write beyond the memory".into())
}

fn read(region: &Region, offset: usize, bytes: &mut [u8]) -> Result<()> {
    region.memory.read(offset, bytes).ok_or_else(|| "a read beyond the memory".into())
}

impl Way for Via {
    fn batch(
        &mut self,
        _control: &mut Control,
        bytes: usize,
        times: u32,
    ) -> std::result::Result<f64, Failure> {
        let start = Instant::now();
        for round in 0..times {
            let mark = round.to_le_bytes()[0];
            self.round_trip(bytes, mark).map_err(of_via)?;
        }
        Ok(start.elapsed().as_nanos() as f64 / f64::from(2 * times))
    }
}
