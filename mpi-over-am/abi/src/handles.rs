//! Handles: numbers below 2^31 that name a slot and the generation of its object, so that a freed handle is recognised until its slot was
//! freed 64 times. A lookup is one indexed load, without a hash or a lock.
//!
//! ```text
//! bits  0..20   slot
//! bits 20..26   generation
//! bits 26..30   kind of object, from 1 on
//! bit  30       set in requests, whose other bits are mpi-over-am's ([`RequestId`](mpi_over_am::RequestId))
//! ```

use std::cell::RefCell;
use std::ffi::c_int;

use mpi_over_am::ErrorClass;

use crate::face::Handle as _;
use crate::failure::{Failure, Outcome};
use crate::types::{
    MPI_Comm, MPI_Datatype, MPI_Errhandler, MPI_File, MPI_Group, MPI_Info, MPI_Message, MPI_Op, MPI_Request,
    MPI_Session, MPI_Win,
};

const SLOT_BITS: u32 = 20;
const GENERATION_BITS: u32 = 6;
const SLOTS_MAX: usize = 1 << SLOT_BITS;
const GENERATION_MASK: usize = ((1 << GENERATION_BITS) - 1) << SLOT_BITS;

/// The kind of object that a handle names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum ObjectKind {
    Communicator = 4,
    Datatype = 2,
    ErrorHandler = 3,
    File = 5,
    Message = 6,
    Operation = 7,
    Group = 9,
    Info = 10,
    Session = 11,
    Window = 12,
}

impl ObjectKind {
    #[cold]
    fn too_many(self) -> Failure {
        let (what, remedy) = match self {
            Self::Communicator => ("communicators exist", "free"),
            Self::Datatype => ("datatypes exist", "free"),
            Self::ErrorHandler => ("error handlers exist", "free"),
            Self::File => ("files are open", "close"),
            Self::Message => ("matched messages wait", "receive"),
            Self::Operation => ("operations exist", "free"),
            Self::Group => ("groups exist", "free"),
            Self::Info => ("info objects exist", "free"),
            Self::Session => ("sessions exist", "finalize"),
            Self::Window => ("windows exist", "free"),
        };
        Failure::new(ErrorClass::NoMemory, format!("a million {what}: {remedy} some first"))
    }
}

#[derive(Debug)]
struct Slot<T> {
    /// The handle of the object, or of the next object in this slot; it includes the generation.
    handle: usize,
    object: Option<T>,
}

#[derive(Debug)]
struct Table<T> {
    slots: Vec<Slot<T>>,
    free: Vec<u32>,
}

impl<T> Table<T> {
    /// A slot for an object: a free one, or a new one; `None` if the table is full.
    #[inline(always)]
    fn free_slot(&mut self, kind: ObjectKind) -> Option<&mut Slot<T>> {
        let slot = match self.free.pop() {
            Some(slot) => slot as usize,
            None => self.new_slot(kind)?,
        };
        self.slots.get_mut(slot)
    }

    /// The object of a handle.
    #[inline(always)]
    fn find(&self, handle: usize) -> Option<&T> {
        let slot = self.slots.get(handle & (SLOTS_MAX - 1))?;
        if slot.handle == handle { slot.object.as_ref() } else { None }
    }

    #[cold]
    fn new_slot(&mut self, kind: ObjectKind) -> Option<usize> {
        let slot = self.slots.len();
        (slot < SLOTS_MAX).then(|| {
            let handle = (kind as usize) << (SLOT_BITS + GENERATION_BITS) | slot;
            self.slots.push(Slot { handle, object: None });
            slot
        })
    }
}

/// The objects of one kind.
#[derive(Debug)]
pub(crate) struct Handles<T> {
    kind: ObjectKind,
    table: RefCell<Table<T>>,
}

impl<T: Clone> Handles<T> {
    pub(crate) const fn new(kind: ObjectKind) -> Self {
        Self { kind, table: RefCell::new(Table { slots: Vec::new(), free: Vec::new() }) }
    }

    /// Stores an object and returns its handle.
    ///
    /// # Errors
    /// There are a million objects of this kind already.
    #[inline]
    pub(crate) fn insert(&self, object: T) -> Outcome<usize> {
        let mut table = self.table.borrow_mut();
        let slot = table.free_slot(self.kind).ok_or_else(|| self.kind.too_many())?;
        slot.object = Some(object);
        Ok(slot.handle)
    }

