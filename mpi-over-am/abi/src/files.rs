//! Files: opening, closing, sizes, views and pointers (MPI 5.0 sections 14.2 to 14.4 and 14.6).
//!
//! An error runs the error handler of its file; one that belongs to no open file runs that of `MPI_FILE_NULL`.
//!
//! SAFETY: each `mpi_*` function here is called under the contract that the standard gives it: pointers are valid for the accesses that the
//! standard specifies. One thread at a time uses the state of MPI (`state`).

#![expect(
    clippy::undocumented_unsafe_blocks,
    reason = "the functions store results and read strings at the program's pointers"
)]

use std::ffi::{CStr, OsStr, c_char, c_int};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::rc::Rc;

use mpi_over_am::ErrorClass;
use mpi_over_am::file::{self, AccessMode, Whence};

use crate::constants::{
    MPI_DISPLACEMENT_CURRENT, MPI_FILE_NULL, MPI_MAX_DATAREP_STRING, MPI_MODE_APPEND, MPI_MODE_CREATE,
    MPI_MODE_DELETE_ON_CLOSE, MPI_MODE_EXCL, MPI_MODE_RDONLY, MPI_MODE_RDWR, MPI_MODE_SEQUENTIAL,
    MPI_MODE_UNIQUE_OPEN, MPI_MODE_WRONLY, MPI_SEEK_CUR, MPI_SEEK_END, MPI_SEEK_SET, MPI_SUCCESS,
};
use crate::data::{any_datatype_of, datatype_of};
use crate::errors::no_communicator;
use crate::failure::{Failure, Outcome, not_null};
use crate::groups::keep_group;
use crate::infos::{info_of, keep_info};
use crate::objects::FileObject;
use crate::raise::{FILES, KeptErrhandler, raise_on_no_file, raise_through};
use crate::state::{Mpi, enter};
use crate::text::{give_string, string_at};
use crate::type_contents::handle_to_tell;
use crate::types::{MPI_Comm, MPI_Datatype, MPI_File, MPI_Group, MPI_Info};

/// Runs the error handler of a file for a failure.
#[cold]
fn raise(object: &FileObject, handle: MPI_File, function: &str, failure: &Failure) -> c_int {
    let of = || format!("rank {} of the file {}", object.file.rank(), object.file.path().display());
    raise_through(object.errhandler.get(), handle.0, of, function, failure)
}

/// Runs the error handler of the file whose tasks communicate under a context id, for the failure of a request; `None`: no file does.
#[cold]
pub(crate) fn raise_of_file(mpi: &Mpi, context_id: u32, function: &str, failure: &Failure) -> Option<c_int> {
    let handle = mpi.files.find(|object| object.file.has_context_id(context_id))?;
    let object = mpi.files.get(handle)?;
    Some(raise(&object, MPI_File(handle), function, failure))
}

fn file_of(mpi: &Mpi, handle: MPI_File) -> Outcome<Rc<FileObject>> {
    mpi.files.get(handle.0).ok_or_else(|| {
        let what = match handle {
            MPI_FILE_NULL => "the file is MPI_FILE_NULL".to_owned(),
            other => format!("0x{:x} is not a file: it was closed, or never was one", other.0),
        };
        Failure::new(ErrorClass::File, what)
    })
}

/// Runs a call on a file.
pub(crate) fn on_file(
    function: &str,
    handle: MPI_File,
    call: impl FnOnce(&Mpi, &FileObject) -> Outcome<()>,
) -> c_int {
    let mpi = match enter(function) {
        Ok(mpi) => mpi,
        Err(code) => return code,
    };
    match file_of(&mpi, handle) {
        Err(failure) => raise_on_no_file(function, &failure),
        Ok(object) => match call(&mpi, &object) {
            Ok(()) => MPI_SUCCESS,
            Err(failure) => raise(&object, handle, function, &failure),
        },
    }
}

