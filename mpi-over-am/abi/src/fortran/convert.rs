//! Converts handles, arrays and codes between Fortran and C, and finds the C function that a routine calls.
//!
//! SAFETY: the Fortran routines call the functions here with arguments of the program, which are valid for the accesses that the standard
//! specifies.

#![expect(
    clippy::undocumented_unsafe_blocks,
    reason = "the functions store results and read arrays at the program's pointers; blocks that do more have a note"
)]

use std::ffi::{CStr, c_int, c_void};
use std::sync::atomic::{AtomicPtr, Ordering};

use smallvec::SmallVec;

use super::sentinels;
use crate::constants::{MPI_CART, MPI_DIST_GRAPH, MPI_GRAPH, MPI_IN_PLACE, MPI_SUCCESS};
use crate::exports::{
    PMPI_Cartdim_get, PMPI_Comm_rank, PMPI_Comm_remote_size, PMPI_Comm_size, PMPI_Comm_test_inter,
    PMPI_Dist_graph_neighbors_count, PMPI_Graph_neighbors_count, PMPI_Topo_test,
};
use crate::face::Handle as _;
use crate::types::MPI_Comm;

/// The C function with this name: a tool's function, if a tool intercepts the library's.
pub(crate) struct Found {
    name: &'static CStr,
    function: AtomicPtr<()>,
}

impl Found {
    pub(crate) const fn new(name: &'static CStr) -> Self {
        Self { name, function: AtomicPtr::new(std::ptr::null_mut()) }
    }

    /// The function, looked up at the first call; `own` if the process has no function of this name.
    #[inline(always)]
    pub(crate) fn or(&self, own: *const ()) -> *const () {
        // Relaxed: every thread finds the same function.
        let known = self.function.load(Ordering::Relaxed);
        if known.is_null() { self.look(own) } else { known }
    }

    #[cold]
    fn look(&self, own: *const ()) -> *const () {
        // SAFETY: the name is NUL-terminated.
        let found: *mut () = unsafe { libc::dlsym(libc::RTLD_DEFAULT, self.name.as_ptr()) }.cast();
        let found = if found.is_null() { own.cast_mut() } else { found };
        self.function.store(found, Ordering::Relaxed);
        found
    }
}

/// Stores the error code of a call, if the program has passed an address for it.
#[inline(always)]
pub(crate) unsafe fn report(ierror: *mut c_int, code: c_int) {
    if !ierror.is_null() {
        unsafe { *ierror = code };
    }
}

/// An array of handles, for one call.
pub(crate) type Handles<T> = SmallVec<[T; 16]>;

/// Converts an array of integers to handles.
pub(crate) unsafe fn handles<T>(
    at: *const c_int,
    count: impl Into<i64>,
    handle: impl Fn(c_int) -> T,
) -> Handles<T> {
    (0..count.into().max(0) as usize).map(|place| handle(unsafe { *at.add(place) })).collect()
}

/// Converts an array of handles to integers.
pub(crate) unsafe fn store<T>(at: *mut c_int, handles: &[T], number: impl Fn(&T) -> c_int) {
    for (place, handle) in handles.iter().enumerate() {
        unsafe { *at.add(place) = number(handle) };
    }
}

/// Adds 1 to each index of an array, because Fortran counts from 1. Negative numbers, such as `MPI_UNDEFINED`, are not changed.
pub(crate) unsafe fn count_from_one(at: *mut c_int, count: c_int) {
    for place in 0..count.max(0) as usize {
        unsafe {
            if *at.add(place) >= 0 {
                *at.add(place) += 1;
            }
        }
    }
}

/// The value of a C index that a call has not set.
pub(crate) const NOT_SET: c_int = c_int::MIN;

/// Stores an index that a C call has set, counted from 1.
pub(crate) unsafe fn store_index(at: *mut c_int, index: c_int) {
    if index != NOT_SET {
        unsafe {
            *at = index;
            count_from_one(at, 1);
        }
    }
}

/// Number of tasks with which a collective operation on the communicator exchanges data; 0 for an invalid communicator, which the call
/// itself reports.
pub(crate) unsafe fn peers(comm: c_int) -> c_int {
    let (comm, mut is_inter, mut size) = (MPI_Comm::from_integer(comm).to_raw(), 0, 0);
    unsafe {
        if PMPI_Comm_test_inter(comm, &raw mut is_inter) != MPI_SUCCESS {
            return 0;
        }
        let function = if is_inter == 0 { PMPI_Comm_size } else { PMPI_Comm_remote_size };
        if function(comm, &raw mut size) == MPI_SUCCESS { size } else { 0 }
    }
}

/// Length of an array that only the root of the communicator must give.
pub(crate) unsafe fn at_root(count: c_int, root: c_int, comm: c_int) -> c_int {
    let (comm, mut rank) = (MPI_Comm::from_integer(comm).to_raw(), 0);
    let is_root = unsafe { PMPI_Comm_rank(comm, &raw mut rank) } == MPI_SUCCESS && rank == root;
    if is_root { count } else { 0 }
}

/// Length of a collective's array of send types; 0 if the array is ignored, since the data are sent in place.
pub(crate) unsafe fn senders(sendbuf: *const c_void, comm: c_int) -> c_int {
    unsafe { if sentinels::buffer(sendbuf).addr() == MPI_IN_PLACE { 0 } else { peers(comm) } }
}

/// Numbers of neighbours that send to the calling task, and that receive from it, in the communicator's topology.
pub(crate) unsafe fn neighbors(comm: c_int) -> (c_int, c_int) {
    let comm = MPI_Comm::from_integer(comm).to_raw();
    let (mut topology, mut count, mut others, mut rank, mut weighted) = (0, 0, 0, 0, 0);
    unsafe {
        if PMPI_Topo_test(comm, &raw mut topology) != MPI_SUCCESS {
            return (0, 0);
        }
        match topology {
            MPI_CART if PMPI_Cartdim_get(comm, &raw mut count) == MPI_SUCCESS => (2 * count, 2 * count),
            MPI_GRAPH if PMPI_Comm_rank(comm, &raw mut rank) == MPI_SUCCESS => {
                PMPI_Graph_neighbors_count(comm, rank, &raw mut count);
                (count, count)
            }
            MPI_DIST_GRAPH => {
                PMPI_Dist_graph_neighbors_count(comm, &raw mut count, &raw mut others, &raw mut weighted);
                (count, others)
            }
            _ => (0, 0),
        }
    }
}