    /// A handle for a future object ([`fill`](Self::fill)).
    ///
    /// # Errors
    /// Those of [`insert`](Self::insert).
    pub(crate) fn reserve(&self) -> Outcome<usize> {
        let mut table = self.table.borrow_mut();
        table.free_slot(self.kind).map(|slot| slot.handle).ok_or_else(|| self.kind.too_many())
    }

    /// Stores the object of a reserved handle.
    pub(crate) fn fill(&self, handle: usize, object: T) {
        self.table.borrow_mut().slots[handle & (SLOTS_MAX - 1)].object = Some(object);
    }

    /// The object of a handle; `None` if the handle is of another kind, was freed, is only reserved, or never existed.
    #[inline]
    pub(crate) fn get(&self, handle: usize) -> Option<T> {
        self.table.borrow().find(handle).cloned()
    }

    /// [`get`](Self::get) without a clone.
    ///
    /// # Safety
    /// [`insert`](Self::insert), [`reserve`](Self::reserve), [`fill`](Self::fill) and [`remove`](Self::remove) must not be called while the
    /// reference lives.
    #[inline]
    pub(crate) unsafe fn peek(&self, handle: usize) -> Option<&T> {
        // SAFETY: the table is not borrowed mutably: the functions that borrow it so end the borrow before they return, and the caller has
        // promised to call none of them while the reference lives.
        unsafe { &*self.table.as_ptr() }.find(handle)
    }

    /// Whether there is no object.
    pub(crate) fn is_empty(&self) -> bool {
        let table = self.table.borrow();
        table.slots.len() == table.free.len()
    }

    /// The handle of an object that satisfies `is_wanted`; searches all objects.
    pub(crate) fn find(&self, is_wanted: impl Fn(&T) -> bool) -> Option<usize> {
        let slots = &self.table.borrow().slots;
        let found = slots.iter().position(|slot| slot.object.as_ref().is_some_and(&is_wanted))?;
        Some(slots[found].handle)
    }

    /// Takes an object out of its handle, which is then only reserved: [`fill`](Self::fill) stores an object again. `None` if the handle is
    /// invalid.
    pub(crate) fn take(&self, handle: usize) -> Option<T> {
        let table = &mut *self.table.borrow_mut();
        let slot = table.slots.get_mut(handle & (SLOTS_MAX - 1)).filter(|slot| slot.handle == handle)?;
        slot.object.take()
    }

    /// Removes an object and returns it; its handle is invalid from now on. `None` if the handle is invalid already.
    #[inline]
    pub(crate) fn remove(&self, handle: usize) -> Option<T> {
        let table = &mut *self.table.borrow_mut();
        let number = handle & (SLOTS_MAX - 1);
        let slot = table.slots.get_mut(number).filter(|slot| slot.handle == handle)?;
        let object = slot.object.take()?;
        let generation = handle.wrapping_add(1 << SLOT_BITS) & GENERATION_MASK;
        slot.handle = handle & !GENERATION_MASK | generation;
        table.free.push(number as u32);
        Some(object)
    }
}

macro_rules! integers {
    ($($to:ident $from:ident $kind:ident)*) => { $(
        pub(crate) unsafe fn $to(handle: $kind) -> c_int {
            handle.to_integer()
        }

        pub(crate) unsafe fn $from(number: c_int) -> $kind {
            $kind::from_integer(number)
        }
    )* };
}

integers! {
    mpi_comm_toint mpi_comm_fromint MPI_Comm
    mpi_errhandler_toint mpi_errhandler_fromint MPI_Errhandler
    mpi_file_toint mpi_file_fromint MPI_File
    mpi_group_toint mpi_group_fromint MPI_Group
    mpi_info_toint mpi_info_fromint MPI_Info
    mpi_message_toint mpi_message_fromint MPI_Message
    mpi_op_toint mpi_op_fromint MPI_Op
    mpi_request_toint mpi_request_fromint MPI_Request
    mpi_session_toint mpi_session_fromint MPI_Session
    mpi_type_toint mpi_type_fromint MPI_Datatype
    mpi_win_toint mpi_win_fromint MPI_Win
}
