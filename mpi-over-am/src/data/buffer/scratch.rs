//! Scratch memory for intermediate results; slices as the elements of an operation; and the packed bytes of elements, for reductions.

use am_core::buffer::{Arrived, RawBuffer, RawBytes};
use bytemuck::{AnyBitPattern, NoUninit, Zeroable};

use super::{Keeps, RecvData, SendData};
use crate::error::{Error, Result};
use mpi_datatype::Datatype;

/// Memory for intermediate results. Its owner must keep the memory until the operations that use it have ended, or leak it.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    /// Aligned for every predefined type.
    memory: Vec<u128>,
}

impl Scratch {
    /// Memory for `count` elements, and the elements in it. They are zero in new memory, and arbitrary if the memory is `reused`.
    ///
    /// # Errors
    /// [`Error::TooLarge`]: more than 2^63 bytes.
    pub(crate) fn with_elements(
        reused: Option<Self>,
        count: u64,
        datatype: &Datatype,
    ) -> Result<(Self, RecvData)> {
        let datatype = datatype.outside_sections();
        let (from, to) = datatype.span(count)?;
        const UNIT: i64 = size_of::<u128>() as i64;
        // The elements, and not their first bytes with data, are aligned like those of the program.
        let start = from.div_euclid(UNIT) * UNIT;
        let too_large = |_| Error::TooLarge { call: "a reduction" };
        let bytes = usize::try_from(to - start).map_err(too_large)?;
        let before = isize::try_from(-start).map_err(too_large)?;
        let units = bytes.div_ceil(size_of::<u128>());
        let mut scratch = reused.unwrap_or_default();
        if scratch.memory.len() < units {
            scratch.memory = vec![0; units];
        }
        let at = scratch.memory.as_mut_ptr().cast::<u8>().wrapping_offset(before);
        // SAFETY: the bytes `from` to `to` around `at` are bytes of the vector, whose first byte is `start`, at most `from`, after `at`.
        // The vector's bytes are on the heap, so that moving the vector does not move them; the owner keeps them until the operations
        // have ended, and accesses them only as these elements.
        let elements = unsafe { RecvData::new(at, count, datatype) };
        Ok((scratch, elements))
    }

    /// The length of the memory in bytes.
    pub(crate) fn len(&self) -> usize {
        size_of_val(self.memory.as_slice())
    }
}

/// The elements of a slice, for an operation of the keeper, which keeps the slice. An element of `datatype` must be as long as a `T`.
pub(crate) fn elements_to_keep<T: NoUninit>(
    _keeper: &impl Keeps,
    data: &[T],
    datatype: &Datatype,
) -> SendData {
    // SAFETY: the keeper neither accesses nor frees the elements before the operation has ended (`Keeps`); they are the bytes of the slice.
    unsafe { SendData::new(data.as_ptr().cast(), data.len() as u64, datatype) }
}

/// Like [`elements_to_keep`], for receiving.
pub(crate) fn elements_to_keep_mut<T: AnyBitPattern>(
    _keeper: &impl Keeps,
    data: &mut [T],
    datatype: &Datatype,
) -> RecvData {
    // SAFETY: like `elements_to_keep`: the keeper neither accesses nor frees the elements before the operation has ended (`Keeps`); they
    // are the bytes of the slice.
    unsafe { RecvData::new(data.as_mut_ptr().cast(), data.len() as u64, datatype) }
}

/// Like [`elements_to_keep`], for the elements that a datatype selects in the slice, with displacements relative to byte `displacement`.
///
/// # Errors
/// [`Error::Outside`].
pub(crate) fn layout_to_keep<T: NoUninit>(
    _keeper: &impl Keeps,
    memory: &[T],
    displacement: usize,
    (count, datatype): (u64, &Datatype),
) -> Result<SendData> {
    check_inside_from(size_of_val(memory), displacement, (count, datatype))?;
    let at = memory.as_ptr().cast::<u8>().wrapping_add(displacement);
    // SAFETY: all bytes of the elements lie inside `memory` (just checked) and are initialised (`NoUninit`); the keeper neither accesses
    // nor frees them before the operation has ended (`Keeps`).
    Ok(unsafe { SendData::new(at, count, datatype) })
}