/// Runs a call that belongs to no open file.
pub(crate) fn on_no_file(function: &str, call: impl FnOnce(&Mpi) -> Outcome<()>) -> c_int {
    let mpi = match enter(function) {
        Ok(mpi) => mpi,
        Err(code) => return code,
    };
    match call(&mpi) {
        Ok(()) => MPI_SUCCESS,
        Err(failure) => raise_on_no_file(function, &failure),
    }
}

/// A file's name. Blanks at its end are a part of it.
unsafe fn path_at(at: *const c_char) -> Outcome<PathBuf> {
    let name = unsafe { CStr::from_ptr(not_null(at.cast_mut())?) };
    if name.is_empty() {
        return Err(Failure::new(ErrorClass::BadFile, "the file's name is empty"));
    }
    Ok(OsStr::from_bytes(name.to_bytes()).into())
}

/// An offset, size or displacement of a program.
///
/// # Errors
/// It is negative.
pub(crate) fn offset_of(offset: i64) -> Outcome<u64> {
    u64::try_from(offset).map_err(|_| {
        Failure::new(ErrorClass::Argument, format!("an offset or size in a file is {offset}, below zero"))
    })
}

/// The bits of access modes, and the modes.
const MODES: [(c_int, AccessMode); 9] = [
    (MPI_MODE_APPEND, AccessMode::APPEND),
    (MPI_MODE_CREATE, AccessMode::CREATE),
    (MPI_MODE_DELETE_ON_CLOSE, AccessMode::DELETE_ON_CLOSE),
    (MPI_MODE_EXCL, AccessMode::EXCLUSIVE),
    (MPI_MODE_RDONLY, AccessMode::READ_ONLY),
    (MPI_MODE_RDWR, AccessMode::READ_WRITE),
    (MPI_MODE_SEQUENTIAL, AccessMode::SEQUENTIAL),
    (MPI_MODE_UNIQUE_OPEN, AccessMode::UNIQUE_OPEN),
    (MPI_MODE_WRONLY, AccessMode::WRITE_ONLY),
];

/// The access mode of a program's bits. Bits that are no mode's become bits that no mode has.
fn mode_of(bits: c_int) -> AccessMode {
    let known = MODES.iter().filter(|(bit, _)| bits & bit != 0);
    let (seen, mode) = known.fold((0, 0), |(seen, all), (bit, mode)| (seen | bit, all | mode.bits()));
    let other = match bits & !seen {
        // The bits are the modes' own.
        other if cfg!(face = "standard") => other.cast_unsigned(),
        0 => 0,
        _ => 1 << 31,
    };
    AccessMode::from_bits(mode | other)
}

fn mode_in_c(mode: AccessMode) -> c_int {
    MODES.iter().filter(|(_, known)| mode.bits() & known.bits() != 0).fold(0, |all, (bit, _)| all | bit)
}

pub(crate) unsafe fn mpi_file_open(
    comm: MPI_Comm,
    filename: *const c_char,
    amode: c_int,
    info: MPI_Info,
    fh: *mut MPI_File,
) -> c_int {
    on_no_file("MPI_File_open", |mpi| {
        let at = not_null(fh)?;
        let object = mpi.communicator(comm).ok_or_else(|| no_communicator(comm))?;
        let (path, info) = (unsafe { path_at(filename) }?, info_of(info)?);
        let mode = mode_of(amode);
        let file = object.communicator.open_file(path, mode, &info)?;
        let errhandler = KeptErrhandler::new(FILES.get());
        let handle = mpi.files.insert(Rc::new(FileObject { file, errhandler }))?;
        unsafe { *at = MPI_File(handle) };
        Ok(())
    })
}

