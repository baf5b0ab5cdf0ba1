//! Operations on elements in memory that other tasks have mapped: windows, and packets in a NIC's buffer.

use std::ptr::NonNull;

use am_core::buffer::{Arrived, MappedRange, RawBuffer, RawBytes};
use mpi_datatype::Predefined;
use mpi_datatype::op::{Form, Function, PredefinedOp, function_of};

use super::scratch::CHANGED_BYTES_MAX;

/// Elements in mapped memory, which are combined there in one pass: each is loaded once and stored once, and needs no copy. No reference to
/// the elements exists, so other tasks may access them meanwhile.
#[derive(Debug)]
pub(crate) struct InPlace;

/// Contiguous elements of mapped memory, and the destination of their old bytes, which has the same length.
#[derive(Debug)]
pub(crate) struct Changed {
    elements: RawBuffer,
    old: RawBuffer,
}

impl Form for InPlace {
    const ELEMENT_BYTES_MAX: u64 = u64::MAX;
    type Earlier<'a> = RawBytes;
    type Later<'a> = Changed;
    type Result = ();

    #[inline(always)]
    fn each<const N: usize>(
        values: RawBytes,
        changed: Changed,
        combine: impl Fn([u8; N], [u8; N]) -> [u8; N],
    ) {
        let count = values.len().min(changed.elements.len()).min(changed.old.len()) / N;
        let values: NonNull<[u8; N]> = values.at().cast();
        let (elements, old) = (changed.elements.at().cast::<[u8; N]>(), changed.old.at().cast::<[u8; N]>());
        for index in 0..count {
            // SAFETY: each range has at least `count` elements of `N` bytes, and arrays of bytes need no alignment. The makers of the
            // ranges have promised that these bytes stay readable, and those of `elements` and `old` writable, until the operation that
            // has the ranges ends, which is when this function returns. The elements may change meanwhile: each is loaded as a copy.
            unsafe {
                let (value, found) = (values.add(index).read(), elements.add(index).read());
                old.add(index).write(found);
                elements.add(index).write(combine(value, found));
            }
        }
    }

    fn replace(values: RawBytes, changed: Changed) {
        Self::each::<1>(values, changed, |value, _| value);
    }

    fn leave(_values: RawBytes, changed: Changed) {
        changed.elements.as_bytes().copy_to_buffer(changed.old);
    }
}

/// Elements in a packet, which are combined with others in one pass: each is loaded once, and needs no copy.
#[derive(Debug)]
struct InPackets;

/// Contiguous elements in a packet, and the destination of the results, which has the same length.
#[derive(Debug)]
struct Packet {
    arrived: RawBytes,
    results: RawBuffer,
}

impl Form for InPackets {
    const ELEMENT_BYTES_MAX: u64 = ELEMENT_BYTES_MAX;
    type Earlier<'a> = RawBytes;
    type Later<'a> = Packet;
    type Result = ();

    #[inline(always)]
    fn each<const N: usize>(values: RawBytes, packet: Packet, combine: impl Fn([u8; N], [u8; N]) -> [u8; N]) {
        let count = values.len().min(packet.arrived.len()).min(packet.results.len()) / N;
        let (values, arrived): (NonNull<[u8; N]>, NonNull<[u8; N]>) =
            (values.at().cast(), packet.arrived.at().cast());
        let results: NonNull<[u8; N]> = packet.results.at().cast();
        for index in 0..count {
            // SAFETY: each range has at least `count` elements of `N` bytes, and arrays of bytes need no alignment. The makers of the
            // ranges have promised that the bytes of `values` and `arrived` stay readable, and those of `results` writable, until the
            // operation that has the ranges ends, which is when this function returns. Arrived elements may change meanwhile: each is
            // loaded as a copy.
            unsafe { results.add(index).write(combine(values.add(index).read(), arrived.add(index).read())) };
        }
    }

    fn replace(values: RawBytes, packet: Packet) {
        values.copy_to_buffer(packet.results);
    }

    fn leave(_values: RawBytes, packet: Packet) {
        packet.arrived.copy_to_buffer(packet.results);
    }
}

/// Maximum size of the elements that are combined in packets: each packet of a message except the last has a multiple of this number of
/// bytes.
const ELEMENT_BYTES_MAX: u64 = 64;

