//! The ABI itself, its Fortran side, and the machine's resources (MPI 5.0 sections 11.2.3 and 20.3). All of these functions may be called
//! before `MPI_Init` and after `MPI_Finalize`.

use std::ffi::{c_int, c_void};

use mpi_over_am::datatype::{Datatype, Predefined};
use mpi_over_am::{ErrorClass, Info};

use crate::constants::{
    MPI_COMPLEX4, MPI_COMPLEX8, MPI_COMPLEX16, MPI_COMPLEX32, MPI_DOUBLE_COMPLEX, MPI_DOUBLE_PRECISION,
    MPI_INTEGER, MPI_INTEGER1, MPI_INTEGER2, MPI_INTEGER4, MPI_INTEGER8, MPI_INTEGER16, MPI_LOGICAL,
    MPI_LOGICAL1, MPI_LOGICAL2, MPI_LOGICAL4, MPI_LOGICAL8, MPI_LOGICAL16, MPI_REAL, MPI_REAL2, MPI_REAL4,
    MPI_REAL8, MPI_REAL16, MPI_SUCCESS,
};
use crate::errors::finish_on_process;
use crate::failure::{Failure, Outcome, not_null};
use crate::infos::{info_of, keep_info};
use crate::state::NUMBERS;
use crate::types::{MPI_Datatype, MPI_Info};

/// The version of the standard's binary interface, or -1 twice in a library that has another interface (MPI 5.0, chapter 20).
const VERSION: (c_int, c_int) = if cfg!(face = "standard") { (1, 0) } else { (-1, -1) };

pub(crate) unsafe fn mpi_abi_get_version(major: *mut c_int, minor: *mut c_int) -> c_int {
    if !major.is_null() && !minor.is_null() {
        // SAFETY: neither is null, and the program gave them for these results.
        unsafe { (*major, *minor) = VERSION };
        return MPI_SUCCESS;
    }
    finish_on_process("MPI_Abi_get_version", not_null(major).and(not_null(minor)).map(|_| ()))
}

fn info_from(entries: impl IntoIterator<Item = (String, String)>) -> Outcome<Info> {
    let mut info = Info::new();
    for (key, value) in entries {
        info.set(&key, &value)?;
    }
    Ok(info)
}

fn give(function: &str, at: *mut MPI_Info, info: Outcome<Info>) -> c_int {
    let given = not_null(at).and_then(|at| {
        // SAFETY: `at` is not null, and the program gave it for this result.
        unsafe { *at = keep_info(info?)? };
        Ok(())
    });
    finish_on_process(function, given)
}

pub(crate) unsafe fn mpi_abi_get_info(info: *mut MPI_Info) -> c_int {
    let bytes = size_of::<i64>().to_string();
    let keys = ["mpi_aint_size", "mpi_count_size", "mpi_offset_size"];
    give("MPI_Abi_get_info", info, info_from(keys.map(|key| (key.to_owned(), bytes.clone()))))
}

/// The handles of Fortran's basic types (include/mpi.h), and the keys of their sizes.
const BASIC: [(MPI_Datatype, &str); 4] = [
    (MPI_LOGICAL, "mpi_logical_size"),
    (MPI_INTEGER, "mpi_integer_size"),
    (MPI_REAL, "mpi_real_size"),
    (MPI_DOUBLE_PRECISION, "mpi_double_precision_size"),
];

/// The handles of Fortran's types with a size in their names.
const SIZED: [(MPI_Datatype, &str); 19] = [
    (MPI_LOGICAL1, "mpi_logical1_supported"),
    (MPI_LOGICAL2, "mpi_logical2_supported"),
    (MPI_LOGICAL4, "mpi_logical4_supported"),
    (MPI_LOGICAL8, "mpi_logical8_supported"),
    (MPI_LOGICAL16, "mpi_logical16_supported"),
    (MPI_INTEGER1, "mpi_integer1_supported"),
    (MPI_INTEGER2, "mpi_integer2_supported"),
    (MPI_INTEGER4, "mpi_integer4_supported"),
    (MPI_INTEGER8, "mpi_integer8_supported"),
    (MPI_INTEGER16, "mpi_integer16_supported"),
    (MPI_REAL2, "mpi_real2_supported"),
    (MPI_REAL4, "mpi_real4_supported"),
    (MPI_REAL8, "mpi_real8_supported"),
    (MPI_REAL16, "mpi_real16_supported"),
    (MPI_COMPLEX4, "mpi_complex4_supported"),
    (MPI_COMPLEX8, "mpi_complex8_supported"),
    (MPI_COMPLEX16, "mpi_complex16_supported"),
    (MPI_COMPLEX32, "mpi_complex32_supported"),
    (MPI_DOUBLE_COMPLEX, "mpi_double_complex_supported"),
];