pub(crate) unsafe fn mpi_file_close(fh: *mut MPI_File) -> c_int {
    const CALL: &str = "MPI_File_close";
    let at = match not_null(fh) {
        Ok(at) => at,
        Err(failure) => return on_no_file(CALL, |_| Err(failure)),
    };
    let handle = unsafe { *at };
    let begun = on_file(CALL, handle, |_, object| Ok(object.file.check_close()?));
    if begun != MPI_SUCCESS {
        return begun;
    }
    let mpi = match enter(CALL) {
        Ok(mpi) => mpi,
        Err(code) => return code,
    };
    let Some(Ok(object)) = mpi.files.remove(handle.0).map(Rc::try_unwrap) else {
        let failure = Failure::new(ErrorClass::File, "the file is still in use by another call");
        return raise_on_no_file(CALL, &failure);
    };
    unsafe { *at = MPI_FILE_NULL };
    let FileObject { file, errhandler } = object;
    let path = file.path().display().to_string();
    match file.close() {
        Ok(()) => MPI_SUCCESS,
        Err(error) => {
            raise_through(errhandler.get(), handle.0, || format!("the file {path}"), CALL, &error.into())
        }
    }
}

pub(crate) unsafe fn mpi_file_delete(filename: *const c_char, info: MPI_Info) -> c_int {
    on_no_file("MPI_File_delete", |_| {
        info_of(info)?;
        Ok(file::delete(unsafe { path_at(filename) }?)?)
    })
}

pub(crate) unsafe fn mpi_file_set_size(fh: MPI_File, size: i64) -> c_int {
    on_file("MPI_File_set_size", fh, |_, object| Ok(object.file.set_len(offset_of(size)?)?))
}

pub(crate) unsafe fn mpi_file_preallocate(fh: MPI_File, size: i64) -> c_int {
    on_file("MPI_File_preallocate", fh, |_, object| Ok(object.file.preallocate(offset_of(size)?)?))
}

pub(crate) unsafe fn mpi_file_get_size(fh: MPI_File, size: *mut i64) -> c_int {
    on_file("MPI_File_get_size", fh, |_, object| {
        unsafe { *not_null(size)? = object.file.len()? as i64 };
        Ok(())
    })
}

pub(crate) unsafe fn mpi_file_get_group(fh: MPI_File, group: *mut MPI_Group) -> c_int {
    on_file("MPI_File_get_group", fh, |mpi, object| {
        unsafe { *not_null(group)? = keep_group(mpi, object.file.group())? };
        Ok(())
    })
}

pub(crate) unsafe fn mpi_file_get_amode(fh: MPI_File, amode: *mut c_int) -> c_int {
    on_file("MPI_File_get_amode", fh, |_, object| {
        unsafe { *not_null(amode)? = mode_in_c(object.file.mode()) };
        Ok(())
    })
}

pub(crate) unsafe fn mpi_file_set_info(fh: MPI_File, info: MPI_Info) -> c_int {
    on_file("MPI_File_set_info", fh, |_, object| {
        object.file.properties().set_info(&info_of(info)?);
        Ok(())
    })
}

pub(crate) unsafe fn mpi_file_get_info(fh: MPI_File, info: *mut MPI_Info) -> c_int {
    on_file("MPI_File_get_info", fh, |_, object| {
        unsafe { *not_null(info)? = keep_info(object.file.properties().info())? };
        Ok(())
    })
}

pub(crate) unsafe fn mpi_file_set_view(
    fh: MPI_File,
    displacement: i64,
    etype: MPI_Datatype,
    filetype: MPI_Datatype,
    datarep: *const c_char,
    info: MPI_Info,
) -> c_int {
    on_file("MPI_File_set_view", fh, |mpi, object| {
        let displacement = match displacement {
            MPI_DISPLACEMENT_CURRENT => None,
            other => Some(offset_of(other)?),
        };
        let (etype, filetype) = (datatype_of(mpi, etype)?, datatype_of(mpi, filetype)?);
        let (datarep, info) = (unsafe { string_at(datarep) }?, info_of(info)?);
        Ok(object.file.set_view(displacement, &etype, &filetype, &datarep, &info)?)
    })
}

