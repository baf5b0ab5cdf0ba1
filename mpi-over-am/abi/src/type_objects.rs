//! The properties of datatypes: their names and attributes (MPI 5.0 sections 7.7.4 and 7.8).

use std::rc::Rc;

use mpi_over_am::attribute::ObjectKind;
use mpi_over_am::datatype::{Datatype, Predefined};
use mpi_over_am::{ByCall, ErrorHandler, Info, Properties};

use crate::failure::Outcome;
use crate::state::Mpi;
use crate::types::MPI_Datatype;

/// The properties of a datatype, made at their first use.
pub(crate) fn properties_of(mpi: &Mpi, handle: MPI_Datatype, datatype: &Datatype) -> Rc<Properties<ByCall>> {
    let mut all = mpi.types.properties.borrow_mut();
    let properties = all.entry(handle.0).or_insert_with(|| {
        let properties = Properties::new(ObjectKind::Datatype, Info::new(), ErrorHandler::Return);
        properties.set_handle(handle.0 as u64);
        properties.set_name(datatype.as_predefined().map_or("", Predefined::name));
        Rc::new(properties)
    });
    Rc::clone(properties)
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
