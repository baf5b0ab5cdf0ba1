//! The bytes of a program's elements in the form that the file has.

use am_core::fabric::Fabric;
use mpi_io::{Moved, Representation, View, read, write};

use super::File;
use crate::buffer::{RecvData, SendData, with_slice, with_slice_mut};
use crate::error::Result;
use crate::policy::LockPolicy;

/// Elements that are not contiguous are copied in parts of this number of bytes.
const PART_BYTES: usize = 4 << 20;

/// Elements to be written.
pub(super) enum Source<'a> {
    /// In the machine's form.
    Native(&'a SendData),
    /// In external32.
    External(Vec<u8>),
}

/// Elements to be read into.
pub(super) enum Target<'a> {
    /// In the machine's form.
    Native(&'a RecvData),
    /// In external32, converted when all bytes were read.
    External(&'a RecvData, Vec<u8>),
}

impl<'a> Source<'a> {
    pub(super) fn new(view: &View, data: &'a SendData) -> Result<Self> {
        match view.representation() {
            Representation::Native | Representation::Internal => Ok(Self::Native(data)),
            Representation::External32 => data.pack_external32().map(Self::External),
        }
    }

    /// Length in bytes of the file.
    pub(super) fn len(&self) -> u64 {
        match self {
            Self::Native(data) => data.packed_len(),
            Self::External(bytes) => bytes.len() as u64,
        }
    }

    /// Appends a part to a message.
    pub(super) fn append(&self, from: u64, len: u64, message: &mut Vec<u8>) {
        let start = message.len();
        match self {
            Self::Native(data) => {
                message.resize(start + to_usize(len), 0);
                data.pack(from, &mut message[start..]);
            }
            Self::External(bytes) => message.extend_from_slice(&bytes[to_usize(from)..to_usize(from + len)]),
        }
    }
}

impl<'a> Target<'a> {
    pub(super) fn new(view: &View, data: &'a RecvData) -> Result<Self> {
        match view.representation() {
            Representation::Native | Representation::Internal => Ok(Self::Native(data)),
            Representation::External32 => {
                let len = data.datatype().external32_len(data.count())?;
                Ok(Self::External(data, vec![0; to_usize(len)]))
            }
        }
    }

    /// Length in bytes of the file.
    pub(super) fn len(&self) -> u64 {
        match self {
            Self::Native(data) => data.packed_len(),
            Self::External(_, bytes) => bytes.len() as u64,
        }
    }

    /// Stores a part.
    pub(super) fn store(&mut self, at: u64, part: &[u8]) {
        match self {
            Self::Native(data) => {
                data.unpack(at, part);
            }
            Self::External(_, bytes) => bytes[to_usize(at)..][..part.len()].copy_from_slice(part),
        }
    }

    /// Stores the first `len` bytes that were read in the program's form; returns their length in that form. Bytes of an element that is
    /// not complete in the file are left out.
    pub(super) fn end(self, len: u64) -> Result<u64> {
        match self {
            Self::Native(_) => Ok(len),
            Self::External(data, bytes) => {
                let element = data.datatype().external32_len(1)?.max(1);
                let count = len / element;
                let mut native = Vec::new();
                data.datatype().from_external32(&bytes[..to_usize(count * element)], &mut native)?;
                data.unpack(0, &native);
                Ok(native.len() as u64)
            }
        }
    }
}

impl<F: Fabric, L: LockPolicy> File<F, L> {
    /// Writes elements as the stream's bytes from `from` on.
    pub(super) fn write_stream(&self, view: &View, from: u64, source: &Source<'_>) -> Moved {
        let data = match source {
            Source::External(bytes) => return write(&*self.disk, view, from, bytes),
            Source::Native(data) => data,
        };
        if let Some(bytes) = data.as_bytes() {
            return with_slice(bytes, |bytes| write(&*self.disk, view, from, bytes));
        }
        in_parts(data.packed_len(), |offset, part| {
            data.pack(offset, part);
            write(&*self.disk, view, from + offset, part)
        })
    }

    /// Reads the stream's bytes from `from` on into elements.
    pub(super) fn read_stream(&self, view: &View, from: u64, target: &mut Target<'_>) -> Moved {
        let data = match target {
            Target::External(_, bytes) => return read(&*self.disk, view, from, bytes),
            Target::Native(data) => data,
        };
        if let Some(buffer) = data.as_buffer() {
            return with_slice_mut(buffer, |bytes| read(&*self.disk, view, from, bytes));
        }
        in_parts(data.packed_len(), |offset, part| {
            let moved = read(&*self.disk, view, from + offset, part);
            data.unpack(offset, &part[..to_usize(moved.bytes)]);
            moved
        })
    }
}

/// Moves `len` bytes in parts, each by a call that gets the offset and memory for the part; ends behind the first part that is not moved
/// whole.
fn in_parts(len: u64, mut part: impl FnMut(u64, &mut [u8]) -> Moved) -> Moved {
    let mut memory = vec![0; PART_BYTES.min(to_usize(len))];
    let mut all = Moved::default();
    while all.bytes < len && all.failure.is_none() {
        let wanted = memory.len().min(to_usize(len - all.bytes));
        let moved = part(all.bytes, &mut memory[..wanted]);
        all.bytes += moved.bytes;
        all.failure = moved.failure;
        if moved.bytes < wanted as u64 {
            break;
        }
    }
    all
}

/// A length of elements in memory, or of bytes of the file that are to be copied there.
#[expect(clippy::cast_possible_truncation, reason = "am-core asserts that both have 64 bits")]
pub(super) fn to_usize(len: u64) -> usize {
    len as usize
}
