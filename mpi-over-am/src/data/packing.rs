//! Packing (MPI 5.0 section 5.2): the elements of a datatype into bytes and back, in the machine's representation or in external32.

use bytemuck::{AnyBitPattern, NoUninit};

use crate::data::buffer::{RecvData, SendData, lend_elements, lend_elements_mut};
use crate::error::{Error, Result};
use mpi_datatype::Datatype;

/// The packed bytes of the elements that a datatype selects in `memory` (`MPI_Pack`).
///
/// # Errors
/// [`Error::Outside`]: an element is not inside `memory`.
pub fn pack<T: NoUninit>(memory: &[T], elements: (u64, &Datatype)) -> Result<Vec<u8>> {
    lend_elements(memory, elements, |data| Ok(packed(&data)))
}

/// Copies packed bytes to the elements that a datatype selects in `memory` (`MPI_Unpack`). Returns the number of bytes used.
///
/// # Errors
/// Those of [`pack`]; [`Error::Packed`]: `bytes` is shorter than the elements.
pub fn unpack<T: AnyBitPattern>(bytes: &[u8], memory: &mut [T], elements: (u64, &Datatype)) -> Result<usize> {
    lend_elements_mut(memory, elements, |data| {
        let used = data.unpack(0, bytes);
        enough(data.packed_len(), used as u64).map(|()| used)
    })
}

/// Like [`pack`], in the representation external32 (`MPI_Pack_external`).
///
/// # Errors
/// Those of [`pack`]; [`datatype::Error::Conversion`](mpi_datatype::Error::Conversion): a number that does not fit into its external32
/// form.
pub fn pack_external32<T: NoUninit>(memory: &[T], elements: (u64, &Datatype)) -> Result<Vec<u8>> {
    lend_elements(memory, elements, |data| data.pack_external32())
}

/// Like [`unpack`], from the representation external32 (`MPI_Unpack_external`).
///
/// # Errors
/// Those of [`unpack`]; [`datatype::Error::Conversion`](mpi_datatype::Error::Conversion).
pub fn unpack_external32<T: AnyBitPattern>(
    bytes: &[u8],
    memory: &mut [T],
    elements: (u64, &Datatype),
) -> Result<usize> {
    lend_elements_mut(memory, elements, |data| data.unpack_external32(bytes))
}

impl SendData {
    /// The elements in external32.
    ///
    /// # Errors
    /// [`datatype::Error::Conversion`](mpi_datatype::Error::Conversion): a number that does not fit into its external32 form.
    pub fn pack_external32(&self) -> Result<Vec<u8>> {
        let mut external = Vec::new();
        self.datatype().to_external32(&packed(self), &mut external)?;
        Ok(external)
    }
}

impl RecvData {
    /// Fills the elements from external32. Returns the number of bytes used.
    ///
    /// # Errors
    /// [`Error::Packed`]: `bytes` is shorter than the elements; [`datatype::Error::Conversion`](mpi_datatype::Error::Conversion).
    pub fn unpack_external32(&self, bytes: &[u8]) -> Result<usize> {
        let len = self.datatype().external32_len(self.count())?;
        enough(len, bytes.len() as u64)?;
        let used = usize::try_from(len).expect("it is at most the length of `bytes`");
        let mut native = Vec::new();
        self.datatype().from_external32(&bytes[..used], &mut native)?;
        self.unpack(0, &native);
        Ok(used)
    }
}

fn packed(data: &SendData) -> Vec<u8> {
    let len = usize::try_from(data.packed_len()).expect("the elements lie in memory");
    let mut bytes = vec![0; len];
    data.pack(0, &mut bytes);
    bytes
}

fn enough(needed: u64, given: u64) -> Result<()> {
    if given >= needed { Ok(()) } else { Err(Error::Packed { needed, given }) }
}
