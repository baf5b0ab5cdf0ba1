//! The bytes of a program's elements in the form that the file has.

use mpi_io::{Moved, Representation, View};

use crate::buffer::{RecvData, SendData};
use crate::error::Result;

/// Elements that are not contiguous are copied in parts of this number of bytes.
const PART_BYTES: usize = 4 << 20;

/// Elements to be written.
pub(super) enum Source {
    /// In the machine's form.
    Native(SendData),
    /// In external32; and their length in the machine's form.
    External { bytes: Vec<u8>, native_len: u64 },
}

/// Elements to be read into.
pub(super) enum Target {
    /// In the machine's form.
    Native(RecvData),
    /// In external32, converted when all bytes were read.
    External(RecvData, Vec<u8>),
}

impl Source {
    pub(super) fn new(view: &View, data: &SendData) -> Result<Self> {
        match view.representation() {
            Representation::Native | Representation::Internal => Ok(Self::Native(data.clone())),
            Representation::External32 => {
                let bytes = data.pack_external32()?;
                Ok(Self::External { bytes, native_len: data.packed_len() })
            }
        }
    }

    /// Length in bytes of the file.
    pub(super) fn len(&self) -> u64 {
        match self {
            Self::Native(data) => data.packed_len(),
            Self::External { bytes, .. } => bytes.len() as u64,
        }
    }

    /// Length in bytes of memory.
    pub(super) fn native_len(&self) -> u64 {
        match self {
            Self::Native(data) => data.packed_len(),
            Self::External { native_len, .. } => *native_len,
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
            Self::External { bytes, .. } => {
                message.extend_from_slice(&bytes[to_usize(from)..to_usize(from + len)])
            }
        }
    }
}

impl Target {
    pub(super) fn new(view: &View, data: &RecvData) -> Result<Self> {
        match view.representation() {
            Representation::Native | Representation::Internal => Ok(Self::Native(data.clone())),
            Representation::External32 => {
                let len = data.datatype().external32_len(data.count())?;
                Ok(Self::External(data.clone(), vec![0; to_usize(len)]))
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

/// Moves `len` bytes in parts, each by a call that gets the offset and memory for the part; ends behind the first part that is not moved
/// whole.
pub(super) fn in_parts(len: u64, mut part: impl FnMut(u64, &mut [u8]) -> Moved) -> Moved {
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