/// Like [`layout_to_keep`], for receiving.
///
/// # Errors
/// [`Error::Outside`].
pub(crate) fn layout_to_keep_mut<T: AnyBitPattern>(
    _keeper: &impl Keeps,
    memory: &mut [T],
    displacement: usize,
    (count, datatype): (u64, &Datatype),
) -> Result<RecvData> {
    check_inside_from(size_of_val(memory), displacement, (count, datatype))?;
    let at = memory.as_mut_ptr().cast::<u8>().wrapping_add(displacement);
    // SAFETY: all bytes of the elements lie inside `memory` (just checked); the keeper neither accesses nor frees them before the operation
    // has ended (`Keeps`); any received bytes are valid values (`AnyBitPattern`).
    Ok(unsafe { RecvData::new(at, count, datatype) })
}

fn check_inside_from(len: usize, displacement: usize, (count, datatype): (u64, &Datatype)) -> Result<()> {
    let (from, to) = datatype.span(count)?;
    // Saturated values are outside any memory.
    let start = i64::try_from(displacement).unwrap_or(i64::MAX);
    let (from, to) = (from.saturating_add(start), to.saturating_add(start));
    let is_inside = from >= 0 && usize::try_from(to).is_ok_and(|to| to <= len);
    if is_inside || count == 0 { Ok(()) } else { Err(Error::Outside { count, from, to, len }) }
}

/// Calls `combine` with the bytes of both ranges, up to the shorter length. The ranges must not overlap.
#[inline(always)]
pub(crate) fn combine_bytes(earlier: RawBytes, later: RawBuffer, combine: impl FnOnce(&[u8], &mut [u8])) {
    let len = earlier.len().min(later.len());
    // SAFETY: the makers of the ranges have promised that nothing writes `earlier`, and nothing else accesses `later`, until the operation
    // that has them ends, which is when this call returns.
    let (earlier, later) = unsafe {
        (
            std::slice::from_raw_parts(earlier.at().as_ptr(), len),
            std::slice::from_raw_parts_mut(later.at().as_ptr(), len),
        )
    };
    combine(earlier, later);
}

/// Calls `combine` with the packed bytes of the elements. Both sides must have the same number and type of elements, and must not overlap.
pub(crate) fn with_packed(
    earlier: &SendData,
    later: &RecvData,
    combine: impl FnOnce(&[u8], &mut [u8]),
) -> Result<()> {
    if let (Some(from), Some(to)) = (earlier.as_bytes(), later.as_buffer()) {
        combine_bytes(from, to, combine);
        return Ok(());
    }
    let (from, mut to) = (packed(earlier)?, packed(&later.as_send())?);
    let len = from.len().min(to.len());
    combine(&from[..len], &mut to[..len]);
    later.unpack(0, &to);
    Ok(())
}

/// Number of bytes that [`change_packed`] copies at once: they stay in the first-level cache, and are whole elements of any predefined
/// type.
pub(super) const CHANGED_BYTES_MAX: usize = 1920;

/// Copies the packed bytes of the elements in pieces to private memory, calls `change` with the offset of each piece and its bytes, and
/// stores the piece if `change` returns true. `change` must return true if it has changed the bytes. No reference to the elements exists,
/// so other tasks may access them meanwhile. Each piece is whole elements of the basic type.
pub(crate) fn change_packed(elements: &RecvData, mut change: impl FnMut(usize, &mut [u8]) -> bool) {
    let (mut from, to) = (elements.as_send().gather(), elements.scatter());
    let mut bytes = [0; CHANGED_BYTES_MAX];
    let mut offset = 0;
    loop {
        let len = from.pack(offset as u64, &mut bytes);
        if len == 0 {
            return;
        }
        if change(offset, &mut bytes[..len]) {
            to.place(offset as u64, Arrived::private(&bytes[..len]));
        }
        offset += len;
    }
}

