//! Conversions of the arguments of exported functions, for interfaces whose handles are not the standard's numbers.

use std::ffi::{c_int, c_void};

use mpi_over_am::topology::Topology;
use smallvec::SmallVec;

use crate::constants::{MPI_ERR_ARG, MPI_IN_PLACE, MPI_SUCCESS};
use crate::face::{Handle, MPI_Status, Raw};
#[cfg(face = "openmpi")]
use crate::types::MPI_Request;
use crate::types::{
    MPI_Comm, MPI_Datatype, MPI_Errhandler, MPI_File, MPI_Group, MPI_Info, MPI_Message, MPI_Op, MPI_Session,
    MPI_Win,
};

/// A handle that is no object's: a place has it until a call stores a handle there.
pub(crate) trait Unset: Handle {
    const UNSET: Self;
}

macro_rules! unset {
    ($($name:ident)*) => { $(
        impl Unset for $name {
            const UNSET: Self = Self(usize::MAX);
        }
    )* };
}

unset! { MPI_Comm MPI_Datatype MPI_Errhandler MPI_File MPI_Group MPI_Info MPI_Message MPI_Op MPI_Session MPI_Win }

/// The place of a handle in the program, which a call may set. If the call does not set it, it keeps its value.
pub(crate) struct Place<H: Handle> {
    at: *mut Raw<H>,
    before: H,
    handle: H,
}

impl<H: Unset> Place<H> {
    /// A place that the call does not read.
    #[inline(always)]
    pub(crate) fn to_set(at: *mut Raw<H>) -> Self {
        Self { at, before: H::UNSET, handle: H::UNSET }
    }

    /// A place that the call reads.
    ///
    /// # Safety
    /// `at` must be null or the address of a handle.
    #[inline(always)]
    pub(crate) unsafe fn to_change(at: *mut Raw<H>) -> Self {
        // SAFETY: not null, so the caller promises that a handle is there.
        let handle = if at.is_null() { H::UNSET } else { unsafe { H::from_raw(*at) } };
        Self { at, before: handle, handle }
    }

    /// The place for the call; null if the program has passed null.
    #[inline(always)]
    pub(crate) fn at(&mut self) -> *mut H {
        if self.at.is_null() { std::ptr::null_mut() } else { &raw mut self.handle }
    }

    /// Stores what the call has set.
    ///
    /// # Safety
    /// The program's place must be writable, unless it is null.
    #[inline(always)]
    pub(crate) unsafe fn store(&self) {
        if self.handle != self.before {
            // SAFETY: the call has set the handle, so the place is not null, and the caller promises that it is writable.
            unsafe { *self.at = self.handle.to_raw() };
        }
    }
}

/// Handles of an array, for one call.
pub(crate) type Handles<H> = SmallVec<[H; 16]>;

/// The handles of a program's array.
///
/// # Safety
/// `at` must be null or have `len` handles.
pub(crate) unsafe fn handles<H: Handle>(at: *const Raw<H>, len: impl Into<i64>) -> Handles<H> {
    let len = if at.is_null() { 0 } else { len.into().max(0) as usize };
    // SAFETY: not null, so the caller promises that there are `len` handles.
    (0..len).map(|place| unsafe { H::from_raw(*at.add(place)) }).collect()
}

/// Places for handles that a call stores.
pub(crate) fn places<H: Unset>(len: impl Into<i64>) -> Handles<H> {
    std::iter::repeat_n(H::UNSET, len.into().max(0) as usize).collect()
}

/// Stores the handles that a call has set.
///
/// # Safety
/// `at` must have room for the handles that were set.
pub(crate) unsafe fn store<H: Unset>(at: *mut Raw<H>, handles: &[H]) {
    for (place, handle) in handles.iter().enumerate().filter(|(_, handle)| **handle != H::UNSET) {
        // SAFETY: the caller promises that there is room.
        unsafe { *at.add(place) = handle.to_raw() };
    }
}

/// The address of an array for the call: null if the program has passed null.
pub(crate) fn array<T, H>(given: *const T, handles: &Handles<H>) -> *const H {
    if given.is_null() { std::ptr::null() } else { handles.as_ptr() }
}

/// Numbers of tasks to which the calling task sends in a collective operation on a communicator, and from which it receives; 0 for an
/// invalid communicator, which the call itself reports.
fn peers(comm: MPI_Comm, of_neighbors: bool) -> (i64, i64) {
    let known = crate::state::enter("MPI_Alltoallw").ok().and_then(|mpi| mpi.communicator(comm));
    let Some(communicator) = known.as_ref().map(|object| &object.communicator) else { return (0, 0) };
    if !of_neighbors {
        let all = i64::from(communicator.remote_size().unwrap_or_else(|_| communicator.size()));
        return (all, all);
    }
    match communicator.topology() {
        Some(Topology::Cartesian(grid)) => {
            (2 * grid.dimensions().len() as i64, 2 * grid.dimensions().len() as i64)
        }
        Some(Topology::Graph(graph)) => {
            let len = graph.neighbors(communicator.rank()).map_or(0, <[u32]>::len) as i64;
            (len, len)
        }
        Some(Topology::DistributedGraph(graph)) => {
            (graph.destinations().len() as i64, graph.sources().len() as i64)
        }
        None => (0, 0),
    }
}

