//! The calls that add and remove the program's own error classes, codes and texts (MPI 5.0 section 9.5).

use std::ffi::{c_char, c_int};

use mpi_over_am::ErrorClass;

use crate::codes::{Own, added, class_of};
use crate::errors::finish_on_process;
use crate::failure::{Failure, not_null};
use crate::text::string_at;

fn add(class: Option<c_int>) -> c_int {
    let mut added = added();
    added.last += 1;
    let number = added.last;
    if let Some(class) = class.and_then(|class| added.by_number.get_mut(&class)) {
        class.codes += 1;
    }
    let own = Own { class: class.unwrap_or(number), is_class: class.is_none(), codes: 0, text: None };
    added.by_number.insert(number, own);
    number
}

pub(crate) unsafe fn mpi_add_error_class(class: *mut c_int) -> c_int {
    // SAFETY: `at` is not null, and the program gave it for this result.
    finish_on_process("MPI_Add_error_class", not_null(class).map(|at| unsafe { *at = add(None) }))
}

fn unknown(number: c_int, what: &str) -> Failure {
    Failure::new(ErrorClass::Argument, format!("{number} is not an error {what} that the program has added"))
}

pub(crate) unsafe fn mpi_add_error_code(class: c_int, code: *mut c_int) -> c_int {
    let known = class_of(class).filter(|&known| known == class);
    let outcome = known.ok_or_else(|| unknown(class, "class")).and_then(|class| Ok((class, not_null(code)?)));
    // SAFETY: `at` is not null, and the program gave it for this result.
    finish_on_process("MPI_Add_error_code", outcome.map(|(class, at)| unsafe { *at = add(Some(class)) }))
}

pub(crate) unsafe fn mpi_add_error_string(code: c_int, text: *const c_char) -> c_int {
    // SAFETY: null, or a NUL-terminated string of the program.
    let outcome = unsafe { string_at(text) }.and_then(|text| {
        let mut added = added();
        let own = added.by_number.get_mut(&code).ok_or_else(|| unknown(code, "code or class"))?;
        own.text = Some(text);
        Ok(())
    });
    finish_on_process("MPI_Add_error_string", outcome)
}

fn has_string(number: c_int) -> Failure {
    Failure::new(ErrorClass::Argument, format!("{number} still has its string: remove the string first"))
}

pub(crate) unsafe fn mpi_remove_error_class(class: c_int) -> c_int {
    let outcome = {
        let mut added = added();
        match added.by_number.get(&class) {
            Some(own) if own.is_class && own.text.is_some() => Err(has_string(class)),
            Some(own) if own.is_class && own.codes == 0 => {
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
    finish_on_process("MPI_Remove_error_class", outcome)
}

pub(crate) unsafe fn mpi_remove_error_code(code: c_int) -> c_int {
    let outcome = {
        let mut added = added();
        match added.by_number.get(&code) {
            Some(own) if !own.is_class && own.text.is_some() => Err(has_string(code)),
            Some(&Own { is_class: false, class, .. }) => {
                added.by_number.remove(&code);
                if let Some(class) = added.by_number.get_mut(&class) {
                    class.codes -= 1;
                }
                Ok(())
            }
            _ => Err(unknown(code, "code")),
        }
    };
    finish_on_process("MPI_Remove_error_code", outcome)
}

pub(crate) unsafe fn mpi_remove_error_string(code: c_int) -> c_int {
    let outcome = match added().by_number.get_mut(&code) {
        Some(own) if own.text.is_some() => {
            own.text = None;
            Ok(())
        }
        _ => Err(unknown(code, "code with a string")),
    };
    finish_on_process("MPI_Remove_error_string", outcome)
}
