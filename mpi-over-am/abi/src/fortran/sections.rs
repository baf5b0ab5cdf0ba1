//! Sections of arrays as buffers, in the module `mpi_f08` (MPI 5.0 section 19.1.12): a program may pass `a(1:100:5, :)` to any call, also
//! to one that does not block.
//!
//! The routines that the Fortran compiler calls are in a C file of their own (build/fortran_descriptors.rs), because the form of a
//! descriptor differs between compilers. They pass contiguous memory by its address. If a buffer of a call is not contiguous, they pass
//! addresses of sections and a datatype in these sections (`Datatype::in_sections`), which they free when the call has returned: an
//! operation that is still under way keeps it.
//!
//! SAFETY: only those C routines call the functions here, with arguments of the program, which are valid for the accesses that the standard
//! specifies, and with descriptors that they have on their stack.

#![expect(
    clippy::undocumented_unsafe_blocks,
    reason = "the functions read and store arguments of the routines in C; blocks that do more have a note"
)]

use std::ffi::{c_int, c_void};
use std::sync::Arc;

use mpi_over_am::datatype::{Datatype, SECTIONS_MAX, Section, address_of_section};

use super::{convert, sentinels};
use crate::constants::{MPI_DATATYPE_NULL, MPI_IN_PLACE};
use crate::datatypes::keep_datatype;
use crate::state::{Mpi, enter, is_running};
use crate::type_objects;
use crate::types::MPI_Datatype;

/// The most dimensions of an array (Fortran 2018 section 8.5.8).
const DIMENSIONS_MAX: usize = 15;

/// A buffer of a call; `struct section` in the C file.
#[repr(C)]
struct Buffer {
    at: *const c_void,
    element_len: i64,
    /// The number of dimensions; 0 for contiguous memory.
    rank: i64,
    /// Number of elements and distance in bytes, the first dimension first.
    dimensions: [[i64; 2]; DIMENSIONS_MAX],
}

impl Buffer {
    fn section(&self) -> Option<Section> {
        let rank = usize::try_from(self.rank).ok()?;
        let given = self.dimensions.get(..rank)?;
        if rank == 0 {
            return Some(Section::around(sentinels::buffer(self.at).addr() as i64));
        }
        let dimensions: Vec<_> = given.iter().map(|&[len, by]| (len.max(0).unsigned_abs(), by)).collect();
        Section::of_array(self.at.addr() as i64, self.element_len.unsigned_abs(), &dimensions).ok()
    }
}

/// The buffers of a call.
unsafe fn sections(count: c_int, buffers: *const Buffer) -> Option<Arc<[Section]>> {
    let count = usize::try_from(count).ok().filter(|&count| count <= SECTIONS_MAX)?;
    let buffers = unsafe { std::slice::from_raw_parts(buffers, count) };
    for buffer in buffers {
        // The library makes addresses of its integers again (`SendData::new`).
        buffer.at.expose_provenance();
    }
    buffers.iter().map(Buffer::section).collect()
}

/// A datatype in these sections. An invalid one stays as it is, so that the call itself reports it.
fn in_sections(mpi: &Mpi, datatype: c_int, sections: Option<&Arc<[Section]>>) -> c_int {
    let given = MPI_Datatype(datatype as u32 as usize);
    let Some(old) = mpi.datatype(given) else { return datatype };
    let new = sections.map(|sections| Datatype::in_sections(&old, sections));
    let kept = new.and_then(|new| keep_datatype(mpi, new).ok());
    kept.unwrap_or(MPI_DATATYPE_NULL).0 as c_int
}

/// Stores the addresses of a call's buffers in `at`.
#[unsafe(no_mangle)]
unsafe extern "C" fn mpi_f08_addresses(count: c_int, buffers: *const Buffer, at: *mut *const c_void) {
    for place in 0..usize::try_from(count).unwrap_or(0) {
        unsafe {
            let given = sentinels::buffer((*buffers.add(place)).at);
            let is_in_place = given.addr() == MPI_IN_PLACE;
            let section = std::ptr::without_provenance(address_of_section(place) as usize);
            *at.add(place) = if is_in_place { given.cast_const() } else { section };
        }
    }
}

/// A datatype in the sections of a call's buffers, to be freed by [`mpi_f08_free`].
#[unsafe(no_mangle)]
unsafe extern "C" fn mpi_f08_datatype(count: c_int, buffers: *const Buffer, datatype: *const c_int) -> c_int {
    let datatype = unsafe { *datatype };
    // The call itself reports that MPI does not run.
    let Some(mpi) = is_running().then(|| enter("MPI_Type_dup").ok()).flatten() else { return datatype };
    in_sections(&mpi, datatype, unsafe { sections(count, buffers) }.as_ref())
}

/// [`mpi_f08_datatype`] for an array with a datatype for each rank that a collective sends to (`side` 0) or receives from (1), or for each
/// neighbour (2, 3). Stores the length of the array, which [`mpi_f08_free_all`] frees.
#[unsafe(no_mangle)]
unsafe extern "C" fn mpi_f08_datatypes(
    count: c_int,
    buffers: *const Buffer,
    datatypes: *const c_int,
    side: c_int,
    comm: *const c_int,
    len: *mut c_int,
) -> *mut c_int {
    let ranks = unsafe {
        match side {
            0 => convert::senders((*buffers).at, *comm),
            1 => convert::peers(*comm),
            2 => convert::neighbors(*comm).1,
            _ => convert::neighbors(*comm).0,
        }
    };
    let mpi = is_running().then(|| enter("MPI_Type_dup").ok()).flatten();
    let sections = unsafe { sections(count, buffers) };
    let made = (0..ranks.max(0) as usize).map(|place| {
        let given = unsafe { *datatypes.add(place) };
        mpi.as_ref().map_or(given, |mpi| in_sections(mpi, given, sections.as_ref()))
    });
    let made: Box<[c_int]> = made.collect();
    unsafe { *len = made.len() as c_int };
    Box::into_raw(made).cast()
}

fn free(mpi: &Mpi, given: c_int, made: c_int) {
    let handle = MPI_Datatype(made as u32 as usize);
    if made != given && handle != MPI_DATATYPE_NULL {
        // The type has no attributes, whose functions could fail.
        let _ = type_objects::free(mpi, handle);
    }
}

/// Frees a datatype that [`mpi_f08_datatype`] has made of `given`.
#[unsafe(no_mangle)]
unsafe extern "C" fn mpi_f08_free(given: *const c_int, made: c_int) {
    if let Some(Ok(mpi)) = is_running().then(|| enter("MPI_Type_free")) {
        free(&mpi, unsafe { *given }, made);
    }
}

/// Frees an array that [`mpi_f08_datatypes`] has made of `given`.
#[unsafe(no_mangle)]
unsafe extern "C" fn mpi_f08_free_all(given: *const c_int, made: *mut c_int, len: c_int) {
    // SAFETY: `mpi_f08_datatypes` made the array by `Box::into_raw`, with this length.
    let made = unsafe { Box::from_raw(std::ptr::slice_from_raw_parts_mut(made, len.max(0) as usize)) };
    if let Some(Ok(mpi)) = is_running().then(|| enter("MPI_Type_free")) {
        for (place, &made) in made.iter().enumerate() {
            free(&mpi, unsafe { *given.add(place) }, made);
        }
    }
}
