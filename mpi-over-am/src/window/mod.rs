//! One-sided communication (MPI 5.0 chapter 12): windows on the memory of other tasks, over am-core's put, get and rmw.
//!
//! When a put or get returns, it no longer uses the origin's memory. If peers can map or copy each other's memory, the operation is then
//! complete, without a call by the target. A flush waits for puts that had to be sent as messages. Updates ([`Window::accumulate_data`] and
//! the like) are done when they return.

mod accumulate;
mod common_memory;
mod dynamic;
mod epoch;
mod lock;
mod owned;
mod pieces_by_owner;
mod puts;
mod queue;
mod shared;
mod transfer;

use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, AtomicU8, Ordering};

use am_core::buffer::{Access, Exposed, JobBuffer, RemoteAddress};
use am_core::counter::Counter;
use am_core::fabric::Fabric;
use am_core::task::Endpoint;
use bytemuck::{AnyBitPattern, NoUninit};

use crate::communicator::attribute::ObjectKind;
use crate::communicator::error_handler::ErrorHandler;
use crate::communicator::info::Info;
use crate::communicator::properties::Properties;
use crate::communicator::{Communicator, tasks_of};
use crate::data::buffer::WindowMemory;
use crate::error::{Error, ErrorClass, Result};
use crate::job::JobFabric;
use crate::message::handlers::PartByOwner;
use crate::policy::{Field, LockPolicy, OneThread};
use crate::request::remote::{from_words, to_words};

pub use accumulate::Number;
use common_memory::CommonMemory;
pub use epoch::Assertion;
use epoch::Epochs;
pub use mpi_datatype::op::Word;
use pieces_by_owner::{ByOwner, name_of, words_at, words_bytes};
pub(crate) use puts::Batch;
use puts::Puts;
pub use queue::Lock;
use queue::LockQueue;
pub use shared::SharedWindow;
pub use transfer::TargetData;

use common_memory::Part;
use dynamic::{Attachments, Directory};

/// The origin of a window's memory (`MPI_WIN_CREATE_FLAVOR`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flavor {
    /// Supplied by the program (`MPI_WIN_FLAVOR_CREATE`).
    Created,
    /// Allocated by the library (`MPI_WIN_FLAVOR_ALLOCATE`).
    Allocated,
    /// Attached and detached at any time (`MPI_WIN_FLAVOR_DYNAMIC`).
    Dynamic,
    /// Allocated by the library, for loads and stores of all tasks (`MPI_WIN_FLAVOR_SHARED`).
    Shared,
}

/// A window (`MPI_Win`): memory of each task of a communicator that the other tasks can access.
///
/// The public and the private copy of the memory are the same (`MPI_WIN_UNIFIED`).
#[derive(Debug)]
pub struct Window<F: Fabric = JobFabric, L: LockPolicy = OneThread> {
    communicator: Communicator<F, L>,
    flavor: Flavor,
    memory: Option<Arc<Exposed>>,
    /// The memory of all parts, if this task has mapped it.
    common: Option<CommonMemory>,
    /// The start of the memory, for the layer above.
    base: AtomicPtr<u8>,
    control: Arc<Exposed>,
    peers: Vec<Peer>,
    /// The tasks of the window, by rank.
    endpoints: Arc<[Endpoint]>,
    puts: L::Field<Puts>,
    by_owner: L::Field<ByOwner>,
    epochs: L::Field<Epochs>,
    /// [`FENCED`], [`LOCKED`] and [`PUTS`]: what the fast paths check instead of borrowing the two fields above.
    brief: AtomicU8,
    attached: L::Field<Attachments>,
    directories: L::Field<Vec<Directory>>,
    properties: Properties<L>,
}

/// This task's record of a task's part of the window.
#[derive(Clone, Copy, Debug)]
struct Peer {
    data: RemoteAddress,
    control: RemoteAddress,
    size: u64,
    unit: u64,
    /// Offset of the lock word for updates, which is behind the data, in bytes; or [`IN_CONTROL`].
    word: u64,
}

impl Peer {
    /// The lock word for updates: the rank of the updating task plus 1; 0 if it is free.
    fn updating(&self) -> RemoteAddress {
        if self.word == IN_CONTROL { self.control.plus(UPDATING) } else { self.data.plus(self.word) }
    }
}