/// An operation on elements that arrive in packets.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arriving {
    element_bytes: usize,
    onto: Function<InPackets>,
    in_place: Function<InPlace>,
}

/// The elements with which arriving elements are combined.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Operand {
    /// The earlier elements, and the destination of the results.
    Earlier(RawBytes, RawBuffer),
    /// The later elements, which the results replace.
    Later(RawBuffer),
}

impl Arriving {
    /// `None` if the operation is not defined for the type, or packets may end inside an element.
    pub(crate) fn new(op: PredefinedOp, datatype: Predefined) -> Option<Self> {
        let element_bytes = usize::try_from(datatype.size()).ok().filter(|size| size.is_power_of_two())?;
        let (onto, in_place) =
            (function_of::<InPackets>(op, datatype)?, function_of::<InPlace>(op, datatype)?);
        Some(Self { element_bytes, onto, in_place })
    }

    /// Bytes of an element.
    pub(crate) fn element_bytes(&self) -> usize {
        self.element_bytes
    }

    /// Combines the elements in a packet with those of `operand` from byte `offset` on. If the packet has more elements than `operand` has
    /// from there on, none is combined.
    pub(crate) fn combine(&self, packet: Arrived<'_>, offset: usize, operand: Operand) {
        // SAFETY: the bytes are not used after this function returns, which is before the packet's lifetime ends.
        let arrived = unsafe { packet.to_raw() };
        let len = arrived.len();
        match operand {
            Operand::Earlier(values, results) => {
                if let (Some(values), Some(results)) = (values.part(offset, len), results.part(offset, len)) {
                    (self.onto)(values, Packet { arrived, results });
                }
            }
            Operand::Later(elements) => {
                if let Some(elements) = elements.part(offset, len) {
                    change_each_block(arrived, elements, self.in_place);
                }
            }
        }
    }
}

/// Combines `values` with `elements`, which has the same length, and does not keep the old values.
fn change_each_block(values: RawBytes, elements: RawBuffer, change: Function<InPlace>) {
    // Small enough to stay in the first-level cache.
    let mut ignored = [0u8; CHANGED_BYTES_MAX];
    for offset in (0..values.len()).step_by(CHANGED_BYTES_MAX) {
        let len = CHANGED_BYTES_MAX.min(values.len() - offset);
        // SAFETY: the bytes are those of the array, which is live, and nothing else accesses it before `change` returns.
        let old = unsafe { RawBuffer::new(NonNull::from(&mut ignored).cast(), len) };
        if let (Some(values), Some(elements)) = (values.part(offset, len), elements.part(offset, len)) {
            change(values, Changed { elements, old });
        }
    }
}

