//! Keys of attributes, and the attributes that the library itself gives to communicators (MPI 5.0 section 7.7).

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicI32, Ordering};

use mpi_over_am::attribute::{Keyval, ObjectKind, PredefinedAttribute};
use mpi_over_am::{Error, ErrorClass, TAG_UB};

use crate::codes::last_used;
use crate::constants::{
    MPI_ANY_SOURCE, MPI_APPNUM, MPI_COMM_DUP_FN, MPI_COMM_NULL_COPY_FN, MPI_HOST, MPI_IO, MPI_KEYVAL_INVALID,
    MPI_LASTUSEDCODE, MPI_PROC_NULL, MPI_SUCCESS, MPI_TAG_UB, MPI_UNIVERSE_SIZE, MPI_WTIME_IS_GLOBAL,
    MPIX_FT,
};
use crate::engine::Communicator;
use crate::errors::on_communicator;
use crate::face::Handle as _;
use crate::failure::{Failure, Outcome, call_program, not_null};
use crate::fortran::OwnedState;
use crate::state::Mpi;
use crate::types::{Callback, MPI_Comm, MPI_Datatype, MPI_File, MPI_Session, MPI_Win};

/// Copy functions of all kinds of objects, which differ only in the type of the handle.
type CopyAttribute =
    unsafe extern "C-unwind" fn(usize, c_int, *mut c_void, *mut c_void, *mut c_void, *mut c_int) -> c_int;
type DeleteAttribute = unsafe extern "C-unwind" fn(usize, c_int, *mut c_void, *mut c_void) -> c_int;

/// `MPI_COMM_DUP_FN` and its counterparts for other objects.
const DUPLICATE: Callback = MPI_COMM_DUP_FN;
/// `MPI_COMM_NULL_COPY_FN`, `MPI_COMM_NULL_DELETE_FN` and their counterparts for other objects.
const NOTHING: Callback = MPI_COMM_NULL_COPY_FN;
/// An object's handle, for a function of the program.
fn word(kind: ObjectKind, handle: usize) -> usize {
    match kind {
        ObjectKind::Communicator => MPI_Comm(handle).to_word(),
        ObjectKind::Datatype => MPI_Datatype(handle).to_word(),
        ObjectKind::Window => MPI_Win(handle).to_word(),
        ObjectKind::Session => MPI_Session(handle).to_word(),
        ObjectKind::File => MPI_File(handle).to_word(),
    }
}

/// Runs a function of the program that returns a code.
fn run(call: &'static str, function: impl FnOnce() -> c_int) -> mpi_over_am::Result<()> {
    let code = call_program(call, function);
    if code == MPI_SUCCESS { Ok(()) } else { Err(Error::Callback { call, code }) }
}

/// Makes a key for attributes of one kind of object, and stores its number at `at`.
///
/// # Errors
/// The pointer for the key's number is null.
pub(crate) fn create_keyval(
    mpi: &Mpi,
    kind: ObjectKind,
    (copy, delete): (Callback, Callback),
    at: *mut c_int,
    extra_state: *mut c_void,
) -> Outcome<()> {
    let at = not_null(at)?;
    let extra = extra_state.expose_provenance();
    let fortran = OwnedState::of((copy, delete), extra_state);
    let number = mpi.keyvals.borrow_mut().free_number();
    let keyval = Keyval::new(
        kind,
        move |object, _, value| {
            if copy == NOTHING || copy == DUPLICATE {
                return Ok((copy == DUPLICATE).then_some(value));
            }
            // The state of a Fortran program lives as long as the key.
            let _ = &fortran;
            // SAFETY: the program gave a function of this type (MPI 5.0 section 7.7.2); the two predefined ones, which are numbers, were
            // handled above.
            let function: CopyAttribute = unsafe { std::mem::transmute(copy) };
            let (mut copied, mut flag) = (0u64, 0);
            let extra = std::ptr::with_exposed_provenance_mut(extra);
            let value = std::ptr::with_exposed_provenance_mut(value as usize);
            let out = (&raw mut copied).cast();
            // SAFETY: the arguments are those that the function's type asks for: a handle of the keyval's kind of object, the state and the
            // value that the program gave, and the addresses of two results, valid until the function returns.
            run("a copy function of attributes", || unsafe {
                function(word(kind, object as usize), number, extra, value, out, &raw mut flag)
            })?;
            Ok((flag != 0).then_some(copied))
        },
        move |object, _, value| {
            if delete == NOTHING {
                return Ok(());
            }
            // SAFETY: the program gave a function of this type (MPI 5.0 section 7.7.2); the predefined one, which is a number, was handled
            // above.
            let function: DeleteAttribute = unsafe { std::mem::transmute(delete) };
            let extra = std::ptr::with_exposed_provenance_mut(extra);
            let value = std::ptr::with_exposed_provenance_mut(value as usize);
            // SAFETY: the arguments are those that the function's type asks for: a handle of the keyval's kind of object, and the value and
            // the state that the program gave.
            run("a delete function of attributes", || unsafe {
                function(word(kind, object as usize), number, value, extra)
            })
        },
    );
    mpi.keyvals.borrow_mut().insert(number, keyval);
    // SAFETY: `at` is not null, and the program gave it for this result.
    unsafe { *at = number };
    Ok(())
}