/// In [`Peer::word`]: the lock word is in the control memory, because the program has provided the memory of the part.
const IN_CONTROL: u64 = u64::MAX;
const WORD_BYTES: usize = 8;

/// Offset of the lock word in memory that is allocated for a part of `bytes` bytes: in its own cache line, and in the same region as the
/// part, so that one check of the region serves both.
fn word_behind(bytes: usize) -> usize {
    bytes.saturating_add(63) & !63
}

/// In [`Window::brief`]: this task is between two fences.
const FENCED: u8 = 1;
/// In [`Window::brief`]: this task has locked all parts.
const LOCKED: u8 = 2;
/// In [`Window::brief`]: this task has started puts that a flush has to wait for. The bit is never cleared.
const PUTS: u8 = 4;

// The control memory of a window has the words of its flavor, and after them the words of its lock (`LockQueue`). A window on memory of the
// program also has the words of `pieces_by_owner`.
/// Offset of the lock word for updates, unless that word is behind the data ([`Peer::updating`]).
const UPDATING: u64 = 0;
const CONTROL_BYTES: usize = 16;

/// Minimum bytes allocated for a part, even for one of 0 bytes.
const MEMORY_BYTES_MIN: usize = 8;

impl<F: Fabric, L: LockPolicy> Communicator<F, L> {
    /// A window on memory that each task supplies (`MPI_Win_create`), with displacements in units of `unit` bytes. Collective.
    /// [`Window::free`] returns the memory.
    ///
    /// # Errors
    /// A unit of 0, an inter-communicator, too many regions; the death of a task.
    pub fn create_window(
        &self,
        memory: impl Into<WindowMemory>,
        unit: u32,
        info: &Info,
    ) -> Result<Window<F, L>> {
        let memory: Sized = memory.into().into();
        Window::new(self, Flavor::Created, |_| Ok(Some(memory)), unit, info)
    }

    /// A window on `bytes` bytes of new, zeroed memory of each task, of the kind that peers access fastest
    /// (`MPI_Win_allocate`). Collective.
    ///
    /// # Errors
    /// Those of [`create_window`](Self::create_window); the job's memory is used up.
    pub fn allocate_window(&self, bytes: usize, unit: u32, info: &Info) -> Result<Window<F, L>> {
        Window::new(self, Flavor::Allocated, |own| Sized::alloc(own, bytes).map(Some), unit, info)
    }

    /// A window initially without memory (`MPI_Win_create_dynamic`): see [`Window::attach`]. Displacements are addresses, in bytes.
    /// Collective.
    ///
    /// # Errors
    /// Those of [`create_window`](Self::create_window).
    pub fn create_dynamic_window(&self, info: &Info) -> Result<Window<F, L>> {
        Window::new(self, Flavor::Dynamic, |_| Ok(None), 1, info)
    }
}

/// A task's part of a window.
#[derive(Debug)]
pub(crate) enum Sized {
    /// A buffer for this part alone. It may be longer than the part.
    Own { memory: JobBuffer, bytes: usize },
    /// This task's part of memory that all tasks have mapped.
    Common(CommonMemory),
}

impl Sized {
    /// New, zeroed memory for a part of `bytes` bytes, and for the lock word behind it.
    ///
    /// # Errors
    /// The job's memory is used up.
    pub(crate) fn alloc<F: Fabric, L: LockPolicy>(
        communicator: &Communicator<F, L>,
        bytes: usize,
    ) -> Result<Self> {
        let memory = communicator.state()?.context.alloc(word_behind(bytes) + WORD_BYTES)?;
        Ok(Self::Own { memory, bytes })
    }
}

impl From<WindowMemory> for Sized {
    fn from(WindowMemory(memory): WindowMemory) -> Self {
        let bytes = memory.len();
        Self::Own { memory, bytes }
    }
}