fn size_of_number(number: MPI_Datatype) -> Option<u64> {
    let index = NUMBERS.iter().position(|&known| known == number)?;
    Some(Datatype::predefined(Predefined::ALL[index]).size())
}

/// The properties of Fortran's types in this library: those of this machine's usual compilers.
fn fortran_info() -> Outcome<Info> {
    let sizes = BASIC
        .iter()
        .filter_map(|&(number, key)| size_of_number(number).map(|bytes| (key.to_owned(), bytes.to_string())));
    let supported =
        SIZED.iter().map(|&(number, key)| (key.to_owned(), size_of_number(number).is_some().to_string()));
    info_from(sizes.chain(supported))
}

pub(crate) unsafe fn mpi_abi_get_fortran_info(info: *mut MPI_Info) -> c_int {
    give("MPI_Abi_get_fortran_info", info, fortran_info())
}

/// The properties of Fortran's types are fixed: a program may set the same values again, and no others. Unknown keys are ignored.
pub(crate) unsafe fn mpi_abi_set_fortran_info(info: MPI_Info) -> c_int {
    let check = || {
        let (said, known) = (info_of(info)?, fortran_info()?);
        for (key, value) in said.iter() {
            if let Some(known) = known.get(key)?.filter(|&known| known != value) {
                let what = format!("{key} is {known} in this library, and cannot be set to {value}");
                return Err(Failure::new(ErrorClass::Abi, what));
            }
        }
        Ok(())
    };
    finish_on_process("MPI_Abi_set_fortran_info", check())
}

/// Fortran's `.TRUE.` and `.FALSE.` as bytes, for a logical of this size.
fn booleans(size: c_int) -> Outcome<(usize, [u8; 16], [u8; 16])> {
    if !matches!(size, 1 | 2 | 4 | 8 | 16) {
        let what = format!("a logical has 1, 2, 4, 8 or 16 bytes, not {size}");
        return Err(Failure::new(ErrorClass::Argument, what));
    }
    Ok((size as usize, 1u128.to_le_bytes(), [0; 16]))
}

pub(crate) unsafe fn mpi_abi_get_fortran_booleans(
    logical_size: c_int,
    logical_true: *mut c_void,
    logical_false: *mut c_void,
    is_set: *mut c_int,
) -> c_int {
    let give = || {
        let (size, yes, no) = booleans(logical_size)?;
        let (to_yes, to_no, is_set) = (not_null(logical_true)?, not_null(logical_false)?, not_null(is_set)?);
        // SAFETY: none is null; the program has `size` bytes for each of the two values, which do not overlap with memory of the library.
        unsafe {
            std::ptr::copy_nonoverlapping(yes.as_ptr(), to_yes.cast(), size);
            std::ptr::copy_nonoverlapping(no.as_ptr(), to_no.cast(), size);
            *is_set = 1;
        }
        Ok(())
    };
    finish_on_process("MPI_Abi_get_fortran_booleans", give())
}

/// Like [`mpi_abi_set_fortran_info`]: the values are fixed.
pub(crate) unsafe fn mpi_abi_set_fortran_booleans(
    logical_size: c_int,
    logical_true: *mut c_void,
    logical_false: *mut c_void,
) -> c_int {
    let check = || {
        let (size, yes, no) = booleans(logical_size)?;
        let said = |at: *mut c_void| {
            // SAFETY: not null; `size` is the number of bytes, which the program does not change during the call.
            not_null(at).map(|at| unsafe { std::slice::from_raw_parts(at.cast_const().cast::<u8>(), size) })
        };
        if said(logical_true)? == &yes[..size] && said(logical_false)? == &no[..size] {
            return Ok(());
        }
        let what = "in this library .TRUE. is 1 and .FALSE. is 0, and neither can be changed";
        Err(Failure::new(ErrorClass::Abi, what))
    };
    finish_on_process("MPI_Abi_set_fortran_booleans", check())
}

/// The hardware resources to which processes are restricted: only the memory of the machine, which all share.
pub(crate) unsafe fn mpi_get_hw_resource_info(info: *mut MPI_Info) -> c_int {
    let known = info_from([("mpi_shared_memory".to_owned(), "true".to_owned())]);
    give("MPI_Get_hw_resource_info", info, known)
}
