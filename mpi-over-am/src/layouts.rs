//! Messages whose elements a datatype picks from a slice: columns, subarrays, fields, in safe Rust.

use am_core::fabric::Fabric;
use bytemuck::{AnyBitPattern, NoUninit};

use crate::buffer::{Equivalence, lend_elements, lend_elements_mut, lend_fields, lend_fields_mut};
use crate::communicator::Communicator;
use crate::error::Result;
use crate::policy::LockPolicy;
use crate::protocol::Mode;
use crate::rank::Source;
use crate::status::Status;
use crate::tag::Tag;
use mpi_datatype::Datatype;

impl<F: Fabric, L: LockPolicy> Communicator<F, L> {
    /// Sends `count` elements of `datatype`, with displacements counted in bytes from the start of `memory`, in any mode. They
    /// go from where they lie.
    ///
    /// ```
    /// # use mpi_over_am::{Environment, Mode, datatype::{Datatype, Predefined}};
    /// # let environment = Environment::init()?;
    /// # let world = environment.world();
    /// // The middle column of a matrix of 3 by 3.
    /// let column = Datatype::vector(3, 1, 3, &Datatype::predefined(Predefined::Double))?;
    /// let matrix = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0f64];
    /// let mut got = [0.0f64; 3];
    /// world.scope(|s| {
    ///     let arriving = s.irecv(&mut got, world.rank(), 0)?;
    ///     world.send_layout(Mode::Standard, &matrix[1..], (1, &column), world.rank(), 0)?;
    ///     s.wait(arriving)
    /// })?;
    /// assert_eq!(got, [2.0, 5.0, 8.0]);
    /// # environment.finalize()
    /// # ; Ok::<(), mpi_over_am::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Outside`](crate::Error::Outside): elements that lie outside of `memory`; as the other sends.
    pub fn send_layout<T: NoUninit>(
        &self,
        mode: Mode,
        memory: &[T],
        elements: (u64, &Datatype),
        dest: u32,
        tag: i32,
    ) -> Result<()> {
        lend_elements(memory, elements, |data| self.send_data(mode, &data, dest, tag))
    }

    /// Receives a message to the places in `memory` that `count` elements of `datatype` name; see
    /// [`send_layout`](Self::send_layout).
    ///
    /// # Errors
    /// As for [`send_layout`](Self::send_layout), and as for [`recv`](Self::recv).
    pub fn recv_layout<T: AnyBitPattern>(
        &self,
        memory: &mut [T],
        elements: (u64, &Datatype),
        source: impl Into<Source>,
        tag: impl Into<Tag>,
    ) -> Result<Status> {
        lend_elements_mut(memory, elements, |data| self.recv_data(&data, source, tag))
    }

    /// Sends the fields of `values` in standard mode, without the padding between them; see [`Equivalence`].
    ///
    /// # Errors
    /// As for [`send`](Self::send).
    pub fn send_fields<T: Equivalence>(&self, values: &[T], dest: u32, tag: i32) -> Result<()> {
        lend_fields(values, |data| self.send_data(Mode::Standard, &data, dest, tag))
    }

    /// Receives the fields of `values`, and leaves their padding alone. The status counts bytes; a message may have fewer values.
    ///
    /// # Errors
    /// As for [`recv`](Self::recv).
    pub fn recv_fields<T: Equivalence>(
        &self,
        values: &mut [T],
        source: impl Into<Source>,
        tag: impl Into<Tag>,
    ) -> Result<Status> {
        lend_fields_mut(values, |data| self.recv_data(&data, source, tag))
    }

    /// Sends elements to `dest`, and receives others from `source` in their place (`MPI_Sendrecv_replace`).
    ///
    /// # Errors
    /// As for [`sendrecv`](Self::sendrecv).
    pub fn sendrecv_replace<T: NoUninit + AnyBitPattern>(
        &self,
        memory: &mut [T],
        (dest, send_tag): (u32, i32),
        (source, recv_tag): (impl Into<Source>, impl Into<Tag>),
    ) -> Result<Status> {
        let bytes = size_of_val(memory) as u64;
        let byte = Datatype::predefined(mpi_datatype::Predefined::Byte);
        lend_elements_mut(memory, (bytes, &byte), |data| {
            self.sendrecv_replace_data(&data, (dest, send_tag), (source.into(), recv_tag.into()))
        })
    }
}