/// Rejects arguments that no window may have.
pub(crate) fn check_new<F: Fabric, L: LockPolicy>(parent: &Communicator<F, L>, unit: u32) -> Result<()> {
    let (class, what) = if unit == 0 {
        (ErrorClass::Displacement, "the unit of displacements must be 1 byte or more; the value is the unit")
    } else if parent.is_inter() {
        (
            ErrorClass::Communicator,
            "an inter-communicator has no windows; the value is the unit of displacements",
        )
    } else {
        return Ok(());
    };
    Err(Error::refused(class, "a new window", what, i64::from(unit)))
}

/// A window that does not know the other tasks' parts yet.
#[derive(Debug)]
pub(crate) struct NewWindow<F: Fabric, L: LockPolicy> {
    communicator: Communicator<F, L>,
    flavor: Flavor,
    memory: Option<Arc<Exposed>>,
    common: Option<CommonMemory>,
    base: *mut u8,
    control: Arc<Exposed>,
    placed: Counter,
    info: Info,
    /// The properties of this task's part, for the other tasks.
    own: Vec<u64>,
}

impl<F: Fabric, L: LockPolicy> NewWindow<F, L> {
    /// Creates this task's part, on the window's own communicator.
    ///
    /// # Errors
    /// The job's memory is used up; too many regions.
    pub(crate) fn begin(
        communicator: Communicator<F, L>,
        flavor: Flavor,
        memory: Option<Sized>,
        unit: u32,
        info: &Info,
    ) -> Result<Self> {
        let mut state = communicator.state()?;
        let mut word = IN_CONTROL;
        let (exposed, base, bytes, common) = match memory {
            None => (None, std::ptr::null_mut(), 0, None),
            Some(Sized::Own { memory, bytes }) => {
                let mut memory =
                    if memory.is_empty() { state.context.alloc(MEMORY_BYTES_MIN)? } else { memory };
                // For the program a part of 0 bytes has no address: its memory only serves the tasks that access it.
                let base = if bytes == 0 { std::ptr::null_mut() } else { memory.as_mut_ptr() };
                if memory.len() >= word_behind(bytes) + WORD_BYTES {
                    word = word_behind(bytes) as u64;
                }
                let exposed = state.context.expose(memory, Access::READ_WRITE)?;
                (Some(exposed), base, bytes as u64, None)
            }
            Some(Sized::Common(common)) => {
                let part = common.parts[communicator.rank() as usize];
                let Part { offset, size } = part;
                let exposed =
                    state.context.expose_shared(&common.memory, offset, size, Access::READ_WRITE)?;
                (Some(exposed), common.base_of(part), size, Some(common))
            }
        };
        let lock_bytes = LockQueue::bytes(communicator.size());
        let words_bytes = words_bytes(flavor, communicator.size());
        let control = state.context.alloc(control_bytes(flavor) + lock_bytes + words_bytes)?;
        let control = Arc::new(state.context.expose(control, Access::READ_WRITE)?);
        let exposed = exposed.map(Arc::new);
        let placed = state.context.counter()?;
        if let (Flavor::Created, Some(memory)) = (flavor, &exposed) {
            // Before the other tasks know the window.
            let (words, origins) = (words_at(flavor, communicator.size()), communicator.group());
            let part =
                PartByOwner { memory: Arc::clone(memory), control: Arc::clone(&control), words, origins };
            state.handlers().pieces_of_windows.begin(name_of(control.grant()), part);
        }
        drop(state);
        let data = exposed.as_ref().map_or_else(|| control.address(0), |memory| memory.address(0));
        let own =
            [&to_words(data)[..], &to_words(control.address(0)), &[bytes, u64::from(unit), word]].concat();
        let info = info.clone();
        Ok(Self { communicator, flavor, memory: exposed, common, base, control, placed, info, own })
    }

