//! Elements in sections of arrays: a language may pass memory whose elements lie apart, such as `a(1:100:5, :)` in Fortran, as if it were
//! one contiguous buffer (MPI 5.0 section 19.1.12). A datatype then describes that buffer, and the buffer's bytes lie where the section
//! says.
//!
//! A section has an address that no memory has. Displacements are added to it as to any other address, so that calls which divide a buffer
//! among ranks need not know what a section is.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};

use super::contents::{Combiner, Contents};
use super::layout::{Layout, Visit};
use super::{Datatype, Derived, Repr};
use crate::construct::TOO_LARGE;
use crate::error::Result;

/// Memory that is passed as one buffer: a section of an array, or everything around an address.
#[derive(Clone, Debug)]
pub struct Section {
    /// The bytes of the buffer; displacements are addresses.
    bytes: Arc<Layout>,
    /// The number of bytes before the buffer's beginning: datatypes may have negative displacements, if the memory is contiguous.
    before: i64,
}

/// Bytes on either side of an address that [`Section::around`] has.
const AROUND: i64 = 1 << 59;

/// The distance between the addresses of two sections of one call. Buffers are shorter.
const APART: i64 = 1 << 61;

/// The number of sections that have addresses.
pub const SECTIONS_MAX: usize = 4;

/// The address of the section with this number in the list of [`Datatype::in_sections`]: below zero as a signed number, as no address of a
/// program is.
#[must_use]
pub const fn address_of_section(number: usize) -> i64 {
    i64::MIN + APART * number as i64 + APART / 2
}

impl Section {
    /// The elements of `element_len` bytes of an array section whose first one is at address `at`. Each dimension is the number of its
    /// elements and the distance between them in bytes; the first one varies fastest.
    ///
    /// # Errors
    /// [`Error::TooLarge`](crate::Error::TooLarge): more bytes than any memory has.
    pub fn of_array(at: i64, element_len: u64, dimensions: &[(u64, i64)]) -> Result<Self> {
        let mut lens = dimensions.iter().map(|&(len, _)| len);
        let size = lens.try_fold(element_len, |size, len| size.checked_mul(len));
        size.filter(|&size| size <= AROUND.unsigned_abs()).ok_or(TOO_LARGE)?;
        let mut bytes = Layout::block(0, element_len);
        for &(len, stride) in dimensions {
            bytes = Layout::repeat(&Arc::new(bytes), len, stride);
        }
        Ok(Self { bytes: Arc::new(bytes.shifted(at)), before: 0 })
    }

    /// All memory around an address.
    #[must_use]
    pub fn around(at: i64) -> Self {
        let bytes = Layout::block(at.wrapping_sub(AROUND), 2 * AROUND.unsigned_abs());
        Self { bytes: Arc::new(bytes), before: AROUND }
    }

    /// The place of a byte in `bytes`, from its displacement in the buffer; `None` outside.
    fn place(&self, at: i64) -> Option<u64> {
        u64::try_from(self.before.checked_add(at)?).ok().filter(|&place| place <= self.bytes.size())
    }
}

impl Datatype {
    /// The same elements, in one of these buffers: at the address [`address_of_section`] of the buffer's number, and from there on. Size,
    /// bounds and signature stay the same.
    #[must_use]
    pub fn in_sections(old: &Self, sections: &Arc<[Section]>) -> Self {
        let contents = Contents::new(Combiner::Dup).types([old]);
        // Not a block, whatever `old` is: so no call takes the elements for dense ones.
        let layout = Layout::part(old.element(), 0, old.size());
        Self(Repr::Derived(Arc::new(Derived {
            layout: Arc::new(layout),
            signature: Arc::clone(old.signature()),
            bounds: old.bounds(),
            basic: old.parts(),
            contents: Arc::new(contents),
            committed: AtomicBool::new(old.is_committed()),
            number: AtomicU64::new(0),
            sections: Some((old.clone(), Arc::clone(sections))),
        })))
    }

    /// The type of the same elements in ordinary memory: this type, unless it is one of [`in_sections`](Self::in_sections).
    #[inline]
    #[must_use]
    pub fn outside_sections(&self) -> &Self {
        self.sections().map_or(self, |(old, _)| old)
    }

    /// Whether this is a type of [`in_sections`](Self::in_sections).
    #[inline]
    #[must_use]
    pub fn is_in_sections(&self) -> bool {
        self.sections().is_some()
    }

    #[inline]
    fn sections(&self) -> Option<&(Self, Arc<[Section]>)> {
        match &self.0 {
            Repr::Predefined(_) => None,
            Repr::Derived(derived) => derived.sections.as_ref(),
        }
    }

    /// Whether elements lie outside their section: the bytes that they need from `at` on, and the bytes that the section has from there on.
    /// `None` if they are inside, or if this is not a type of [`in_sections`](Self::in_sections).
    #[must_use]
    pub fn lacks(&self, at: i64, count: u64) -> Option<(i64, i64)> {
        let (old, sections) = self.sections()?;
        let (section, by) = section_at(sections, at)?;
        let (low, high) = old.span(count).unwrap_or((i64::MIN, i64::MAX));
        let is_place = |displacement: i64| {
            by.checked_add(displacement).and_then(|displacement| section.place(displacement)).is_some()
        };
        let is_inside = count == 0 || old.size() == 0 || is_place(low) && is_place(high);
        (!is_inside).then(|| (high, section.bytes.size().cast_signed().saturating_sub(by)))
    }

