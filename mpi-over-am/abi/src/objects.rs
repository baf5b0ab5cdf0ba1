//! The objects that C's handles name: each holds an object of mpi-over-am, and state that only the C interface has.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ffi::c_int;
use std::rc::Rc;

use mpi_over_am::attribute::{Keyval, WeakKeyval};
use mpi_over_am::datatype::Datatype;
use mpi_over_am::{ByCall, MessageId, Properties};

use crate::engine::{Communicator, File, PendingCommunicator, Session, Window};
use crate::raise::KeptErrhandler;
use crate::types::{Callback, MPI_Comm, MPI_Datatype, MPI_Session, MPI_Win};

/// A communicator and the state of its C handle.
#[derive(Debug)]
pub(crate) struct CommunicatorObject {
    pub(crate) communicator: Communicator,
    pub(crate) errhandler: KeptErrhandler,
}

/// A message that a matched probe has taken.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MessageObject {
    pub(crate) id: MessageId,
    pub(crate) of: MPI_Comm,
}

/// A duplicate that is being made, and its future error handler.
#[derive(Debug)]
pub(crate) struct PendingObject {
    pub(crate) pending: PendingCommunicator,
    pub(crate) errhandler: KeptErrhandler,
}

/// A window and the state of its C handle. This object also holds the values of the attributes that C gets as addresses.
#[derive(Debug)]
pub(crate) struct WindowObject {
    pub(crate) window: Window,
    pub(crate) errhandler: KeptErrhandler,
    pub(crate) handle: Cell<MPI_Win>,
    /// The value of `MPI_WIN_BASE`.
    pub(crate) base: usize,
    pub(crate) size: i64,
    pub(crate) unit: c_int,
    pub(crate) flavor: c_int,
    pub(crate) model: c_int,
    /// The addresses of attached pieces of 0 bytes, which the library has nothing to do with.
    pub(crate) empty_pieces: RefCell<Vec<usize>>,
}

/// A file and the state of its C handle.
#[derive(Debug)]
pub(crate) struct FileObject {
    pub(crate) file: File,
    pub(crate) errhandler: KeptErrhandler,
}

/// A session and the state of its C handle.
#[derive(Debug)]
pub(crate) struct SessionObject {
    pub(crate) session: Session,
    pub(crate) errhandler: KeptErrhandler,
    pub(crate) handle: Cell<MPI_Session>,
}

/// Names and attributes of datatypes, by handle: a datatype does not store them, and most have none.
#[derive(Debug, Default)]
pub(crate) struct TypeObjects {
    /// Names and attributes by the datatype's handle, made at their first use.
    pub(crate) properties: RefCell<BTreeMap<usize, Rc<Properties<ByCall>>>>,
    /// Types that the program has freed and operations still use, by their handles. A function of the program that such an operation calls
    /// gets the type's own handle, with its attributes.
    pub(crate) freed: RefCell<BTreeMap<usize, Datatype>>,
    /// Number of freed types from which on they are looked through for types that nothing uses any more.
    pub(crate) sweep_at: Cell<usize>,
    /// Predefined types without a name.
    pub(crate) unnamed: RefCell<Vec<MPI_Datatype>>,
}

/// A generalized request: the program's functions and their extra state.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Generalized {
    pub(crate) query: Callback,
    pub(crate) free: Callback,
    pub(crate) cancel: Callback,
    pub(crate) extra_state: usize,
    /// Whether the program has freed the request before its operation completed.
    pub(crate) is_freed: bool,
}

/// First keyval of the program, above the predefined ones.
const KEYVALS_FROM: c_int = 0x3000_0000;

/// The keys that the program has made, by number. Attributes outlive their key, and programs may delete them by the key's old number (MPI
/// 5.0 section 7.7.2).
#[derive(Debug, Default)]
pub(crate) struct Keyvals {
    in_use: BTreeMap<c_int, Keyval>,
    /// Freed, but usable while an attribute with this key exists.
    freed: BTreeMap<c_int, WeakKeyval>,
    /// The length of `freed` at which the keys without attributes are removed from it: twice what the last removal left, so that a removal
    /// costs each key that is freed a bounded time.
    freed_max: usize,
    last: c_int,
}

impl Keyvals {
    /// A number for a new key, under which the caller stores it ([`insert`](Self::insert)).
    pub(crate) fn free_number(&mut self) -> c_int {
        // Numbers are reused as late as possible. There are more numbers than keys fit into memory.
        loop {
            self.last = self.last.checked_add(1).map_or(KEYVALS_FROM, |next| next.max(KEYVALS_FROM));
            if !self.in_use.contains_key(&self.last) && !self.freed.contains_key(&self.last) {
                return self.last;
            }
        }
    }

    /// Stores a new key under a free number.
    pub(crate) fn insert(&mut self, number: c_int, keyval: Keyval) {
        self.in_use.insert(number, keyval);
    }

    /// The key with this number; `None` if there is none, or if it was freed and no attribute has it.
    pub(crate) fn get(&self, number: c_int) -> Option<Keyval> {
        let freed = || self.freed.get(&number)?.upgrade();
        self.in_use.get(&number).cloned().or_else(freed)
    }

    /// Frees a key. Its attributes stay.
    pub(crate) fn free(&mut self, number: c_int) {
        if self.freed.len() >= self.freed_max {
            self.freed.retain(|_, freed| freed.upgrade().is_some());
            self.freed_max = 2 * self.freed.len() + 16;
        }
        let Some(keyval) = self.in_use.remove(&number) else { return };
        let freed = keyval.downgrade();
        drop(keyval);
        if freed.upgrade().is_some() {
            self.freed.insert(number, freed);
        }
    }
}
