//! The state of one side of a check: its NIC, the line to the other side, and all objects that the check creates, so that they can be
//! destroyed afterwards.

use std::fmt::Debug;
use std::panic::Location;
use std::rc::Rc;
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};

use am_double::wire::WireStatistics;
use am_via_nic::Device;
use am_via_nic::device::{DeviceError, Endpoint, MemAttributes, MemHandle, TaskId};
use am_via_vipl::{
    AsyncCode, AsyncError, CqHandle, DataSegment, Descriptor, Discriminator, PostError, Posted, Reliability,
    Status, UserAgent, ViAttributes, ViHandle, ViState, VipError, VipReturn,
};
use am_via_vipl::{Memory, PTag};

use super::Terms;
use super::line::{Line, Word};

/// How long a task works before [`Pair::die_soon`] ends it.
pub(super) const DIES_AFTER: Duration = Duration::from_millis(20);

/// The reason why a check stopped.
#[derive(Debug)]
pub(super) enum Stop {
    /// A result differs from the expected one.
    Failed(String),
    /// The other side has ended the check before this one.
    OtherSide,
}

/// The result of a check.
pub(super) type Outcome<T = ()> = Result<T, Stop>;

#[track_caller]
pub(super) fn fail<T>(what: impl Into<String>) -> Outcome<T> {
    let at = Location::caller();
    let file = at.file().rsplit('/').next().unwrap_or_default();
    Err(Stop::Failed(format!("{} ({file}:{})", what.into(), at.line())))
}

#[track_caller]
pub(super) fn ensure(is_so: bool, what: &str) -> Outcome {
    if is_so { Ok(()) } else { fail(what) }
}

#[track_caller]
pub(super) fn same<T: PartialEq + Debug>(found: T, expected: T, what: &str) -> Outcome {
    if found == expected { Ok(()) } else { fail(format!("{what}: {found:?} instead of {expected:?}")) }
}

/// Checks that the call was refused with this code.
#[track_caller]
pub(super) fn refused<T, E: Into<VipError>>(result: Result<T, E>, code: VipReturn) -> Outcome {
    match result.map_err(Into::into) {
        Ok(_) => fail(format!("the call succeeded instead of failing with {code:?}")),
        Err(error) => same(error.vip_return(), code, &format!("the refusal \"{error}\"")),
    }
}

impl From<VipError> for Stop {
    #[track_caller]
    fn from(error: VipError) -> Self {
        let at = Location::caller();
        let file = at.file().rsplit('/').next().unwrap_or_default();
        Self::Failed(format!("{error} ({file}:{})", at.line()))
    }
}

impl From<PostError> for Stop {
    #[track_caller]
    fn from(error: PostError) -> Self {
        error.error.into()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    /// Task 0.
    A,
    /// Task 1.
    B,
}

/// Registered memory.
#[derive(Clone, Debug)]
pub(super) struct Region {
    pub(super) memory: Rc<Memory>,
    pub(super) handle: MemHandle,
}

impl Region {
    pub(super) fn segment(&self, offset: u64, length: u32) -> DataSegment {
        DataSegment { handle: self.handle, offset, length }
    }

    /// Fills the region with bytes that depend on `seed` and their offset.
    pub(super) fn fill(&self, seed: u64) -> Outcome {
        let bytes = pattern(seed, 0, self.memory.len());
        self.memory.write(0, &bytes).map_or_else(|| fail("writing the whole region failed"), Ok)
    }

    pub(super) fn bytes(&self, offset: usize, len: usize) -> Outcome<Vec<u8>> {
        let mut bytes = vec![0; len];
        match self.memory.read(offset, &mut bytes) {
            Some(()) => Ok(bytes),
            None => fail("reading the whole region failed"),
        }
    }

    /// Asserts that `len` bytes at `offset` are those that [`fill`](Self::fill) writes at offset `from`.
    #[track_caller]
    pub(super) fn must_hold(&self, offset: usize, len: usize, seed: u64, from: usize) -> Outcome {
        let (bytes, expected) = (self.bytes(offset, len)?, pattern(seed, from, len));
        if bytes == expected {
            return Ok(());
        }
        let at = (0..len).find(|&at| bytes[at] != expected[at]).unwrap_or_default();
        fail(format!("byte {at} of {len} is {}", bytes[at]))
    }

