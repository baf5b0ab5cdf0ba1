//! The bytes of a program's elements in the form that the file has.

use std::path::Path;

use am_core::buffer::{RawBuffer, RawBytes};
use mpi_datatype::Datatype;
use mpi_io::Moved;

use super::about;
use super::representation::{FileView, Representation};
use crate::data::buffer::{
    RecvData, SendData, changed_outside_sections, lend_raw, lend_to_receive, read_outside_sections,
};
use crate::error::{ErrorClass, Result};

/// Elements that are not contiguous are copied in parts of this number of bytes.
const PART_BYTES: usize = 4 << 20;

/// Elements to be written.
pub(super) enum Source {
    /// In the machine's form.
    Native(SendData),
    /// In the file's form; and their length in the machine's form.
    Converted { bytes: Vec<u8>, native_len: u64 },
}

/// Elements to be read into.
pub(super) enum Target {
    /// In the machine's form.
    Native(RecvData),
    /// In the file's form, converted when all bytes were read.
    Converted(RecvData, Vec<u8>),
}

impl Source {
    pub(super) fn new(view: &FileView, path: &Path, data: &SendData) -> Result<Self> {
        let bytes = match &view.representation {
            Representation::Native | Representation::Internal => return Ok(Self::Native(data.clone())),
            Representation::External32 => data.pack_external32()?,
            Representation::Registered(conversion) => {
                let element = element_bytes(view, path, data.datatype())?;
                if !conversion.converts_writes() {
                    check_native(path, element, data.datatype())?;
                    return Ok(Self::Native(data.clone()));
                }
                let mut bytes = vec![0; to_usize(element.saturating_mul(data.count()))];
                let items = data.datatype().elements() * data.count();
                let converted =
                    read_outside_sections(data, |data| conversion.write(data, items, &mut bytes))?;
                converted.map_err(|what| about(path, ErrorClass::Conversion, what))?;
                bytes
            }
        };
        Ok(Self::Converted { bytes, native_len: data.packed_len() })
    }

    /// Length in bytes of the file.
    pub(super) fn len(&self) -> u64 {
        match self {
            Self::Native(data) => data.packed_len(),
            Self::Converted { bytes, .. } => bytes.len() as u64,
        }
    }

    /// Length in bytes of memory.
    pub(super) fn native_len(&self) -> u64 {
        match self {
            Self::Native(data) => data.packed_len(),
            Self::Converted { native_len, .. } => *native_len,
        }
    }

    /// Calls `call` with a part of the bytes. Elements that are not contiguous are copied to `scratch`, which is kept for the next call.
    pub(super) fn with_bytes<R>(
        &self,
        from: u64,
        len: u64,
        scratch: &mut Vec<u8>,
        call: impl FnOnce(RawBytes) -> R,
    ) -> R {
        let (from, len) = (to_usize(from), to_usize(len));
        let data = match self {
            Self::Converted { bytes, .. } => return lend_raw(&bytes[from..from + len], call),
            Self::Native(data) => data,
        };
        if let Some(bytes) = data.as_bytes() {
            return call(bytes.part(from, len).expect("the part lies inside"));
        }
        let part = room(scratch, len);
        data.pack(from as u64, part);
        lend_raw(part, call)
    }
}

impl Target {
    pub(super) fn new(view: &FileView, path: &Path, data: &RecvData) -> Result<Self> {
        let len = match &view.representation {
            Representation::Native | Representation::Internal => return Ok(Self::Native(data.clone())),
            Representation::External32 => data.datatype().external32_len(data.count())?,
            Representation::Registered(conversion) => {
                let element = element_bytes(view, path, data.datatype())?;
                if !conversion.converts_reads() {
                    check_native(path, element, data.datatype())?;
                    return Ok(Self::Native(data.clone()));
                }
                element.saturating_mul(data.count())
            }
        };
        Ok(Self::Converted(data.clone(), vec![0; to_usize(len)]))
    }

    /// Length in bytes of the file.
    pub(super) fn len(&self) -> u64 {
        match self {
            Self::Native(data) => data.packed_len(),
            Self::Converted(_, bytes) => bytes.len() as u64,
        }
    }

    /// Calls `call` with memory for a part of the bytes, all of which `call` must store. For elements that are not contiguous, it is
    /// `scratch`, which is kept for the next call.
    pub(super) fn with_space<R>(
        &mut self,
        at: u64,
        len: u64,
        scratch: &mut Vec<u8>,
        call: impl FnOnce(RawBuffer) -> R,
    ) -> R {
        let (at, len) = (to_usize(at), to_usize(len));
        let data = match self {
            Self::Converted(_, bytes) => return lend_to_receive(&mut bytes[at..at + len], call),
            Self::Native(data) => data,
        };
        if let Some(buffer) = data.as_buffer() {
            return call(buffer.part(at, len).expect("the part lies inside"));
        }
        let part = room(scratch, len);
        let result = lend_to_receive(part, call);
        data.unpack(at as u64, part);
        result
    }

    /// Stores the first `len` bytes that were read in the program's form; returns their length in that form. Bytes of a number that is not
    /// complete in the file are left out.
    pub(super) fn end(self, view: &FileView, path: &Path, len: u64) -> Result<u64> {
        let (data, bytes) = match self {
            Self::Native(_) => return Ok(len),
            Self::Converted(data, bytes) => (data, bytes),
        };
        let sizes = view.representation.with_sizes(|size_of| data.datatype().elements_in_file(len, size_of));
        let (items, used) = sizes.map_err(|what| about(path, ErrorClass::Conversion, what))?;
        let bytes = &bytes[..to_usize(used)];
        if let Representation::Registered(conversion) = &view.representation {
            let converted = changed_outside_sections(&data, |data| conversion.read(bytes, items, data))?;
            converted.map_err(|what| about(path, ErrorClass::Conversion, what))?;
            return Ok(data.datatype().bytes_of_elements(items).unwrap_or(data.packed_len()));
        }
        let mut native = Vec::new();
        data.datatype().from_external32(bytes, &mut native)?;
        data.unpack(0, &native);
        Ok(native.len() as u64)
    }
}

/// Bytes of one element of a type in a view's representation.
fn element_bytes(view: &FileView, path: &Path, datatype: &Datatype) -> Result<u64> {
    let bytes = view.representation.with_sizes(|size_of| datatype.bytes_in_file(size_of));
    bytes.map_err(|what| about(path, ErrorClass::Conversion, what))
}

/// Checks that elements that have `element` bytes each in the file have as many in memory, as those must that are not converted.
fn check_native(path: &Path, element: u64, datatype: &Datatype) -> Result<()> {
    if element == datatype.size() {
        return Ok(());
    }
    let what = format!(
        "an element has {element} bytes in the data representation of its view and {} in memory, and no function was registered that \
         converts it",
        datatype.size()
    );
    Err(about(path, ErrorClass::Conversion, what))
}

/// The first `len` bytes of memory that grows.
fn room(memory: &mut Vec<u8>, len: usize) -> &mut [u8] {
    if memory.len() < len {
        memory.resize(len, 0);
    }
    &mut memory[..len]
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