/// Like [`with_packed`], for elements of a Rust type.
pub(crate) fn with_elements<T: NoUninit + AnyBitPattern>(
    earlier: &SendData,
    later: &RecvData,
    combine: impl FnOnce(&[T], &mut [T]),
) -> Result<()> {
    let aligned = |at: std::ptr::NonNull<u8>| at.cast::<T>().is_aligned();
    if let (Some(from), Some(to)) = (earlier.as_bytes(), later.as_buffer())
        && aligned(from.at())
        && aligned(to.at())
        && size_of::<T>() > 0
    {
        let count = from.len().min(to.len()) / size_of::<T>();
        // SAFETY: as in `combine_bytes`; both are aligned (just checked), and any bytes are valid elements (`AnyBitPattern`).
        let (from, to) = unsafe {
            (
                std::slice::from_raw_parts(from.at().as_ptr().cast::<T>(), count),
                std::slice::from_raw_parts_mut(to.at().as_ptr().cast::<T>(), count),
            )
        };
        combine(from, to);
        return Ok(());
    }
    let (from, mut to) = (unpacked::<T>(earlier)?, unpacked::<T>(&later.as_send())?);
    combine(&from, &mut to);
    later.unpack(0, super::bytes_of(&to));
    Ok(())
}

/// Calls `combine` with elements that the program's functions may access: those in sections of arrays (`mpi_datatype::Section`) have
/// addresses that no memory has, so they are copied, and the later ones copied back.
///
/// # Errors
/// [`Error::TooLarge`].
pub(crate) fn outside_sections(
    earlier: &SendData,
    later: &RecvData,
    combine: impl FnOnce(&SendData, &RecvData),
) -> Result<()> {
    read_outside_sections(earlier, |earlier| {
        changed_outside_sections(later, |later| combine(earlier, later))
    })?
}

/// Like [`outside_sections`], for elements that are only read.
pub(crate) fn read_outside_sections<R>(data: &SendData, call: impl FnOnce(&SendData) -> R) -> Result<R> {
    if !data.datatype().is_in_sections() {
        return Ok(call(data));
    }
    // The memory lives until the end of this function.
    let (_memory, own) = Scratch::with_elements(None, data.count(), data.datatype())?;
    data.copy_to(&own);
    Ok(call(&own.as_send()))
}

/// Like [`outside_sections`], for elements of which some may be changed.
pub(crate) fn changed_outside_sections<R>(data: &RecvData, call: impl FnOnce(&RecvData) -> R) -> Result<R> {
    if !data.datatype().is_in_sections() {
        return Ok(call(data));
    }
    // The memory lives until the end of this function.
    let (_memory, own) = Scratch::with_elements(None, data.count(), data.datatype())?;
    data.as_send().copy_to(&own);
    let result = call(&own);
    own.as_send().copy_to(data);
    Ok(result)
}

fn packed(data: &SendData) -> Result<Vec<u8>> {
    let len = usize::try_from(data.packed_len()).map_err(|_| Error::TooLarge { call: "a reduction" })?;
    let mut bytes = vec![0; len];
    data.pack(0, &mut bytes);
    Ok(bytes)
}

fn unpacked<T: AnyBitPattern + Zeroable>(data: &SendData) -> Result<Vec<T>> {
    let bytes = packed(data)?;
    let size = size_of::<T>().max(1);
    Ok(bytes.chunks_exact(size).map(bytemuck::pod_read_unaligned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use mpi_datatype::Predefined;

    #[test]
    fn a_piece_that_is_changed_is_whole_elements_of_every_type() {
        for predefined in Predefined::ALL.into_iter().filter(|predefined| predefined.size() > 0) {
            assert_eq!(CHANGED_BYTES_MAX as u64 % predefined.size(), 0, "{predefined:?}");
        }
    }

    #[test]
    fn elements_are_changed_piece_by_piece() {
        let mut elements: Vec<u64> = (0..1000).collect();
        let datatype = Datatype::predefined(Predefined::Uint64);
        // SAFETY: the vector's elements, which nothing else accesses until the last use of `data`.
        let data = unsafe { RecvData::new(elements.as_mut_ptr().cast(), 1000, &datatype) };
        let mut seen = 0;
        change_packed(&data, |offset, bytes| {
            assert_eq!(offset, seen);
            seen += bytes.len();
            for element in bytes.chunks_exact_mut(8) {
                element[7] = 1;
            }
            // A piece that is reported as unchanged is not stored.
            offset > 0
        });
        assert_eq!(seen, 8000);
        let first = CHANGED_BYTES_MAX / 8;
        for (index, element) in elements.into_iter().enumerate() {
            assert_eq!(element, index as u64 | if index < first { 0 } else { 1 << 56 });
        }
    }
}