    /// Asserts that all bytes are zero.
    #[track_caller]
    pub(super) fn must_be_untouched(&self) -> Outcome {
        let bytes = self.bytes(0, self.memory.len())?;
        ensure(bytes == vec![0; bytes.len()], "memory that must not change was changed")
    }
}

/// `len` bytes that depend on `seed` and their offset, from an offset on.
fn pattern(seed: u64, from: usize, len: usize) -> Vec<u8> {
    /// The bytes repeat after this length: a byte depends on the lowest 11 bits of its offset.
    const PERIOD: usize = 1 << 11;
    let of = |at| seed.wrapping_mul(0x9e37_79b9) ^ (at as u64).wrapping_mul(0x0101_0193) >> 3;
    let period: Vec<u8> = (from..from + len.min(PERIOD)).map(|at| of(at).to_le_bytes()[0]).collect();
    // By the standard library, which is optimised in unoptimised builds, too.
    let mut bytes = period.repeat(len.div_ceil(PERIOD));
    bytes.truncate(len);
    bytes
}

/// A function that opens another NIC by a number or name.
type Open<Name, Nic, Fault> = Box<dyn FnMut(Name) -> Result<Nic, Fault>>;

/// A function that opens a NIC by its name.
type OpenByName<D> = Box<dyn FnMut(&str) -> Result<UserAgent<D>, VipError>>;

/// Functions that open other NICs of this side.
pub(super) struct Opener<D: Device> {
    /// Opens the bare device with a context number.
    pub(super) device: Open<u8, D, DeviceError>,
    /// Opens the NIC with a context number.
    pub(super) nic: Open<u8, UserAgent<D>, VipError>,
    /// Opens a NIC by its name, as programs do; `None` if NICs have no names.
    pub(super) by_name: Option<OpenByName<D>>,
}

/// One side of a check.
pub(super) struct Pair<D: Device> {
    pub(super) nic: UserAgent<D>,
    pub(super) side: Side,
    /// Equal on both sides.
    pub(super) terms: Terms,
    /// The protection tag of the objects that the helpers create.
    pub(super) tag: PTag,
    opener: Opener<D>,
    /// Ends this task, as a crash would.
    pub(super) die: Box<dyn FnMut()>,
    /// Ends this task after [`DIES_AFTER`], whatever it does then.
    pub(super) die_soon: Box<dyn FnMut()>,
    /// Statistics of the emulated wire.
    pub(super) statistics: Option<Box<dyn Fn() -> WireStatistics>>,
    pub(super) line: Line,
    /// Set when the other side has ended the check before this one.
    pub(super) ended: Option<Word>,
    vis: Vec<ViHandle>,
    cqs: Vec<CqHandle>,
    regions: Vec<MemHandle>,
}

impl<D: Device> Pair<D> {
    pub(super) fn new(
        mut nic: UserAgent<D>,
        side: Side,
        terms: Terms,
        line: Line,
        opener: Opener<D>,
    ) -> Outcome<Self> {
        let tag = nic.create_ptag()?;
        Ok(Self {
            nic,
            side,
            terms,
            tag,
            opener,
            die: Box::new(|| {}),
            die_soon: Box::new(|| {}),
            statistics: None,
            line,
            ended: None,
            vis: Vec::new(),
            cqs: Vec::new(),
            regions: Vec::new(),
        })
    }

    /// Opens another NIC of this side.
    pub(super) fn open(&mut self, context: u8) -> Result<UserAgent<D>, VipError> {
        (self.opener.nic)(context)
    }

    /// Opens the NIC of this name; `None` if NICs have no names.
    pub(super) fn open_by_name(&mut self, name: &str) -> Option<Result<UserAgent<D>, VipError>> {
        self.opener.by_name.as_mut().map(|open| open(name))
    }

    /// Opens the bare device of another NIC of this side.
    pub(super) fn open_device(&mut self, context: u8) -> Outcome<D> {
        Ok((self.opener.device)(context).map_err(VipError::from)?)
    }

    pub(super) fn is_a(&self) -> bool {
        self.side == Side::A
    }

    /// The address of the other side's NIC with the same context number.
    pub(super) fn other(&self) -> Endpoint {
        let own = self.nic.address();
        Endpoint { task: TaskId(1 - own.task.0), ..own }
    }

    /// Attributes with reliable delivery and all operations allowed.
    pub(super) fn delivery(&self) -> ViAttributes {
        ViAttributes::new(self.tag)
    }

    pub(super) fn reception(&self) -> ViAttributes {
        ViAttributes { reliability: Reliability::ReliableReception, ..self.delivery() }
    }

    pub(super) fn unreliable(&self) -> ViAttributes {
        ViAttributes { reliability: Reliability::Unreliable, rdma_read: false, ..self.delivery() }
    }

    pub(super) fn vi(&mut self, attributes: ViAttributes) -> Outcome<ViHandle> {
        self.vi_with(attributes, None, None)
    }

