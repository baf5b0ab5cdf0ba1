//! Names and attributes of communicators, windows and datatypes (MPI 5.0 sections 7.7 and 7.8).
//!
//! SAFETY: each `mpi_*` function here is called under the contract that the standard gives it: pointers are valid for the accesses that the
//! standard specifies. One thread at a time uses the state of MPI (`state`).

#![expect(
    clippy::undocumented_unsafe_blocks,
    reason = "the functions store results and read strings at the program's pointers; the exports have refused null pointers"
)]

use std::ffi::{c_char, c_int, c_void};

use mpi_over_am::attribute::ObjectKind;
use mpi_over_am::{ByCall, Properties};

use crate::attributes::{create_keyval, free_keyval, give_attribute, keyval_of};
use crate::constants::{MPI_COMM_NULL, MPI_DATATYPE_NULL, MPI_MAX_OBJECT_NAME, MPI_SUCCESS, MPI_WIN_NULL};
use crate::data::any_datatype_of;
use crate::errors::{on_communicator, on_process};
use crate::failure::Outcome;
use crate::state::Mpi;
use crate::text::{give_string, string_at};
use crate::type_objects::properties_of;
use crate::types::{Callback, MPI_Comm, MPI_Datatype, MPI_Win};
use crate::windows::on_window;

/// Runs a call about the properties of a communicator.
fn on_comm(
    function: &str,
    handle: MPI_Comm,
    call: impl FnOnce(&Mpi, &Properties<ByCall>) -> Outcome<()>,
) -> c_int {
    on_communicator(function, handle, |mpi, object| call(mpi, object.communicator.properties()))
}

/// Runs a call about the properties of a window.
fn on_win(
    function: &str,
    handle: MPI_Win,
    call: impl FnOnce(&Mpi, &Properties<ByCall>) -> Outcome<()>,
) -> c_int {
    on_window(function, handle, |mpi, object| call(mpi, object.window.properties()))
}

/// Runs a call about the properties of a datatype.
fn on_type(
    function: &str,
    handle: MPI_Datatype,
    call: impl FnOnce(&Mpi, &Properties<ByCall>) -> Outcome<()>,
) -> c_int {
    on_process(function, |mpi| {
        let datatype = any_datatype_of(mpi, handle)?;
        call(mpi, &properties_of(mpi, handle, &datatype))
    })
}

/// The calls that exist for each kind of object.
macro_rules! calls {
    ($($on:ident $name:literal $handle:ident $null:ident $kind:ident
        $set_name:ident $get_name:ident $create_keyval:ident $free_keyval:ident $set_attr:ident $delete_attr:ident)*) => { $(
        pub(crate) unsafe fn $set_name(object: $handle, name: *const c_char) -> c_int {
            $on(concat!("MPI_", $name, "_set_name"), object, |_, properties| {
                properties.set_name(&unsafe { string_at(name) }?);
                Ok(())
            })
        }

        pub(crate) unsafe fn $get_name(object: $handle, name: *mut c_char, len: *mut c_int) -> c_int {
            if object == $null {
                // The null handle has a name too (MPI 5.0 section 7.8).
                unsafe { give_string(stringify!($null), name, MPI_MAX_OBJECT_NAME, len) };
                return MPI_SUCCESS;
            }
            $on(concat!("MPI_", $name, "_get_name"), object, |_, properties| {
                unsafe { give_string(&properties.name(), name, MPI_MAX_OBJECT_NAME, len) };
                Ok(())
            })
        }

        pub(crate) unsafe fn $create_keyval(
            copy: Callback,
            delete: Callback,
            keyval: *mut c_int,
            extra_state: *mut c_void,
        ) -> c_int {
            on_process(concat!("MPI_", $name, "_create_keyval"), |mpi| {
                create_keyval(mpi, ObjectKind::$kind, (copy, delete), keyval, extra_state)
            })
        }

        pub(crate) unsafe fn $free_keyval(keyval: *mut c_int) -> c_int {
            on_process(concat!("MPI_", $name, "_free_keyval"), |mpi| free_keyval(mpi, ObjectKind::$kind, keyval))
        }

        pub(crate) unsafe fn $set_attr(object: $handle, keyval: c_int, value: *mut c_void) -> c_int {
            $on(concat!("MPI_", $name, "_set_attr"), object, |mpi, properties| {
                Ok(properties.set_attribute(&keyval_of(mpi, keyval)?, value.expose_provenance() as u64)?)
            })
        }

        pub(crate) unsafe fn $delete_attr(object: $handle, keyval: c_int) -> c_int {
            $on(concat!("MPI_", $name, "_delete_attr"), object, |mpi, properties| {
                Ok(properties.delete_attribute(&keyval_of(mpi, keyval)?)?)
            })
        }
    )* };
}

calls! {
    on_comm "Comm" MPI_Comm MPI_COMM_NULL Communicator
    mpi_comm_set_name mpi_comm_get_name
    mpi_comm_create_keyval mpi_comm_free_keyval
    mpi_comm_set_attr mpi_comm_delete_attr

    on_win "Win" MPI_Win MPI_WIN_NULL Window
    mpi_win_set_name mpi_win_get_name
    mpi_win_create_keyval mpi_win_free_keyval
    mpi_win_set_attr mpi_win_delete_attr

    on_type "Type" MPI_Datatype MPI_DATATYPE_NULL Datatype
    mpi_type_set_name mpi_type_get_name
    mpi_type_create_keyval mpi_type_free_keyval
    mpi_type_set_attr mpi_type_delete_attr
}

pub(crate) unsafe fn mpi_type_get_attr(
    datatype: MPI_Datatype,
    keyval: c_int,
    value: *mut c_void,
    flag: *mut c_int,
) -> c_int {
    on_type("MPI_Type_get_attr", datatype, |mpi, properties| {
        let found = properties.attribute(&keyval_of(mpi, keyval)?)?;
        unsafe { give_attribute(found.map(|found| found as usize), value, flag) }
    })
}
