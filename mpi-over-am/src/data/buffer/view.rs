//! Elements that a datatype selects in a slice, such as columns, subarrays and fields, in safe Rust.

use bytemuck::{AnyBitPattern, NoUninit};

use super::{Buffer, BufferMut, Incoming, Outgoing, RecvData, SendData, check_inside};
use crate::error::Result;
use mpi_datatype::Datatype;

/// Elements of a datatype in a slice, for sending.
///
/// ```
/// # use mpi_over_am::{Environment, View, datatype::{Datatype, Predefined}};
/// # let environment = Environment::init()?;
/// # let world = environment.world();
/// // The middle column of a matrix of 3 by 3.
/// let column = Datatype::vector(3, 1, 3, &Datatype::predefined(Predefined::Double))?;
/// let matrix = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0f64];
/// let mut got = [0.0f64; 3];
/// world.sendrecv(&View::new(&matrix[1..], 1, &column)?, world.rank(), 0, &mut got, world.rank(), 0)?;
/// assert_eq!(got, [2.0, 5.0, 8.0]);
/// # environment.finalize()
/// # ; Ok::<(), mpi_over_am::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct View<'a, T> {
    memory: &'a [T],
    count: u64,
    datatype: &'a Datatype,
}

/// Elements of a datatype in a slice, for receiving. Bytes between them are not changed.
#[derive(Debug)]
pub struct ViewMut<'a, T> {
    memory: &'a mut [T],
    count: u64,
    datatype: &'a Datatype,
}

impl<'a, T: NoUninit> View<'a, T> {
    /// `count` elements of `datatype`, with displacements counted in bytes from the start of `memory`.
    ///
    /// # Errors
    /// [`Error::Outside`](crate::Error::Outside): an element is not inside `memory`.
    pub fn new(memory: &'a [T], count: u64, datatype: &'a Datatype) -> Result<Self> {
        check_inside(size_of_val(memory), count, datatype)?;
        Ok(Self { memory, count, datatype })
    }
}

impl<'a, T: AnyBitPattern> ViewMut<'a, T> {
    /// `count` elements of `datatype`, with displacements counted in bytes from the start of `memory`.
    ///
    /// # Errors
    /// [`Error::Outside`](crate::Error::Outside): an element is not inside `memory`.
    pub fn new(memory: &'a mut [T], count: u64, datatype: &'a Datatype) -> Result<Self> {
        check_inside(size_of_val(memory), count, datatype)?;
        Ok(Self { memory, count, datatype })
    }
}

impl<T: NoUninit> Buffer for View<'_, T> {
    fn outgoing(&self) -> Result<Outgoing<'_>> {
        // SAFETY: all bytes of the elements lie inside `memory` (`new`), which is borrowed for at least as long as this value exists;
        // `NoUninit` means that they are initialised. So the promise holds for the borrow of this value.
        Ok(unsafe {
            Outgoing::of_data(SendData::new(self.memory.as_ptr().cast(), self.count, self.datatype))
        })
    }
}

impl<T: AnyBitPattern> BufferMut for ViewMut<'_, T> {
    fn incoming(&mut self) -> Result<Incoming<'_>> {
        // SAFETY: all bytes of the elements lie inside `memory` (`new`), which is exclusively borrowed for at least as long as this value
        // exists; `AnyBitPattern` means that any received bytes are valid values.
        Ok(unsafe {
            Incoming::of_data(RecvData::new(self.memory.as_mut_ptr().cast(), self.count, self.datatype))
        })
    }
}
