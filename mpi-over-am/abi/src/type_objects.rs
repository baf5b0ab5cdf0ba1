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
        let properties = Properties::new(ObjectKind::Datatype, &Info::new(), ErrorHandler::Return);
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
    let properties = Properties::new(ObjectKind::Datatype, &Info::new(), ErrorHandler::Return);
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

/// Frees a datatype, after the delete functions of its attributes have run. If an operation under way uses the type, it and its attributes
/// stay until no operation uses it any more (MPI 5.0 section 5.1.9): a function of the program may ask for them.
///
/// # Errors
/// The error of a delete function: its attribute and the datatype then stay.
pub(crate) fn free(mpi: &Mpi, handle: MPI_Datatype) -> Outcome<()> {
    let freed = mpi.types.freed.borrow().len();
    if freed < SWEPT_ALWAYS || freed >= mpi.types.sweep_at.get() {
        sweep(mpi);
    }
    let Some(datatype) = mpi.datatypes.take(handle.0) else { return Ok(()) };
    if datatype.is_shared() && datatype.number() == handle.0 as u64 {
        mpi.types.freed.borrow_mut().insert(handle.0, datatype);
        return Ok(());
    }
    mpi.datatypes.fill(handle.0, datatype);
    end(mpi, handle)?;
    mpi.datatypes.remove(handle.0);
    Ok(())
}

/// Up to this number, the freed types are looked through whenever a type is freed; above it, when their number has doubled.
const SWEPT_ALWAYS: usize = 16;

/// Ends the freed types that nothing uses any more.
pub(crate) fn sweep(mpi: &Mpi) {
    loop {
        // A type may be the last use of others.
        let unused = |(&handle, datatype): (&usize, &Datatype)| (!datatype.is_shared()).then_some(handle);
        let unused: Vec<_> = mpi.types.freed.borrow().iter().filter_map(unused).collect();
        if unused.is_empty() {
            break;
        }
        for handle in unused {
            let Some(datatype) = mpi.types.freed.borrow_mut().remove(&handle) else { continue };
            // Delete functions may use the type. An error has no call any more that could return it.
            mpi.datatypes.fill(handle, datatype);
            let _ = end(mpi, MPI_Datatype(handle));
            mpi.types.properties.borrow_mut().remove(&handle);
            mpi.datatypes.remove(handle);
        }
    }
    mpi.types.sweep_at.set(2 * mpi.types.freed.borrow().len());
}

/// Calls `call` with the handle of a freed type, which is valid meanwhile. `None`: the type was not freed, or is no longer known.
pub(crate) fn with_freed<T>(
    mpi: &Mpi,
    datatype: &Datatype,
    call: impl FnOnce(MPI_Datatype) -> T,
) -> Option<T> {
    let handle = datatype.number() as usize;
    let is_it = mpi.types.freed.borrow().get(&handle).is_some_and(|freed| freed == datatype);
    if !is_it {
        return None;
    }
    mpi.datatypes.fill(handle, datatype.clone());
    let result = call(MPI_Datatype(handle));
    mpi.datatypes.take(handle);
    Some(result)
}

/// Runs the delete functions of a datatype's attributes, and removes its properties.
///
/// # Errors
/// The error of a delete function: its attribute and the properties then stay.
fn end(mpi: &Mpi, handle: MPI_Datatype) -> Outcome<()> {
    let known = mpi.types.properties.borrow().get(&handle.0).cloned();
    if let Some(known) = known {
        known.keyvals().iter().try_for_each(|keyval| known.delete_attribute(keyval))?;
    }
    mpi.types.properties.borrow_mut().remove(&handle.0);
    Ok(())
}
