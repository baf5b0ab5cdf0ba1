//! Names and attributes of datatypes (MPI 5.0 sections 7.7.4 and 7.8).

use std::ffi::{c_char, c_int, c_void};
use std::rc::Rc;

use mpi_over_am::attribute::ObjectKind;
use mpi_over_am::datatype::{Datatype, Predefined};
use mpi_over_am::{ByCall, ErrorHandler, Info, Properties};

use crate::attributes::{create_keyval, free_keyval, give_attribute, keyval_of};
use crate::constants::{MPI_DATATYPE_NULL, MPI_MAX_OBJECT_NAME};
use crate::data::any_datatype_of;
use crate::errors::on_process;
use crate::failure::{Outcome, not_null};
use crate::state::Mpi;
use crate::text::{give_string, string_at};
use crate::types::{Callback, MPI_Datatype};

/// Maximum length of a name in bytes, with its terminating NUL.
const NAME_BYTES: usize = MPI_MAX_OBJECT_NAME;

/// The properties of a datatype, made at their first use.
fn properties_of(mpi: &Mpi, handle: MPI_Datatype, datatype: &Datatype) -> Rc<Properties<ByCall>> {
    let mut all = mpi.types.properties.borrow_mut();
    let properties = all.entry(handle.0).or_insert_with(|| {
        let properties = Properties::new(ObjectKind::Datatype, Info::new(), ErrorHandler::Return);
        properties.set_handle(handle.0 as u64);
        properties.set_name(datatype.as_predefined().map_or("", Predefined::name));
        Rc::new(properties)
    });
    Rc::clone(properties)
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

/// The properties of a new duplicate of a datatype: the attributes that the program's copy functions copy.
///
/// # Errors
/// The error of a copy function.
pub(crate) fn duplicated(mpi: &Mpi, handle: MPI_Datatype) -> Outcome<Properties<ByCall>> {
    let properties = Properties::new(ObjectKind::Datatype, Info::new(), ErrorHandler::Return);
    let known = mpi.types.properties.borrow().get(&handle.0).cloned();
    Ok(match known {
        Some(known) => properties.with_attributes(known.attributes_for_duplicate()?),
        None => properties,
    })
}

/// Stores the properties of a new datatype's handle.
pub(crate) fn begin_with(mpi: &Mpi, handle: MPI_Datatype, properties: Properties<ByCall>) {
    properties.set_handle(handle.0 as u64);
    mpi.types.properties.borrow_mut().insert(handle.0, Rc::new(properties));
}

/// Removes the properties of a datatype that is freed, after the delete functions of its attributes have run.
///
/// # Errors
/// The error of a delete function: its attribute and the datatype then stay.
pub(crate) fn forget(mpi: &Mpi, handle: MPI_Datatype) -> Outcome<()> {
    let known = mpi.types.properties.borrow().get(&handle.0).cloned();
    if let Some(known) = known {
        known.keyvals().iter().try_for_each(|keyval| known.delete_attribute(keyval))?;
    }
    mpi.types.properties.borrow_mut().remove(&handle.0);
    Ok(())
}

pub(crate) unsafe fn mpi_type_set_name(datatype: MPI_Datatype, name: *const c_char) -> c_int {
    on_type("MPI_Type_set_name", datatype, |_, properties| {
        // SAFETY: null, or a NUL-terminated string of the program.
        properties.set_name(&unsafe { string_at(name) }?);
        Ok(())
    })
}

pub(crate) unsafe fn mpi_type_get_name(datatype: MPI_Datatype, name: *mut c_char, len: *mut c_int) -> c_int {
    on_process("MPI_Type_get_name", |mpi| {
        let (name, len) = (not_null(name)?, not_null(len)?);
        if datatype == MPI_DATATYPE_NULL {
            // SAFETY: neither is null; the program has `NAME_BYTES` for a name.
            unsafe { give_string("MPI_DATATYPE_NULL", name, NAME_BYTES, len) };
            return Ok(());
        }
        let known = any_datatype_of(mpi, datatype)?;
        // SAFETY: neither is null; the program has `NAME_BYTES` for a name.
        unsafe { give_string(&properties_of(mpi, datatype, &known).name(), name, NAME_BYTES, len) };
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

pub(crate) unsafe fn mpi_type_set_attr(datatype: MPI_Datatype, keyval: c_int, value: *mut c_void) -> c_int {
    on_type("MPI_Type_set_attr", datatype, |mpi, properties| {
        Ok(properties.set_attribute(&keyval_of(mpi, keyval)?, value.expose_provenance() as u64)?)
    })
}

pub(crate) unsafe fn mpi_type_get_attr(
    datatype: MPI_Datatype,
    keyval: c_int,
    value: *mut c_void,
    flag: *mut c_int,
) -> c_int {
    on_type("MPI_Type_get_attr", datatype, |mpi, properties| {
        let found = properties.attribute(&keyval_of(mpi, keyval)?)?;
        // SAFETY: the program gave the addresses for this result.
        unsafe { give_attribute(found.map(|found| found as usize), value, flag) }
    })
}

pub(crate) unsafe fn mpi_type_delete_attr(datatype: MPI_Datatype, keyval: c_int) -> c_int {
    on_type("MPI_Type_delete_attr", datatype, |mpi, properties| {
        Ok(properties.delete_attribute(&keyval_of(mpi, keyval)?)?)
    })
}
