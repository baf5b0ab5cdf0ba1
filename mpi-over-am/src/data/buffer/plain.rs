//! Elements of types from other crates.

use bytemuck::{AnyBitPattern, NoUninit, TransparentWrapper};

use super::{Equivalence, FieldList, FieldListMut, Incoming, Outgoing};
use crate::error::Result;
use mpi_datatype::Predefined;

/// A value of a type without padding for which all bytes are valid, sent as its bytes. For types of other crates, which cannot derive
/// [`Equivalence`] but are bytemuck's `NoUninit` and `AnyBitPattern` (`Pod`): complex numbers, or vectors of graphics crates.
///
/// ```
/// use bytemuck::{Pod, Zeroable};
/// use mpi_over_am::{Environment, Plain};
///
/// #[derive(Clone, Copy, Debug, PartialEq, Pod, Zeroable)]
/// #[repr(C)]
/// struct Complex {
///     re: f64,
///     im: f64,
/// }
///
/// # let environment = Environment::init()?;
/// # let world = environment.world();
/// let out = [Complex { re: 1.0, im: 2.0 }; 3];
/// let mut got = [Complex::zeroed(); 3];
/// let own = world.rank();
/// world.sendrecv(Plain::of_slice(&out), own, 0, Plain::of_slice_mut(&mut got), own, 0)?;
/// assert_eq!(got, out);
/// # environment.finalize()
/// # ; Ok::<(), mpi_over_am::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, TransparentWrapper)]
#[repr(transparent)]
pub struct Plain<T>(pub T);

impl<T> Plain<T> {
    /// A slice of values to send.
    #[must_use]
    pub fn of_slice(values: &[T]) -> &[Self] {
        TransparentWrapper::wrap_slice(values)
    }

    /// A slice of values to receive into.
    pub fn of_slice_mut(values: &mut [T]) -> &mut [Self] {
        TransparentWrapper::wrap_slice_mut(values)
    }
}

impl<T: NoUninit + AnyBitPattern> Equivalence for Plain<T> {
    fn list<'a>(&'a self, list: &mut FieldList<'a>) {
        list.add_bytes(std::slice::from_ref(&self.0));
    }

    fn list_mut<'a>(&'a mut self, list: &mut FieldListMut<'a>) {
        list.add_bytes(std::slice::from_mut(&mut self.0));
    }

    fn numbers() -> Option<(Predefined, u64)> {
        Some((Predefined::Uint8, size_of::<T>() as u64))
    }

    fn outgoing_of(values: &[Self]) -> Result<Outgoing<'_>> {
        Ok(Outgoing::of_slice(Self::peel_slice(values)))
    }

    fn incoming_of(values: &mut [Self]) -> Result<Incoming<'_>> {
        Ok(Incoming::of_slice(Self::peel_slice_mut(values)))
    }
}