/// Length of an array that only the root of the communicator must give.
pub(crate) fn at_root(count: c_int, root: c_int, comm: MPI_Comm) -> i64 {
    let known = crate::state::enter("MPI_Comm_spawn_multiple").ok().and_then(|mpi| mpi.communicator(comm));
    let rank = known.as_ref().map(|object| object.communicator.rank());
    if rank.is_some() && rank == u32::try_from(root).ok() { i64::from(count) } else { 0 }
}

/// Length of a collective's array of send types; 0 if the data are sent in place.
pub(crate) fn send_types(sendbuf: *const c_void, comm: MPI_Comm, of_neighbors: bool) -> i64 {
    if sendbuf.addr() == MPI_IN_PLACE { 0 } else { peers(comm, of_neighbors).0 }
}

/// Length of a collective's array of receive types.
pub(crate) fn recv_types(comm: MPI_Comm, of_neighbors: bool) -> i64 {
    peers(comm, of_neighbors).1
}

/// Conversions of statuses between C and Fortran, whose statuses are the same bytes.
macro_rules! copies {
    ($($name:ident $profiling:ident)*) => { $(
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name(from: *const MPI_Status, to: *mut MPI_Status) -> c_int {
            let from = crate::face::status(from.cast_mut());
            if from.is_null() || to.is_null() {
                return MPI_ERR_ARG;
            }
            // SAFETY: neither is null, so they are the addresses of a status and of a place for one (MPI 5.0 section 19.3.5).
            unsafe { *to = *from };
            MPI_SUCCESS
        }

        #[unsafe(no_mangle)]
        unsafe extern "C" fn $profiling(from: *const MPI_Status, to: *mut MPI_Status) -> c_int {
            // SAFETY: the contract is the same.
            unsafe { $name(from, to) }
        }
    )* };
}

copies! {
    MPI_Status_c2f PMPI_Status_c2f
    MPI_Status_f2c PMPI_Status_f2c
    MPI_Status_c2f08 PMPI_Status_c2f08
    MPI_Status_f082c PMPI_Status_f082c
    MPI_Status_f2f08 PMPI_Status_f2f08
    MPI_Status_f082f PMPI_Status_f082f
}

/// Conversions of handles between C and Fortran, of the kinds for which the interface has functions.
macro_rules! in_fortran {
    ($($to:ident $profiling_to:ident $from:ident $profiling_from:ident $handle:ident)*) => { $(
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $to(handle: Raw<$handle>) -> c_int {
            // SAFETY: the program's handle.
            unsafe { $handle::from_raw(handle) }.to_integer()
        }

        #[unsafe(no_mangle)]
        unsafe extern "C" fn $profiling_to(handle: Raw<$handle>) -> c_int {
            // SAFETY: the program's handle.
            unsafe { $handle::from_raw(handle) }.to_integer()
        }

        #[unsafe(no_mangle)]
        extern "C" fn $from(number: c_int) -> Raw<$handle> {
            $handle::from_integer(number).to_raw()
        }

        #[unsafe(no_mangle)]
        extern "C" fn $profiling_from(number: c_int) -> Raw<$handle> {
            $handle::from_integer(number).to_raw()
        }
    )* };
}

in_fortran! { MPI_File_c2f PMPI_File_c2f MPI_File_f2c PMPI_File_f2c MPI_File }
#[cfg(face = "openmpi")]
in_fortran! {
    MPI_Comm_c2f PMPI_Comm_c2f MPI_Comm_f2c PMPI_Comm_f2c MPI_Comm
    MPI_Type_c2f PMPI_Type_c2f MPI_Type_f2c PMPI_Type_f2c MPI_Datatype
    MPI_Errhandler_c2f PMPI_Errhandler_c2f MPI_Errhandler_f2c PMPI_Errhandler_f2c MPI_Errhandler
    MPI_Group_c2f PMPI_Group_c2f MPI_Group_f2c PMPI_Group_f2c MPI_Group
    MPI_Info_c2f PMPI_Info_c2f MPI_Info_f2c PMPI_Info_f2c MPI_Info
    MPI_Message_c2f PMPI_Message_c2f MPI_Message_f2c PMPI_Message_f2c MPI_Message
    MPI_Op_c2f PMPI_Op_c2f MPI_Op_f2c PMPI_Op_f2c MPI_Op
    MPI_Request_c2f PMPI_Request_c2f MPI_Request_f2c PMPI_Request_f2c MPI_Request
    MPI_Session_c2f PMPI_Session_c2f MPI_Session_f2c PMPI_Session_f2c MPI_Session
    MPI_Win_c2f PMPI_Win_c2f MPI_Win_f2c PMPI_Win_f2c MPI_Win
}