    fn end<'a>(self, words: impl Iterator<Item = &'a [u64]>) -> Window<F, L> {
        let peer = |words: &[u64]| Peer {
            data: from_words([words[0], words[1], words[2]]),
            control: from_words([words[3], words[4], words[5]]),
            size: words[6],
            unit: words[7],
            word: words[8],
        };
        let peers: Vec<Peer> = words.map(peer).collect();
        let endpoints = peers.iter().map(|peer| peer.control.owner()).collect();
        let tasks = peers.len();
        let directories = peers.iter().map(|_| Directory::default()).collect();
        Window {
            communicator: self.communicator,
            flavor: self.flavor,
            memory: self.memory,
            common: self.common,
            base: AtomicPtr::new(self.base),
            control: self.control,
            peers,
            endpoints,
            puts: L::Field::new(Puts::new(self.placed)),
            by_owner: L::Field::new(ByOwner::default()),
            epochs: L::Field::new(Epochs::new(tasks)),
            brief: AtomicU8::new(0),
            attached: L::Field::new(Attachments::default()),
            directories: L::Field::new(directories),
            properties: Properties::new(ObjectKind::Window, &self.info, ErrorHandler::default()),
        }
    }
}

/// The exposed memory of a window that ends.
fn only(memory: Arc<Exposed>) -> Exposed {
    Arc::into_inner(memory).expect("the handlers have given their reference up")
}

/// Bytes of the control memory before the words of the lock.
fn control_bytes(flavor: Flavor) -> usize {
    if flavor == Flavor::Dynamic { dynamic::CONTROL_BYTES } else { CONTROL_BYTES }
}

tasks_of!(Window);

impl<F: Fabric, L: LockPolicy> Window<F, L> {
    fn new(
        parent: &Communicator<F, L>,
        flavor: Flavor,
        memory: impl FnOnce(&Communicator<F, L>) -> Result<Option<Sized>>,
        unit: u32,
        info: &Info,
    ) -> Result<Self> {
        check_new(parent, unit)?;
        let own = parent.dup()?;
        let memory = memory(&own)?;
        let new = NewWindow::begin(own, flavor, memory, unit, info)?;
        let words = new.communicator.gather_words(&new.own)?;
        Ok(new.end(words.iter().map(Vec::as_slice)))
    }

    /// The origin of the window's memory (`MPI_WIN_CREATE_FLAVOR`).
    #[must_use]
    pub fn flavor(&self) -> Flavor {
        self.flavor
    }

    /// The size of this task's part in bytes (`MPI_WIN_SIZE`).
    #[must_use]
    pub fn size(&self) -> u64 {
        self.own().size
    }

    /// The unit of displacements into this task's part, in bytes (`MPI_WIN_DISP_UNIT`).
    #[must_use]
    pub fn unit(&self) -> u64 {
        self.own().unit
    }

    /// The address of this task's part (`MPI_WIN_BASE`), for layers with their own safety rules; null for a dynamic window, and for
    /// a part of 0 bytes.
    #[must_use]
    pub fn base(&self) -> *mut u8 {
        // Relaxed: the value never changes. It is an atomic because raw pointers are not `Sync`.
        self.base.load(Ordering::Relaxed)
    }

    /// The address at which this task has mapped the part of a rank, its size in bytes, and its unit; `None` if this task cannot load and
    /// store there (`MPI_Win_shared_query`). This task's own part is always returned; in a job of one host, also others in job memory.
    /// The address is valid until the window is freed. For layers with their own safety rules.
    ///
    /// # Errors
    /// An unknown rank, the death of a task.
    pub fn mapped_part(&self, rank: u32) -> Result<Option<(*mut u8, u64, u64)>> {
        self.check_rank(rank)?;
        let Peer { data, size, unit, .. } = self.peers[rank as usize];
        let base = match &self.common {
            Some(common) => common.base_of(common.parts[rank as usize]),
            None if rank == self.rank() => self.base(),
            None if size == 0 => return Ok(None),
            None => {
                let context = &mut self.communicator.state()?.context;
                // What a task has mapped of a peer's memory stays mapped until the task closes its context.
                let Some(address) = context.with_mapped(data, size, |part| part.expose_address())? else {
                    return Ok(None);
                };
                std::ptr::with_exposed_provenance_mut(address)
            }
        };
        Ok(Some((base, size, unit)))
    }

    /// The lowest rank whose part is not empty.
    #[must_use]
    pub fn first_part(&self) -> Option<u32> {
        (0..).zip(&self.peers).find(|(_, peer)| peer.size > 0).map(|(rank, _)| rank)
    }

    fn own(&self) -> Peer {
        self.peers[self.communicator.rank() as usize]
    }