/// Combines `values` with the elements of `part` from `offset` on. If there is a `result`, stores the elements' old bytes in it. Returns
/// `None`, and changes nothing, if an element is outside `part`, or if `result` is not as long as `values`.
pub(crate) fn change_mapped(
    part: &MappedRange<'_>,
    offset: usize,
    values: RawBytes,
    result: Option<RawBuffer>,
    change: Function<InPlace>,
) -> Option<()> {
    // SAFETY: the copy of the range is not used after this function returns, and so not after the call to which the range was lent.
    let elements = unsafe { part.to_raw() }.part(offset, values.len())?;
    if let Some(old) = result {
        // Checked before the first element is changed: after `None` the caller starts again, and elements that were already changed would
        // be combined twice.
        (old.len() == values.len()).then_some(())?;
        change(values, Changed { elements, old });
        return Some(());
    }
    change_each_block(values, elements, change);
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use mpi_datatype::Predefined;
    use mpi_datatype::op::{PredefinedOp, combine_of, function_of};

    /// A range that covers a vector, which its maker does not access while the range is used.
    fn range(bytes: &mut [u8]) -> RawBuffer {
        // SAFETY: the tests use the range only while the slice is live, and meanwhile access the slice only through the range.
        unsafe { RawBuffer::new(NonNull::from(&mut *bytes).cast(), bytes.len()) }
    }

    /// Every operation on every type gives what it gives on slices, with and without old values.
    #[test]
    fn elements_are_combined_in_place_as_in_slices() {
        for op in PredefinedOp::ALL {
            for datatype in Predefined::ALL.into_iter().filter(|datatype| datatype.size() > 0) {
                let Some(combine) = combine_of(op, datatype) else {
                    assert!(function_of::<InPlace>(op, datatype).is_none());
                    continue;
                };
                let change = function_of::<InPlace>(op, datatype).expect("as defined as on slices");
                let size = usize::try_from(datatype.size()).expect("short");
                // No byte is above 63, so that no floating-point number is a NaN, whose bits the operations do not determine.
                let mut values: Vec<u8> = (0..=63).cycle().take(size * 300).collect();
                let before: Vec<u8> = (0..=60).rev().cycle().take(size * 300).collect();
                let mut expected = before.clone();
                combine(&values, &mut expected);
                for with_old in [true, false] {
                    let (mut elements, mut old) = (before.clone(), vec![0; before.len()]);
                    let (part, from) = (range(&mut elements), range(&mut values).as_bytes());
                    // SAFETY: the vector stays mapped, readable and writable as long as the value is used.
                    let part = unsafe { MappedRange::new(part.at(), part.len()) };
                    let result = with_old.then(|| range(&mut old));
                    assert_eq!(change_mapped(&part, 0, from, result, change), Some(()));
                    assert_eq!(elements, expected, "{op:?} of {datatype:?}");
                    assert!(!with_old || old == before, "{op:?} of {datatype:?}");
                }
            }
        }
    }

    /// Elements in packets are combined as in slices, whether the packets hold the earlier or the later elements, and whichever packet
    /// holds an element.
    #[test]
    fn elements_in_packets_are_combined_as_in_slices() {
        let mut combined = 0;
        for op in PredefinedOp::ALL {
            for datatype in Predefined::ALL.into_iter().filter(|datatype| datatype.size() > 0) {
                let Some(combine) = combine_of(op, datatype) else {
                    assert!(Arriving::new(op, datatype).is_none());
                    continue;
                };
                let Some(arriving) = Arriving::new(op, datatype) else {
                    assert!(!datatype.size().is_power_of_two(), "{op:?} of {datatype:?}");
                    continue;
                };
                combined += 1;
                // No byte is above 63, so that no floating-point number is a NaN, whose bits the operations do not determine.
                let mut own: Vec<u8> = (0..=63).cycle().take(5000 * arriving.element_bytes()).collect();
                let arrived: Vec<u8> = (0..=60).rev().cycle().take(own.len()).collect();
                let (mut after, mut before) = (arrived.clone(), own.clone());
                combine(&own, &mut after);
                combine(&arrived, &mut before);
                let mut results = vec![0; own.len()];
                let packet_bytes = 1024 * arriving.element_bytes();
                for offset in (0..own.len()).step_by(packet_bytes) {
                    let packet = Arrived::private(&arrived).skip(offset).take(packet_bytes);
                    let operand = Operand::Earlier(range(&mut own).as_bytes(), range(&mut results));
                    arriving.combine(packet, offset, operand);
                }
                for offset in (0..own.len()).step_by(packet_bytes) {
                    let packet = Arrived::private(&arrived).skip(offset).take(packet_bytes);
                    arriving.combine(packet, offset, Operand::Later(range(&mut own)));
                }
                assert!(results == after && own == before, "{op:?} of {datatype:?}");
                // A packet that is longer than the rest of the elements changes nothing.
                arriving.combine(Arrived::private(&arrived), 1, Operand::Later(range(&mut own)));
                assert!(own == before, "{op:?} of {datatype:?}");
            }
        }
        assert!(combined > 300, "{combined}");
    }

    #[test]
    fn nothing_is_changed_if_a_length_is_wrong() {
        let change = function_of::<InPlace>(PredefinedOp::Sum, Predefined::Uint8).expect("it is defined");
        let (mut elements, mut values, mut old) = ([1u8; 64], [2u8; 32], [3u8; 31]);
        let at = range(&mut elements);
        // SAFETY: the array stays mapped, readable and writable as long as the value is used.
        let part = unsafe { MappedRange::new(at.at(), at.len()) };
        let from = range(&mut values).as_bytes();
        assert_eq!(change_mapped(&part, 33, from, None, change), None);
        assert_eq!(change_mapped(&part, usize::MAX, from, None, change), None);
        assert_eq!(change_mapped(&part, 0, from, Some(range(&mut old)), change), None);
        assert_eq!((elements, old), ([1; 64], [3; 31]));
    }
}
