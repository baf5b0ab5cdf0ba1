//! Special addresses: `mpif.h` has a common block for each, and the library a symbol of the block's name. The program's block replaces the
//! library's symbol, so its address is known here.

use std::ffi::{c_int, c_void};

use crate::constants::{MPI_BUFFER_AUTOMATIC, MPI_IN_PLACE, MPI_UNWEIGHTED, MPI_WEIGHTS_EMPTY};
use crate::raise::rank_in_job;
use crate::types::MPI_Status;

/// Memory of a common block; compilers align common blocks for any type.
#[derive(Debug)]
#[repr(C, align(16))]
pub(crate) struct Block<const BYTES: usize>([u8; BYTES]);

/// Length of the block with the special status: in MPICH's interface, two integers are before it.
const STATUS_BLOCK_BYTES: usize = size_of::<MPI_Status>() + if cfg!(face = "mpich") { 8 } else { 0 };

macro_rules! blocks {
    ($($name:ident $bytes:tt)*) => { $(
        #[unsafe(no_mangle)]
        static mut $name: Block<$bytes> = Block([0; $bytes]);
    )* };
}

#[cfg(not(face = "mpich"))]
blocks! {
    mpi_fortran_bottom_ 4
    mpi_fortran_in_place_ 4
    mpi_fortran_buffer_automatic_ 4
    mpi_fortran_status_ignore_ STATUS_BLOCK_BYTES
    mpi_fortran_statuses_ignore_ STATUS_BLOCK_BYTES
    mpi_fortran_errcodes_ignore_ 4
    mpi_fortran_unweighted_ 4
    mpi_fortran_weights_empty_ 4
    mpi_fortran_argv_null_ 1
    mpi_fortran_argvs_null_ 1
}

#[cfg(face = "mpich")]
blocks! {
    mpifcmb5_ 4
    mpifcmb9_ 4
    mpipriv1_ STATUS_BLOCK_BYTES
    mpipriv2_ 24
    mpiprivc_ 2
}

/// A variable that holds the address of one of Fortran's special statuses. The dynamic linker fills in the address of the program's block.
#[cfg(not(face = "standard"))]
#[repr(transparent)]
struct SpecialStatus(*const c_void);

// SAFETY: the address is only compared.
#[cfg(not(face = "standard"))]
unsafe impl Sync for SpecialStatus {}

/// The variables with which programs in C compare the statuses that a Fortran routine has handed on (MPI 5.0 section 19.3.5).
#[cfg(not(face = "standard"))]
macro_rules! special_statuses {
    ($($name:ident $block:ident $offset:literal)*) => { $(
        #[unsafe(no_mangle)]
        static $name: SpecialStatus = SpecialStatus((&raw const $block).cast::<u8>().wrapping_add($offset).cast());
    )* };
}

#[cfg(face = "mpich")]
special_statuses! {
    MPI_F_STATUS_IGNORE mpipriv1_ 8
    MPI_F_STATUSES_IGNORE mpipriv2_ 0
    MPI_F08_STATUS_IGNORE mpipriv1_ 8
    MPI_F08_STATUSES_IGNORE mpipriv2_ 0
}

#[cfg(face = "openmpi")]
special_statuses! {
    MPI_F_STATUS_IGNORE mpi_fortran_status_ignore_ 0
    MPI_F_STATUSES_IGNORE mpi_fortran_statuses_ignore_ 0
    MPI_F08_STATUS_IGNORE mpi_fortran_status_ignore_ 0
    MPI_F08_STATUSES_IGNORE mpi_fortran_statuses_ignore_ 0
}

/// Defines the addresses of variables: their block, and their offset in it.
macro_rules! variables {
    ($($variable:ident $block:ident $offset:literal)*) => { $(
        #[inline(always)]
        fn $variable() -> usize {
            (&raw const $block).addr() + $offset
        }
    )* };
}

#[cfg(not(face = "mpich"))]
variables! {
    bottom mpi_fortran_bottom_ 0
    in_place mpi_fortran_in_place_ 0
    buffer_automatic mpi_fortran_buffer_automatic_ 0
    status_ignore mpi_fortran_status_ignore_ 0
    statuses_ignore mpi_fortran_statuses_ignore_ 0
    errcodes_ignore mpi_fortran_errcodes_ignore_ 0
    unweighted mpi_fortran_unweighted_ 0
    weights_empty mpi_fortran_weights_empty_ 0
    argv_null mpi_fortran_argv_null_ 0
    argvs_null mpi_fortran_argvs_null_ 0
}