    pub(super) fn vi_with(
        &mut self,
        attributes: ViAttributes,
        send_cq: Option<CqHandle>,
        receive_cq: Option<CqHandle>,
    ) -> Outcome<ViHandle> {
        let vi = self.nic.create_vi(attributes, send_cq, receive_cq)?;
        self.vis.push(vi);
        Ok(vi)
    }

    /// Records a VI that was not created by the helpers, so that it is destroyed at the end.
    pub(super) fn adopt(&mut self, vi: ViHandle) {
        self.vis.push(vi);
    }

    pub(super) fn cq(&mut self, entries: u32) -> Outcome<CqHandle> {
        let cq = self.nic.create_cq(entries)?;
        self.cqs.push(cq);
        Ok(cq)
    }

    /// Zeroed memory that peers may read and write.
    pub(super) fn region(&mut self, len: usize) -> Outcome<Region> {
        self.region_with(len, self.tag, Self::all_rights())
    }

    pub(super) fn all_rights() -> MemAttributes {
        MemAttributes { ptag: 0, rdma_write: true, rdma_read: true }
    }

    pub(super) fn region_with(&mut self, len: usize, tag: PTag, rights: MemAttributes) -> Outcome<Region> {
        let memory = self.nic.alloc(len)?;
        self.register(&memory, (0, len), tag, rights)
    }

    pub(super) fn register(
        &mut self,
        memory: &Rc<Memory>,
        range: (usize, usize),
        tag: PTag,
        rights: MemAttributes,
    ) -> Outcome<Region> {
        let handle = self.nic.register_mem(memory, range, tag, rights)?;
        self.regions.push(handle);
        Ok(Region { memory: Rc::clone(memory), handle })
    }

    /// Deregisters memory, and waits for pending transfers.
    pub(super) fn deregister(&mut self, handle: MemHandle) -> Outcome {
        self.until("the end of a registration", |pair| {
            Ok((pair.nic.deregister_mem(handle)? == Posted::Done).then_some(()))
        })
    }

    /// A VI connected to one of the other side, which must make the same call.
    pub(super) fn connected(&mut self, attributes: ViAttributes) -> Outcome<ViHandle> {
        let vi = self.vi(attributes)?;
        self.connect(vi)?;
        Ok(vi)
    }

    pub(super) fn connect(&mut self, vi: ViHandle) -> Outcome {
        let other = self.other();
        self.nic.connect_peer_request(vi, Discriminator::default(), other, Some(self.terms.patience))?;
        self.nic.connect_peer_wait(vi)?;
        // Waits until both sides are connected, before either may disconnect.
        self.sync()
    }

    /// Waits for a descriptor that completes on the receive queue.
    pub(super) fn received(&mut self, vi: ViHandle) -> Outcome<Box<Descriptor>> {
        Ok(self.nic.recv_wait(vi, Some(self.terms.patience))?)
    }

    /// Waits for a descriptor that completes on the send queue.
    pub(super) fn sent(&mut self, vi: ViHandle) -> Outcome<Box<Descriptor>> {
        Ok(self.nic.send_wait(vi, Some(self.terms.patience))?)
    }

    pub(super) fn post_send(&mut self, vi: ViHandle, descriptor: Box<Descriptor>) -> Outcome {
        Ok(self.nic.post_send(vi, descriptor)?)
    }

    pub(super) fn post_recv(&mut self, vi: ViHandle, descriptor: Box<Descriptor>) -> Outcome {
        Ok(self.nic.post_recv(vi, descriptor)?)
    }

    /// Waits for the next send, which must complete without an error.
    #[track_caller]
    pub(super) fn sent_well(&mut self, vi: ViHandle) -> Outcome<Box<Descriptor>> {
        let done = self.nic.send_wait(vi, Some(self.terms.patience))?;
        ensure(done.status().is_success(), &format!("a send ended as {:?}", done.status()))?;
        Ok(done)
    }

    /// Waits for the next receive, which must complete without an error.
    #[track_caller]
    pub(super) fn received_well(&mut self, vi: ViHandle) -> Outcome<Box<Descriptor>> {
        let done = self.nic.recv_wait(vi, Some(self.terms.patience))?;
        ensure(done.status().is_success(), &format!("a receive ended as {:?}", done.status()))?;
        Ok(done)
    }

    pub(super) fn state(&self, vi: ViHandle) -> Outcome<ViState> {
        Ok(self.nic.query_vi(vi)?.state)
    }

    pub(super) fn until_state(&mut self, vi: ViHandle, state: ViState) -> Outcome {
        self.until(&format!("state {state:?}"), |pair| Ok((pair.state(vi)? == state).then_some(())))
    }