pub(crate) unsafe fn mpi_file_get_view(
    fh: MPI_File,
    displacement: *mut i64,
    etype: *mut MPI_Datatype,
    filetype: *mut MPI_Datatype,
    datarep: *mut c_char,
) -> c_int {
    on_file("MPI_File_get_view", fh, |mpi, object| {
        let (to_displacement, to_etype) = (not_null(displacement)?, not_null(etype)?);
        let (to_filetype, to_datarep) = (not_null(filetype)?, not_null(datarep)?);
        let (displacement, etype, filetype, representation) = object.file.view();
        unsafe {
            *to_etype = handle_to_tell(mpi, &etype)?;
            *to_filetype = handle_to_tell(mpi, &filetype)?;
            *to_displacement = displacement as i64;
            give_string(representation.name(), to_datarep, MPI_MAX_DATAREP_STRING, std::ptr::null_mut());
        }
        Ok(())
    })
}

/// The position from which a seek counts.
fn whence_of(whence: c_int) -> Outcome<Whence> {
    match whence {
        MPI_SEEK_SET => Ok(Whence::Start),
        MPI_SEEK_CUR => Ok(Whence::Current),
        MPI_SEEK_END => Ok(Whence::End),
        other => {
            let what = format!("{other} is none of MPI_SEEK_SET, MPI_SEEK_CUR and MPI_SEEK_END");
            Err(Failure::new(ErrorClass::Argument, what))
        }
    }
}

pub(crate) unsafe fn mpi_file_seek(fh: MPI_File, offset: i64, whence: c_int) -> c_int {
    on_file("MPI_File_seek", fh, |_, object| Ok(object.file.seek(offset, whence_of(whence)?)?))
}

pub(crate) unsafe fn mpi_file_seek_shared(fh: MPI_File, offset: i64, whence: c_int) -> c_int {
    on_file("MPI_File_seek_shared", fh, |_, object| {
        Ok(object.file.seek_shared(offset, whence_of(whence)?)?)
    })
}

pub(crate) unsafe fn mpi_file_get_position(fh: MPI_File, offset: *mut i64) -> c_int {
    on_file("MPI_File_get_position", fh, |_, object| {
        unsafe { *not_null(offset)? = object.file.position()? as i64 };
        Ok(())
    })
}

pub(crate) unsafe fn mpi_file_get_position_shared(fh: MPI_File, offset: *mut i64) -> c_int {
    on_file("MPI_File_get_position_shared", fh, |_, object| {
        unsafe { *not_null(offset)? = object.file.shared_position()? as i64 };
        Ok(())
    })
}

pub(crate) unsafe fn mpi_file_get_byte_offset(fh: MPI_File, offset: i64, displacement: *mut i64) -> c_int {
    on_file("MPI_File_get_byte_offset", fh, |_, object| {
        unsafe { *not_null(displacement)? = object.file.byte_offset(offset_of(offset)?)? as i64 };
        Ok(())
    })
}

pub(crate) unsafe fn mpi_file_get_type_extent_c(
    fh: MPI_File,
    datatype: MPI_Datatype,
    extent: *mut i64,
) -> c_int {
    on_file("MPI_File_get_type_extent", fh, |mpi, object| {
        unsafe { *not_null(extent)? = object.file.type_extent(&any_datatype_of(mpi, datatype)?)? };
        Ok(())
    })
}

pub(crate) unsafe fn mpi_file_set_atomicity(fh: MPI_File, flag: c_int) -> c_int {
    on_file("MPI_File_set_atomicity", fh, |_, object| Ok(object.file.set_atomicity(flag != 0)?))
}

pub(crate) unsafe fn mpi_file_get_atomicity(fh: MPI_File, flag: *mut c_int) -> c_int {
    on_file("MPI_File_get_atomicity", fh, |_, object| {
        unsafe { *not_null(flag)? = object.file.is_atomic().into() };
        Ok(())
    })
}

pub(crate) unsafe fn mpi_file_sync(fh: MPI_File) -> c_int {
    on_file("MPI_File_sync", fh, |_, object| Ok(object.file.sync()?))
}