// `mpif.h` of this interface has no MPI_BUFFER_AUTOMATIC.
#[cfg(face = "mpich")]
variables! {
    bottom mpipriv1_ 0
    in_place mpipriv1_ 4
    status_ignore mpipriv1_ 8
    statuses_ignore mpipriv2_ 0
    errcodes_ignore mpipriv2_ 20
    unweighted mpifcmb5_ 0
    weights_empty mpifcmb9_ 0
    argvs_null mpiprivc_ 0
    argv_null mpiprivc_ 1
}

#[cfg(face = "mpich")]
fn buffer_automatic() -> usize {
    MPI_BUFFER_AUTOMATIC
}

/// A buffer's address, with special addresses replaced by C's.
#[inline(always)]
pub(crate) fn buffer(at: *const c_void) -> *mut c_void {
    if at.addr() == in_place() {
        std::ptr::without_provenance_mut(MPI_IN_PLACE)
    } else if at.addr() == bottom() {
        std::ptr::null_mut()
    } else if at.addr() == buffer_automatic() {
        std::ptr::without_provenance_mut(MPI_BUFFER_AUTOMATIC)
    } else {
        at.cast_mut()
    }
}

/// The address of one or several statuses, or C's special address.
#[inline(always)]
pub(crate) fn status(at: *const MPI_Status) -> *mut MPI_Status {
    let is_ignored = at.addr() == status_ignore() || at.addr() == statuses_ignore();
    if is_ignored { std::ptr::null_mut() } else { at.cast_mut() }
}

/// The address of the weights of a graph's edges, or C's special address.
pub(crate) fn weights(at: *const c_int) -> *mut c_int {
    if at.addr() == unweighted() {
        std::ptr::without_provenance_mut(MPI_UNWEIGHTED)
    } else if at.addr() == weights_empty() {
        std::ptr::without_provenance_mut(MPI_WEIGHTS_EMPTY)
    } else {
        at.cast_mut()
    }
}

/// The address of the error codes of spawned tasks, or C's special address.
pub(crate) fn errcodes(at: *mut c_int) -> *mut c_int {
    if at.addr() == errcodes_ignore() { std::ptr::null_mut() } else { at }
}

/// Whether an argument is `MPI_ARGV_NULL` or `MPI_ARGVS_NULL`.
pub(crate) fn is_no_arguments<T>(at: *const T) -> bool {
    at.addr() == argv_null() || at.addr() == argvs_null()
}

/// Warns of a program whose default integers have 8 bytes (such as by `-fdefault-integer-8`): `mpif.h` cannot refuse them, and the library
/// reads and stores 4 bytes of each. The program's common blocks then are longer than the library's.
pub(crate) fn check_integers() {
    /// Asks `dladdr1` for the entry of the symbol table (`dlfcn.h`).
    const RTLD_DL_SYMENT: c_int = 1;
    let at = std::ptr::without_provenance(status_ignore());
    let mut found = libc::Dl_info {
        dli_fname: std::ptr::null(),
        dli_fbase: std::ptr::null_mut(),
        dli_sname: std::ptr::null(),
        dli_saddr: std::ptr::null_mut(),
    };
    let mut symbol = std::ptr::null_mut();
    // SAFETY: both results are valid for writes, and with this flag the second one is the address of a symbol, or stays null.
    let is_known = unsafe { libc::dladdr1(at, &raw mut found, &raw mut symbol, RTLD_DL_SYMENT) } != 0;
    if !is_known || symbol.is_null() {
        return;
    }
    // SAFETY: not null, so the address of an entry of a symbol table, which stays mapped as long as the program or library that has it.
    let bytes = unsafe { (*symbol.cast::<libc::Elf64_Sym>()).st_size };
    if bytes as usize > size_of::<Block<STATUS_BLOCK_BYTES>>() && rank_in_job() == 0 {
        mpi_over_am::complain!(
            "MPI_INIT: this program was compiled with default integers of 8 bytes, and those of MPI have 4 bytes: results are wrong. \
             Compile it without -fdefault-integer-8 (-i8)"
        );
    }
}