    /// The layout of `count` elements at the address `at` of a section; its displacements are addresses of memory. Empty if this is not a
    /// type of [`in_sections`](Self::in_sections).
    #[cold]
    #[must_use]
    pub fn layout_in_section(&self, at: i64, count: u64) -> Layout {
        let Some((old, sections)) = self.sections() else { return Layout::EMPTY };
        let Some((section, by)) = section_at(sections, at) else { return Layout::EMPTY };
        let layout = old.layout(count);
        let mut parts = Parts { section, by, parts: Vec::new() };
        layout.visit(0, layout.size(), &mut parts);
        Layout::sequence(parts.parts)
    }
}

/// The section with an address, and the displacement of the address in the section.
fn section_at(sections: &[Section], at: i64) -> Option<(&Section, i64)> {
    let from_first = at.wrapping_sub(i64::MIN);
    let section =
        usize::try_from(from_first.div_euclid(APART)).ok().and_then(|number| sections.get(number))?;
    Some((section, from_first.rem_euclid(APART) - APART / 2))
}

/// Collects the parts of a section that the blocks of a layout select.
struct Parts<'a> {
    section: &'a Section,
    by: i64,
    parts: Vec<Layout>,
}

impl Visit for Parts<'_> {
    fn block(&mut self, at: i64, len: u64) {
        let from = self.by.checked_add(at).and_then(|at| self.section.place(at));
        let end = from.and_then(|from| from.checked_add(len)).filter(|&end| end <= self.section.bytes.size());
        // A call checks its elements before (`lacks`).
        if let (Some(from), Some(end)) = (from, end) {
            self.parts.push(Layout::part(&self.section.bytes, from, end));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Predefined;

    struct Bytes(Vec<i64>);

    fn index(place: i64) -> usize {
        usize::try_from(place).expect("not below zero")
    }

    impl Visit for Bytes {
        fn block(&mut self, at: i64, len: u64) {
            self.0.extend(at..at + len.cast_signed());
        }
    }

    fn bytes(datatype: &Datatype, at: i64, count: u64) -> Vec<i64> {
        let layout = datatype.layout_in_section(at, count);
        let mut bytes = Bytes(Vec::new());
        layout.visit(0, layout.size(), &mut bytes);
        assert_eq!(bytes.0.len() as u64, layout.size());
        bytes.0
    }

    /// The address of each byte of a section, computed byte by byte.
    fn addresses(at: i64, element_len: u64, dimensions: &[(u64, i64)]) -> Vec<i64> {
        let mut all: Vec<i64> = (0..element_len.cast_signed()).map(|byte| at + byte).collect();
        for &(len, stride) in dimensions {
            all = (0..len.cast_signed())
                .flat_map(|index| all.iter().map(move |at| at + index * stride))
                .collect();
        }
        all
    }

    #[test]
    fn every_range_of_a_section_is_where_the_array_has_it() {
        let int = Datatype::predefined(Predefined::Int32);
        let pair = Datatype::predefined(Predefined::Int16);
        let holes = Datatype::vector(2, 1, 2, &int).expect("short");
        for dimensions in
            [&[(7, 12)][..], &[(3, -8), (4, 100)], &[(3, 4), (5, 40)], &[(2, 8), (3, 16), (2, 90)]]
        {
            let all = addresses(5000, 4, dimensions);
            let section = Section::of_array(5000, 4, dimensions).expect("short");
            let sections: Arc<[Section]> = vec![Section::around(900), section].into();
            let begin = address_of_section(1);
            for old in [&int, &pair, &holes] {
                let new = Datatype::in_sections(old, &sections);
                assert_eq!((new.size(), new.extent(), new.basic()), (old.size(), old.extent(), old.basic()));
                assert!(!new.is_dense() && new.is_committed() == old.is_committed());
                for first in 0..i64::try_from(all.len()).expect("short") / old.extent() {
                    for count in 0..=(all.len() as u64 / old.extent().unsigned_abs() + 1) {
                        let by = first * old.extent();
                        let (_, high) = old.span(count).expect("short");
                        let is_inside = count == 0 || index(by + high) <= all.len();
                        assert_eq!(new.lacks(begin + by, count).is_none(), is_inside, "{first} {count}");
                        if !is_inside {
                            continue;
                        }
                        let mut selected = Bytes(Vec::new());
                        let layout = old.layout(count);
                        layout.visit(0, layout.size(), &mut selected);
                        let expected: Vec<_> = selected.0.iter().map(|at| all[index(at + by)]).collect();
                        assert_eq!(bytes(&new, begin + by, count), expected);
                    }
                }
            }
        }
    }

    #[test]
    fn memory_around_an_address_is_itself() {
        let int = Datatype::predefined(Predefined::Int32);
        let before = Datatype::hindexed(&[1, 1], &[-8, 4], &int).expect("short");
        let sections: Arc<[Section]> = vec![Section::around(1000)].into();
        let new = Datatype::in_sections(&before, &sections);
        assert_eq!(new.lacks(address_of_section(0), 3), None);
        assert_eq!(bytes(&new, address_of_section(0), 1), [992, 993, 994, 995, 1004, 1005, 1006, 1007]);
        assert_eq!(new.outside_sections(), &before);
    }

    #[test]
    fn every_part_of_a_part_is_the_part_of_the_whole() {
        let int = Datatype::predefined(Predefined::Int32);
        let section = Section::of_array(0, 4, &[(3, 8), (4, 100)]).expect("short");
        let new = Datatype::in_sections(&int, &vec![section].into());
        let all = bytes(&new, address_of_section(0), 12);
        let layout = new.layout_in_section(address_of_section(0) + 8, 9);
        for from in 0..layout.size() {
            for to in from..=layout.size() {
                let mut some = Bytes(Vec::new());
                layout.visit(from, to, &mut some);
                assert_eq!(some.0, all[index(8 + from.cast_signed())..index(8 + to.cast_signed())]);
            }
        }
    }
}
