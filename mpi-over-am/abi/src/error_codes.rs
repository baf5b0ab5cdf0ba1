//! Error classes and codes, those of the program's own too (MPI 5.0 sections 9.4 and 9.5).
//!
//! SAFETY: every function here is called by C, under the contract that the standard gives it: pointers are good for what the
//! standard says they are for, buffers are left alone until their operation has ended, and one thread at a time is inside
//! (`state`).

use std::collections::BTreeMap;
use std::ffi::{CStr, c_char, c_int};
use std::sync::{Mutex, MutexGuard, PoisonError};

use mpi_over_am::ErrorClass;

use crate::constants::{MPI_ERR_LASTCODE, MPI_SUCCESS};
use crate::errors::{Failure, MEANINGS, Outcome, finish_alone, place};
use crate::state::enter;

/// The first number that programs get: above all that the binary interface keeps for itself.
const OWN_FROM: c_int = MPI_ERR_LASTCODE + 1;

/// A class or a code of the program's.
#[derive(Clone, Debug)]
struct Own {
    class: c_int,
    is_class: bool,
    text: String,
}

/// What the program has added; the largest number ever given stays in use (MPI 5.0 section 9.5).
#[derive(Debug)]
struct Added {
    by_number: BTreeMap<c_int, Own>,
    last: c_int,
}

/// For all threads, and before `MPI_Init` too.
static ADDED: Mutex<Added> = Mutex::new(Added { by_number: BTreeMap::new(), last: OWN_FROM - 1 });

fn added() -> MutexGuard<'static, Added> {
    ADDED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The class of a code; `None` for a number that is none.
pub(crate) fn class_of(code: c_int) -> Option<c_int> {
    if (0..MEANINGS.len() as c_int).contains(&code) {
        return Some(code);
    }
    added().by_number.get(&code).map(|own| own.class)
}

/// The largest code or class that is in use (`MPI_LASTUSEDCODE`).
pub(crate) fn last_used() -> c_int {
    added().last
}

/// What a code means.
pub(crate) fn meaning(code: c_int) -> String {
    let known = usize::try_from(code).ok().and_then(|code| MEANINGS.get(code));
    known
        .map(|known| (*known).to_owned())
        .or_else(|| text_of(code))
        .unwrap_or_else(|| format!("error {code}"))
}

/// What the program says of one of its codes.
pub(crate) fn text_of(code: c_int) -> Option<String> {
    added().by_number.get(&code).map(|own| own.text.clone())
}

/// Reports through the error handler of the process, or the initial one: these calls are allowed before `MPI_Init` too.
pub(crate) fn finish(function: &str, outcome: Outcome<()>) -> c_int {
    match outcome {
        Ok(()) => MPI_SUCCESS,
        Err(failure) if crate::state::stage() == (true, false) => match enter(function) {
            Ok(mpi) => finish_alone(&mpi, function, Err(failure)),
            Err(code) => code,
        },
        Err(failure) => crate::errhandlers::raise_initial(function, &failure),
    }
}

fn add(class: Option<c_int>) -> c_int {
    let mut added = added();
    added.last += 1;
    let number = added.last;
    let own = Own { class: class.unwrap_or(number), is_class: class.is_none(), text: String::new() };
    added.by_number.insert(number, own);
    number
}

pub(crate) unsafe fn mpi_add_error_class(class: *mut c_int) -> c_int {
    finish("MPI_Add_error_class", place(class).map(|at| unsafe { *at = add(None) }))
}

fn unknown(number: c_int, what: &str) -> Failure {
    Failure::new(ErrorClass::Argument, format!("{number} is no error {what} that the program has added"))
}

pub(crate) unsafe fn mpi_add_error_code(class: c_int, code: *mut c_int) -> c_int {
    let known = class_of(class).filter(|&known| known == class);
    let outcome = known.ok_or_else(|| unknown(class, "class")).and_then(|class| Ok((class, place(code)?)));
    finish("MPI_Add_error_code", outcome.map(|(class, at)| unsafe { *at = add(Some(class)) }))
}

pub(crate) unsafe fn mpi_add_error_string(code: c_int, text: *const c_char) -> c_int {
    let outcome = place(text.cast_mut()).and_then(|text| {
        let text = unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned();
        let mut added = added();
        let own = added.by_number.get_mut(&code).ok_or_else(|| unknown(code, "code or class"))?;
        own.text = text;
        Ok(())
    });
    finish("MPI_Add_error_string", outcome)
}

fn has_string(number: c_int) -> Failure {
    Failure::new(ErrorClass::Argument, format!("{number} still has its string: remove that first"))
}

pub(crate) unsafe fn mpi_remove_error_class(class: c_int) -> c_int {
    let outcome = {
        let mut added = added();
        let is_used = added.by_number.values().any(|own| !own.is_class && own.class == class);
        match added.by_number.get(&class) {
            Some(own) if own.is_class && !own.text.is_empty() => Err(has_string(class)),
            Some(own) if own.is_class && !is_used => {
                added.by_number.remove(&class);
                Ok(())
            }
            Some(own) if own.is_class => Err(Failure::new(
                ErrorClass::Argument,
                format!("class {class} still has codes: remove them first"),
            )),
            _ => Err(unknown(class, "class")),
        }
    };
    finish("MPI_Remove_error_class", outcome)
}

pub(crate) unsafe fn mpi_remove_error_code(code: c_int) -> c_int {
    let outcome = {
        let mut added = added();
        match added.by_number.get(&code) {
            Some(own) if !own.is_class && !own.text.is_empty() => Err(has_string(code)),
            Some(own) if !own.is_class => {
                added.by_number.remove(&code);
                Ok(())
            }
            _ => Err(unknown(code, "code")),
        }
    };
    finish("MPI_Remove_error_code", outcome)
}

pub(crate) unsafe fn mpi_remove_error_string(code: c_int) -> c_int {
    let outcome = match added().by_number.get_mut(&code) {
        Some(own) if !own.text.is_empty() => {
            own.text.clear();
            Ok(())
        }
        _ => Err(unknown(code, "code with a string")),
    };
    finish("MPI_Remove_error_string", outcome)
}