    /// Waits for the next asynchronous error, which must have this code. The wait makes progress.
    #[track_caller]
    pub(super) fn async_error(&mut self, code: AsyncCode) -> Outcome<AsyncError> {
        let error = self.until(&format!("{code:?}"), |pair| Ok(pair.nic.next_error()))?;
        same(error.code, code, "the asynchronous error")?;
        Ok(error)
    }

    /// How long a check waits for an event.
    pub(super) fn patience(&self) -> Duration {
        self.terms.patience
    }

    /// Makes progress until `look` finds something, for at most [`Self::patience`]. `what` names it in the failure.
    #[track_caller]
    pub(super) fn until<T>(
        &mut self,
        what: &str,
        mut look: impl FnMut(&mut Self) -> Outcome<Option<T>>,
    ) -> Outcome<T> {
        let start = Instant::now();
        loop {
            if let Some(found) = look(self)? {
                return Ok(found);
            }
            if start.elapsed() > self.terms.patience {
                return fail(format!("waited {:?} for {what}, and it did not happen", self.terms.patience));
            }
            self.nic.progress();
            std::thread::yield_now();
        }
    }

    /// A barrier of both sides, with progress.
    pub(super) fn sync(&mut self) -> Outcome {
        self.swap(&[]).map(drop)
    }

    /// A barrier without progress: no arrived message is processed.
    pub(super) fn sync_still(&mut self) -> Outcome {
        self.line.say(Word::Numbers(Vec::new()));
        self.heard(self.terms.patience)?
            .map_or_else(|| fail("the other side did not arrive in time"), |_| Ok(()))
    }

    /// Sends numbers to the other side, and receives its numbers.
    pub(super) fn swap(&mut self, numbers: &[u64]) -> Outcome<Vec<u64>> {
        self.line.say(Word::Numbers(numbers.to_vec()));
        let start = Instant::now();
        loop {
            if let Some(numbers) = self.heard(Duration::from_micros(20))? {
                return Ok(numbers);
            }
            if start.elapsed() > self.terms.patience * 2 {
                return fail("the other side did not arrive in time");
            }
            self.nic.progress();
        }
    }

    /// Destroys all objects that the check has created. An object that can't be destroyed is a failure.
    pub(super) fn sweep(&mut self) -> Outcome {
        self.nic.error_callback(None);
        for vi in std::mem::take(&mut self.vis) {
            let Ok(info) = self.nic.query_vi(vi) else { continue };
            if info.state != ViState::Idle {
                self.nic.disconnect(vi)?;
            } else if !info.send_queue_empty || !info.receive_queue_empty {
                // An idle VI keeps its receives; a connection request that is withdrawn flushes them.
                let other = self.other();
                self.nic.connect_peer_request(vi, Discriminator::new(b"sweep")?, other, None)?;
                self.nic.disconnect(vi)?;
            }
            while self.nic.send_done(vi)?.is_some() || self.nic.recv_done(vi)?.is_some() {}
            self.nic.destroy_vi(vi)?;
        }
        for handle in std::mem::take(&mut self.regions) {
            if self.nic.query_mem(handle).is_ok() {
                self.deregister(handle)?;
            }
        }
        for cq in std::mem::take(&mut self.cqs) {
            match self.nic.destroy_cq(cq) {
                Ok(()) | Err(VipError::UnknownHandle { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        while self.nic.next_error().is_some() {}
        Ok(())
    }

    fn heard(&mut self, patience: Duration) -> Outcome<Option<Vec<u64>>> {
        match self.line.hear(patience) {
            Ok(Word::Numbers(numbers)) => Ok(Some(numbers)),
            Ok(word @ (Word::Done(_) | Word::Verdict { .. })) => {
                self.ended = Some(word);
                Err(Stop::OtherSide)
            }
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => fail("the other side is gone"),
        }
    }

    /// Sends the handle of this side's memory to the other side, and receives the other side's handle.
    pub(super) fn swap_handle(&mut self, handle: MemHandle) -> Outcome<MemHandle> {
        let numbers = self.swap(&[u64::from(handle.region), u64::from(handle.generation)])?;
        match numbers.as_slice() {
            &[region, generation] => match (u32::try_from(region), u32::try_from(generation)) {
                (Ok(region), Ok(generation)) => Ok(MemHandle { region, generation }),
                _ => fail("a handle has two words of 32 bits"),
            },
            _ => fail("the other side sent an unexpected message"),
        }
    }
}

/// The status of a flushed descriptor.
pub(super) fn flushed(operation: Status) -> Status {
    Status::DONE | operation | Status::DESC_FLUSHED_ERROR
}

/// The status of a descriptor that completed without an error.
pub(super) fn success(operation: Status) -> Status {
    Status::DONE | operation
}
