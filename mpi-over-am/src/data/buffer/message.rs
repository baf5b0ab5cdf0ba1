//! The buffers that a call sends from or receives into.

use super::{Equivalence, Incoming, Keeps, Outgoing, RecvData, SendData};
use crate::error::Result;

/// What a call can send: a number, an array, a tuple or a struct of them ([`Equivalence`]), a slice or a vector of these, text
/// (its bytes), or the elements that a datatype selects ([`View`](crate::View)).
///
/// A container implements this trait by returning the elements of its slice:
///
/// ```
/// use mpi_over_am::{Buffer, Outgoing, Result};
///
/// struct Image {
///     width: usize,
///     points: Vec<f32>,
/// }
///
/// impl Buffer for Image {
///     fn outgoing(&self) -> Result<Outgoing<'_>> {
///         self.points.outgoing()
///     }
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be sent",
    label = "not a number, a struct of numbers, or a slice or vector of these",
    note = "numbers, arrays and tuples can be sent, structs with `#[derive(Equivalence)]`, slices and vectors of all these",
    note = "a type of another crate that is `bytemuck::NoUninit + AnyBitPattern` can be sent as `Plain<T>`, a slice of it by `Plain::of_slice`"
)]
pub trait Buffer {
    /// The elements, borrowed from this value.
    ///
    /// # Errors
    /// [`Error::TooLarge`](crate::Error::TooLarge): more bytes than the address space.
    fn outgoing(&self) -> Result<Outgoing<'_>>;
}

/// What a call can receive into: the types of [`Buffer`] except text. A vector is filled up to its length and does not grow;
/// [`recv_vec`](crate::Communicator::recv_vec) returns a vector as long as the message.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be received into",
    label = "not a number, a struct of numbers, or a slice or vector of these",
    note = "numbers, arrays and tuples can be received, structs with `#[derive(Equivalence)]`, slices and vectors of all these",
    note = "a type of another crate that is `bytemuck::NoUninit + AnyBitPattern` can be received as `Plain<T>`, a slice of it by `Plain::of_slice_mut`"
)]
pub trait BufferMut {
    /// The elements, borrowed from this value.
    ///
    /// # Errors
    /// [`Error::TooLarge`](crate::Error::TooLarge): more bytes than the address space.
    fn incoming(&mut self) -> Result<Incoming<'_>>;
}

/// The elements of a slice, for an operation of the keeper. The list of an element's fields stays valid while the element is not accessed.
///
/// # Errors
/// [`Error::TooLarge`](crate::Error::TooLarge).
pub(crate) fn outgoing_to_keep<T: Equivalence>(_keeper: &impl Keeps, data: &[T]) -> Result<SendData> {
    // SAFETY: the keeper neither accesses nor frees the elements before the operation has ended (`Keeps`).
    let elements = unsafe { data.outgoing()?.into_data() };
    Ok(match T::numbers() {
        Some((basic, _)) => elements.called(basic),
        None => elements,
    })
}

/// Like [`outgoing_to_keep`], for a receive.
///
/// # Errors
/// [`Error::TooLarge`](crate::Error::TooLarge).
pub(crate) fn incoming_to_keep<T: Equivalence>(_keeper: &impl Keeps, to: &mut [T]) -> Result<RecvData> {
    // SAFETY: the keeper neither accesses nor frees the elements before the operation has ended (`Keeps`).
    let elements = unsafe { to.incoming()?.into_data() };
    Ok(match T::numbers() {
        Some((basic, _)) => elements.called(basic),
        None => elements,
    })
}

impl<T: Equivalence> Buffer for T {
    #[inline(always)]
    fn outgoing(&self) -> Result<Outgoing<'_>> {
        T::outgoing_of(std::slice::from_ref(self))
    }
}

impl<T: Equivalence> BufferMut for T {
    #[inline(always)]
    fn incoming(&mut self) -> Result<Incoming<'_>> {
        T::incoming_of(std::slice::from_mut(self))
    }
}

impl<T: Equivalence> Buffer for [T] {
    #[inline(always)]
    fn outgoing(&self) -> Result<Outgoing<'_>> {
        T::outgoing_of(self)
    }
}

impl<T: Equivalence> BufferMut for [T] {
    #[inline(always)]
    fn incoming(&mut self) -> Result<Incoming<'_>> {
        T::incoming_of(self)
    }
}

impl<T: Equivalence> Buffer for Vec<T> {
    #[inline(always)]
    fn outgoing(&self) -> Result<Outgoing<'_>> {
        T::outgoing_of(self)
    }
}

impl<T: Equivalence> BufferMut for Vec<T> {
    #[inline(always)]
    fn incoming(&mut self) -> Result<Incoming<'_>> {
        T::incoming_of(self)
    }
}

impl Buffer for str {
    fn outgoing(&self) -> Result<Outgoing<'_>> {
        Ok(Outgoing::of_slice(self.as_bytes()))
    }
}

impl Buffer for String {
    fn outgoing(&self) -> Result<Outgoing<'_>> {
        self.as_str().outgoing()
    }
}