/// The key with this number.
///
/// # Errors
/// The key was freed and no attribute has it, the key is predefined, or it never existed. A key for another kind of object is refused
/// later, when it is used with an object.
pub(crate) fn keyval_of(mpi: &Mpi, number: c_int) -> Outcome<Keyval> {
    mpi.keyvals.borrow().get(number).ok_or_else(|| {
        let what = match number {
            MPI_KEYVAL_INVALID => "the key is MPI_KEYVAL_INVALID".to_owned(),
            _ => format!("{number} is not a key that the program has made: it is predefined, was freed, or never was one"),
        };
        Failure::new(ErrorClass::Keyval, what)
    })
}

/// Frees a key. Its attributes stay. Until the last of them is deleted, the key's number stays valid, and may be freed again.
///
/// # Errors
/// `at` is null, there is no such key, or the key is for another kind of object.
pub(crate) fn free_keyval(mpi: &Mpi, kind: ObjectKind, at: *mut c_int) -> Outcome<()> {
    let at = not_null(at)?;
    // SAFETY: `at` is not null, and the program gave it for this result.
    let number = unsafe { *at };
    let keyval = keyval_of(mpi, number)?;
    if keyval.kind() != kind {
        let what = format!("{number} is a key of another kind of object");
        return Err(Failure::new(ErrorClass::Keyval, what));
    }
    drop(keyval);
    mpi.keyvals.borrow_mut().free(number);
    // SAFETY: `at` is not null, and the program gave it for this result.
    unsafe { *at = MPI_KEYVAL_INVALID };
    Ok(())
}

/// Stores for the program whether an attribute has a value, and the value if there is one.
///
/// # Errors
/// `at` or `flag` is null.
pub(crate) unsafe fn give_attribute(found: Option<usize>, at: *mut c_void, flag: *mut c_int) -> Outcome<()> {
    let (at, flag) = (not_null(at)?, not_null(flag)?);
    // SAFETY: neither is null, and the program gave them for these results.
    unsafe {
        *flag = c_int::from(found.is_some());
        if let Some(found) = found {
            *at.cast::<usize>() = found;
        }
    }
    Ok(())
}

pub(crate) unsafe fn mpi_comm_get_attr(
    comm: MPI_Comm,
    keyval: c_int,
    value: *mut c_void,
    flag: *mut c_int,
) -> c_int {
    on_communicator("MPI_Comm_get_attr", comm, |mpi, object| {
        let communicator = &object.communicator;
        let found = match predefined(communicator, keyval) {
            Some(found) => found,
            None => {
                communicator.properties().attribute(&keyval_of(mpi, keyval)?)?.map(|value| value as usize)
            }
        };
        // SAFETY: the program gave the addresses for these results.
        unsafe { give_attribute(found, value, flag) }
    })
}

/// Environment variable that tells a task the number of its program, counted from 0, in a job with several programs.
pub(crate) const PROGRAM: &str = "AM_PROGRAM";

/// The number of the calling task's program, if `mpiexec` has started several.
fn program_of_task() -> Option<c_int> {
    std::env::var(PROGRAM).ok()?.parse().ok()
}

/// The values of the predefined attributes; programs get their addresses.
static VALUES: [AtomicI32; 8] = [const { AtomicI32::new(0) }; 8];

/// The address of a predefined attribute's value. `Some(None)`: the attribute has no value; `None`: the number is not a predefined key.
fn predefined(communicator: &Communicator, keyval: c_int) -> Option<Option<usize>> {
    let known = |attribute| {
        communicator.predefined_attribute(attribute).map(|value| c_int::try_from(value).unwrap_or(c_int::MAX))
    };
    let (place, value) = match keyval {
        MPI_TAG_UB => (0, Some(TAG_UB)),
        // Every task can do input and output.
        MPI_IO => (1, Some(MPI_ANY_SOURCE)),
        MPI_HOST => (2, Some(MPI_PROC_NULL)),
        MPI_WTIME_IS_GLOBAL => (3, known(PredefinedAttribute::WtimeIsGlobal)),
        MPI_APPNUM => (4, program_of_task().or_else(|| known(PredefinedAttribute::AppNum))),
        MPI_LASTUSEDCODE => (5, Some(last_used())),
        MPI_UNIVERSE_SIZE => (6, known(PredefinedAttribute::UniverseSize)),
        MPIX_FT => (7, known(PredefinedAttribute::GoesOn)),
        _ => return None,
    };
    Some(value.map(|value| {
        let kept = &VALUES[place];
        kept.store(value, Ordering::Relaxed);
        kept.as_ptr().expose_provenance()
    }))
}