    /// Copies from this task's part: `to.len()` elements, starting at byte `offset`.
    ///
    /// # Errors
    /// The elements lie outside the part, or the window has no part here.
    pub fn read<T: NoUninit + AnyBitPattern>(&self, offset: u64, to: &mut [T]) -> Result<()> {
        let bytes: &mut [u8] = bytemuck::cast_slice_mut(to);
        let memory = self.check_own(offset, bytes.len())?;
        Ok(memory.read(offset, bytes)?)
    }

    /// Copies into this task's part, starting at byte `offset`.
    ///
    /// # Errors
    /// The elements lie outside the part, or the window has no part here.
    pub fn write<T: NoUninit>(&self, offset: u64, from: &[T]) -> Result<()> {
        let bytes: &[u8] = bytemuck::cast_slice(from);
        let memory = self.check_own(offset, bytes.len())?;
        Ok(memory.write(offset, bytes)?)
    }

    fn check_own(&self, offset: u64, len: usize) -> Result<&Exposed> {
        let (rank, size) = (self.rank(), self.size());
        let is_inside = offset.checked_add(len as u64).is_some_and(|end| end <= size);
        self.memory.as_deref().filter(|_| is_inside).ok_or(Error::OutsideWindow {
            rank,
            offset: i64::try_from(offset).unwrap_or(i64::MAX),
            len: len as u64,
            size,
        })
    }

    /// Frees the window (`MPI_Win_free`). Collective: waits until all tasks have called `free`, and returns the memory of this task's part
    /// (`None` for a dynamic window, and for memory that all tasks share). The delete callbacks of the window's attributes run first.
    ///
    /// # Errors
    /// An epoch is open; the death of a task; the error of a callback.
    pub fn free(self) -> Result<Option<JobBuffer>> {
        let deleted = self.begin_free();
        self.check_free()?;
        self.flush_puts()?;
        self.communicator.barrier()?;
        let memory = self.end_free()?;
        deleted.map(|()| memory)
    }

    /// Rejects the end of the window while an epoch is open.
    pub(crate) fn check_free(&self) -> Result<()> {
        let handle = self.given_handle();
        self.epochs.with(|epochs| epochs.check_closed("Window::free", handle))
    }

    /// The handle that a layer above has given the window, if any.
    fn given_handle(&self) -> Option<i64> {
        Some(self.properties.handle()).filter(|&handle| handle != 0).and_then(|handle| handle.try_into().ok())
    }

    /// The last step of [`free`](Self::free), when all tasks have called it.
    pub(crate) fn end_free(self) -> Result<Option<JobBuffer>> {
        let size = usize::try_from(self.size()).unwrap_or(usize::MAX);
        let mut state = self.communicator.state()?;
        state.handlers().pieces_of_windows.end(name_of(self.control.grant()));
        state.context.unexpose(only(self.control))?;
        for memory in self.attached.replace(Attachments::default()).into_exposed() {
            state.context.unexpose(memory)?;
        }
        let memory = self.memory.map(|memory| state.context.unexpose(only(memory))).transpose()?;
        self.puts.with(|puts| puts.remove(&mut state.context));
        // The program gets its part back, without the lock word behind it.
        let Some(common) = self.common else { return Ok(memory.map(|memory| memory.shortened(size))) };
        state.context.unshare(common.memory);
        Ok(None)
    }

    /// The first step of [`free`](Self::free): fails while an epoch is open, and deletes the attributes. For a layer above whose callbacks
    /// still need the window's handle.
    ///
    /// # Errors
    /// An epoch is open; the error of a callback (the other attributes are still deleted).
    pub fn begin_free(&self) -> Result<()> {
        self.check_free()?;
        self.properties.delete_attributes()
    }

    /// The window's name, hints, error handler and attributes.
    #[must_use]
    pub fn properties(&self) -> &Properties<L> {
        &self.properties
    }

    /// Runs the error handler if a call has failed (`MPI_Win_call_errhandler`); see [`Communicator::handled`].
    ///
    /// # Errors
    /// Those of `result`.
    pub fn handled<T>(&self, result: Result<T>) -> Result<T> {
        self.communicator.handled_by(&self.properties, result)
    }
}
