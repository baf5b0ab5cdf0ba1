//! Names and attributes of datatypes (MPI 5.0 sections 7.7.4 and 7.8).

use std::ffi::{c_char, c_int, c_void};

use mpi_over_am::attribute::{Attributes, ObjectKind};

use crate::attributes::{create_keyval, free_keyval, give_attribute, keyval_of};
use crate::constants::{MPI_DATATYPE_NULL, MPI_MAX_OBJECT_NAME};
use crate::data::any_datatype_of;
use crate::errors::on_process;
use crate::failure::{Failure, Outcome, place};
use crate::state::Mpi;
use crate::text::{give_string, string_at};
use crate::types::{Callback, MPI_Datatype};

/// A name has room for its final zero in `MPI_MAX_OBJECT_NAME` bytes.
const NAME_BYTES: usize = MPI_MAX_OBJECT_NAME;

fn attributes_of(mpi: &Mpi, handle: MPI_Datatype) -> Attributes {
    mpi.types.attributes.borrow().get(&handle.0).cloned().unwrap_or_default()
}

/// Gives a datatype these attributes, and no others.
pub(crate) fn set_attributes(mpi: &Mpi, handle: MPI_Datatype, attributes: Attributes) {
    mpi.types.attributes.borrow_mut().insert(handle.0, attributes);
}

/// The attributes of a duplicate, after the copy functions of the program have run.
///
/// # Errors
/// A function's own.
pub(crate) fn duplicated_attributes(mpi: &Mpi, handle: MPI_Datatype) -> Outcome<Attributes> {
    Ok(attributes_of(mpi, handle).duplicate(handle.0 as u64)?)
}

/// Forgets a datatype that is to be freed, after the delete functions of its attributes have run.
///
/// # Errors
/// A function's own: what it was about stays, and so does the datatype.
pub(crate) fn forget(mpi: &Mpi, handle: MPI_Datatype) -> Outcome<()> {
    for deletion in attributes_of(mpi, handle).deletions() {
        deletion.run(handle.0 as u64)?;
        if let Some(attributes) = mpi.types.attributes.borrow_mut().get_mut(&handle.0) {
            attributes.remove(deletion.keyval());
        }
    }
    mpi.types.attributes.borrow_mut().remove(&handle.0);
    mpi.types.names.borrow_mut().remove(&handle.0);
    Ok(())
}

pub(crate) unsafe fn mpi_type_set_name(datatype: MPI_Datatype, name: *const c_char) -> c_int {
    on_process("MPI_Type_set_name", |mpi| {
        any_datatype_of(mpi, datatype)?;
        // SAFETY: null or a string of the program's.
        let name = unsafe { string_at(name) }?;
        mpi.types.names.borrow_mut().insert(datatype.0, name);
        Ok(())
    })
}

pub(crate) unsafe fn mpi_type_get_name(datatype: MPI_Datatype, name: *mut c_char, len: *mut c_int) -> c_int {
    on_process("MPI_Type_get_name", |mpi| {
        let (name, len) = (place(name)?, place(len)?);
        if datatype == MPI_DATATYPE_NULL {
            // SAFETY: neither is null; the program has `NAME_BYTES` for a name.
            unsafe { give_string("MPI_DATATYPE_NULL", name, NAME_BYTES, len) };
            return Ok(());
        }
        let known = any_datatype_of(mpi, datatype)?;
        let given = mpi.types.names.borrow().get(&datatype.0).cloned();
        let own = known.as_predefined().map_or("", mpi_over_am::datatype::Predefined::name);
        // SAFETY: neither is null; the program has `NAME_BYTES` for a name.
        unsafe { give_string(given.as_deref().unwrap_or(own), name, NAME_BYTES, len) };
        Ok(())
    })
}

pub(crate) unsafe fn mpi_type_create_keyval(
    copy: Callback,
    delete: Callback,
    keyval: *mut c_int,
    extra_state: *mut c_void,
) -> c_int {
    on_process("MPI_Type_create_keyval", |mpi| {
        create_keyval(mpi, ObjectKind::Datatype, (copy, delete), keyval, extra_state)
    })
}

pub(crate) unsafe fn mpi_type_free_keyval(keyval: *mut c_int) -> c_int {
    on_process("MPI_Type_free_keyval", |mpi| free_keyval(mpi, ObjectKind::Datatype, keyval))
}

/// Runs the delete function of a key's value, if there is one, and drops the value.
fn delete(mpi: &Mpi, handle: MPI_Datatype, keyval: &mpi_over_am::attribute::Keyval) -> Outcome<bool> {
    let Some(deletion) = attributes_of(mpi, handle).deletion(keyval) else { return Ok(false) };
    // The function may use the datatype: nothing is borrowed while it runs.
    deletion.run(handle.0 as u64)?;
    if let Some(attributes) = mpi.types.attributes.borrow_mut().get_mut(&handle.0) {
        attributes.remove(keyval);
    }
    Ok(true)
}

pub(crate) unsafe fn mpi_type_set_attr(datatype: MPI_Datatype, keyval: c_int, value: *mut c_void) -> c_int {
    on_process("MPI_Type_set_attr", |mpi| {
        any_datatype_of(mpi, datatype)?;
        let keyval = keyval_of(mpi, keyval)?;
        attributes_of(mpi, datatype).get(ObjectKind::Datatype, &keyval)?;
        delete(mpi, datatype, &keyval)?;
        let mut attributes = mpi.types.attributes.borrow_mut();
        let own = attributes.entry(datatype.0).or_default();
        Ok(own.set(ObjectKind::Datatype, &keyval, value.expose_provenance() as u64)?)
    })
}

pub(crate) unsafe fn mpi_type_get_attr(
    datatype: MPI_Datatype,
    keyval: c_int,
    value: *mut c_void,
    flag: *mut c_int,
) -> c_int {
    on_process("MPI_Type_get_attr", |mpi| {
        any_datatype_of(mpi, datatype)?;
        let keyval = keyval_of(mpi, keyval)?;
        let found = attributes_of(mpi, datatype).get(ObjectKind::Datatype, &keyval)?;
        // SAFETY: the program gave the places for this result.
        unsafe { give_attribute(found.map(|found| found as usize), value, flag) }
    })
}

pub(crate) unsafe fn mpi_type_delete_attr(datatype: MPI_Datatype, keyval: c_int) -> c_int {
    on_process("MPI_Type_delete_attr", |mpi| {
        any_datatype_of(mpi, datatype)?;
        let keyval = keyval_of(mpi, keyval)?;
        attributes_of(mpi, datatype).get(ObjectKind::Datatype, &keyval)?;
        if delete(mpi, datatype, &keyval)? {
            return Ok(());
        }
        let what = "the datatype has no attribute with this key";
        Err(Failure::new(mpi_over_am::ErrorClass::Keyval, what))
    })
}
